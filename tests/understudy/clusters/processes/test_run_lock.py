"""The lock of a run folder: one program at a time has it, and it ends with that program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from understudy.clusters.cluster import ClusterError
from understudy.clusters.processes.run_lock import RunLock

HOLDER = """\
import pathlib, sys, time
from understudy.clusters.processes.run_lock import RunLock
lock = RunLock(pathlib.Path(sys.argv[1]))
lock.acquire()
print("locked", flush=True)
time.sleep(600)
"""


def test_a_second_program_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(ClusterError, match=f"in use by another experiment, process {holder.pid}; end it"):
            RunLock(tmp_path).acquire()
        holder.kill()
        holder.wait()
    lock = RunLock(tmp_path)
    lock.acquire()
    lock.release()
    lock.release()


def test_a_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    first, second = RunLock(tmp_path / "new"), RunLock(tmp_path / "new")
    first.acquire()
    with pytest.raises(ClusterError, match="in use"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ClusterError, match=r"file/run cannot be a run folder: Not a directory; give another"):
        RunLock(tmp_path / "file" / "run").acquire()
