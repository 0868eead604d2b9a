"""Tests of the files of a broker: `meta.properties`, and `FileStorage` on a real disk (contract: `test_storage`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from brokers.machine.storage import FileStorage
from brokers.membership.meta_properties import (
    InconsistentMetaProperties,
    MetaProperties,
    check_meta_properties,
    format_meta_properties,
    read_meta_properties,
)
from brokers.world import DirectoryLocked


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


def test_write_that_was_cut_short_leaves_the_old_bytes(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path)
    storage.write("a", b"old")
    (tmp_path / "a.tmp").write_bytes(b"half of the n")
    assert (storage.read("a"), storage.list_folder("")) == (b"old", ("a",))
    storage.write("a", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"new")]


@pytest.mark.parametrize("path", ["link/file", "link"])
def test_no_symbolic_link_leads_out_of_the_directory(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    storage = FileStorage(root)
    (tmp_path / "outside").mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    for operation in (storage.read, storage.delete, lambda where: storage.write(where, b"x")):
        with pytest.raises(ValueError, match="path"):
            operation(path)
    assert sorted(entry.name for entry in tmp_path.rglob("*")) == ["link", "outside", "root"]


def test_empty_folders_are_removed_up_to_the_directory_itself(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path / "root")
    storage.write("a/b/c", b"")
    storage.write("a/d", b"")
    storage.delete("a/b/c")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "d", "root"]
    storage.rename("a/d", "e")
    storage.delete("e")
    assert [path.name for path in tmp_path.rglob("*")] == ["root"]


def test_directory_is_locked_to_one_process_until_that_ends(tmp_path: Path) -> None:
    """With a second process, because the lock excludes processes."""
    script = """
import sys
from pathlib import Path
from brokers.machine.storage import FileStorage
FileStorage(Path(sys.argv[1])).lock()
print("locked", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == "locked\n"
        storage = FileStorage(tmp_path)
        with pytest.raises(
            DirectoryLocked, match=rf"lock on file \.lock in {tmp_path}\. .* give this broker another log\.dirs"
        ):
            storage.lock()
        keeper.kill()
        keeper.wait()
        storage.lock()
