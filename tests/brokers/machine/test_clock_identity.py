"""The identity of the monotonic clock, from the files that Linux has."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.brokers.machine.clock_identity import clock_identity

BOOT_ID = "b507c1e0-b84f-4064-aa30-d2c5be59cf4e"
PRINT = "from understudy.brokers.machine.clock_identity import clock_identity; print(clock_identity().boot)"
IN_NAMESPACE = ("unshare", "-Ur", "-T", "--monotonic", "1000000", "--fork")


def proc(folder: Path, offsets: str | None) -> Path:
    boot = folder / "sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text(BOOT_ID + "\n")
    (folder / "self").mkdir()
    if offsets is not None:
        (folder / "self/timens_offsets").write_text(offsets)
    return folder


@pytest.mark.parametrize(
    ("offsets", "boot"),
    [
        ("monotonic           0         0\nboottime            0         0\n", BOOT_ID),
        ("monotonic     1000000         5\nboottime            7         0\n", f"{BOOT_ID}+1000000000000005ns"),
        ("monotonic          -3         1\nboottime            0         0\n", f"{BOOT_ID}-2999999999ns"),
        ("an unknown format", BOOT_ID),
        (None, BOOT_ID),
    ],
)
def test_a_boot_is_linuxs_boot_id_with_the_offset_of_the_time_namespace(
    tmp_path: Path, offsets: str | None, boot: str
) -> None:
    assert clock_identity(proc(tmp_path, offsets)) == (socket.gethostname(), boot)


def test_a_system_without_a_boot_id_has_an_empty_boot(tmp_path: Path) -> None:
    assert clock_identity(tmp_path) == (socket.gethostname(), "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has boot ids")
def test_processes_of_one_boot_have_the_same_text_and_one_in_a_time_namespace_another() -> None:
    ours = subprocess.run([sys.executable, "-c", PRINT], capture_output=True, text=True, check=True, timeout=60).stdout
    assert ours.strip() == clock_identity().boot != ""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare")
    command = [*IN_NAMESPACE, sys.executable, "-c", PRINT]
    other = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if other.returncode:
        pytest.skip(f"this user can make no time namespace: {other.stderr.strip()}")
    assert other.stdout.strip() == f"{clock_identity().boot}+1000000000000000ns"
