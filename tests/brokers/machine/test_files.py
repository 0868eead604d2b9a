"""Tests of the files of a broker: `meta.properties`, and the lock of its directory (its other tests: `test_disk`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from understudy.brokers.machine.disk import FileDisk
from understudy.brokers.membership.meta_properties import (
    InconsistentMetaProperties,
    MetaProperties,
    check_meta_properties,
    format_meta_properties,
    read_meta_properties,
)
from understudy.brokers.world import DirectoryLocked


@pytest.mark.spec("BR-1", "IO-14")
def test_meta_properties_is_kafkas_version_0() -> None:
    assert (
        format_meta_properties(3, "vPeOCWypqUOSepEvx0cbog")
        == b"version=0\nbroker.id=3\ncluster.id=vPeOCWypqUOSepEvx0cbog\n"
    )
    written_by_kafka = b"#\n#Wed Oct 23 11:00:00 UTC 2024\ncluster.id=c\nversion=0\nbroker.id=3\n"
    assert read_meta_properties(written_by_kafka) == MetaProperties(3, "c")
    assert read_meta_properties(None) == MetaProperties(None, None)


@pytest.mark.spec("BR-1")
@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"version=1\nnode.id=3\n", "Is this a KRaft directory?"),
        (b"version=0\nbroker.id=three\n", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"version=0\nbroker.id=\\u12\n", "cannot be read"),
    ],
)
def test_meta_properties_that_cannot_be_read(data: bytes, part: str) -> None:
    with pytest.raises(InconsistentMetaProperties, match=part.replace("?", r"\?")):
        read_meta_properties(data)


@pytest.mark.spec("BR-1", "IO-14")
@pytest.mark.parametrize(
    ("stored", "part"),
    [
        (MetaProperties(1, "other"), "doesn't match stored clusterId other"),
        (MetaProperties(2, "c"), "Configured broker.id 1 doesn't match stored broker.id 2"),
    ],
)
def test_directory_of_another_broker_or_cluster_is_refused(stored: MetaProperties, part: str) -> None:
    with pytest.raises(InconsistentMetaProperties, match=part):
        check_meta_properties(stored, cluster_id="c", configured_broker_id=1)


@pytest.mark.spec("BR-1")
@pytest.mark.parametrize("stored", [MetaProperties(None, None), MetaProperties(1, "c"), MetaProperties(None, "c")])
def test_directory_of_this_broker_or_a_new_one_is_accepted(stored: MetaProperties) -> None:
    check_meta_properties(stored, cluster_id="c", configured_broker_id=1)
    check_meta_properties(MetaProperties(7, "c"), cluster_id="c", configured_broker_id=-1)


def test_directory_is_locked_to_one_process_until_that_ends(tmp_path: Path) -> None:
    """With a second process, because the lock excludes processes."""
    script = """
import sys
from pathlib import Path
from understudy.brokers.machine.disk import FileDisk
FileDisk(Path(sys.argv[1])).lock()
print("locked", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == "locked\n"
        disk = FileDisk(tmp_path)
        with pytest.raises(
            DirectoryLocked, match=rf"lock on file \.lock in {tmp_path}\. .* give this broker another log\.dirs"
        ):
            disk.lock()
        keeper.kill()
        keeper.wait()
        disk.lock()
