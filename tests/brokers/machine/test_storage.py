"""Tests of the `Storage` port, on the files of a process and on those of a simulated node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from brokers.machine.storage import FileStorage
from brokers.world import Storage
from understudy.simulator.cluster import SimulatedCluster
from understudy.simulator.world import SimulatedStorage


@pytest.fixture(params=["files", "simulated"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return FileStorage(tmp_path / "made" / "on demand") if request.param == "files" else SimulatedStorage()


def test_write_replaces_a_file_as_a_whole(storage: Storage) -> None:
    assert (storage.read("a/b"), storage.size("a/b")) == (None, None)
    storage.write("a/b", b"older")
    storage.write("a/b", b"new")
    storage.write("a/c", b"")
    assert (storage.read("a/b"), storage.size("a/b")) == (b"new", 3)
    assert (storage.read("a/c"), storage.size("a/c")) == (b"", 0)


def test_append_adds_to_the_end_and_creates_the_file(storage: Storage) -> None:
    for data in (b"one", b"", b"two"):
        storage.append("orders-0/00000000000000000000.log", data)
    storage.write("whole", b"one")
    storage.append("whole", b"two")
    assert storage.read("orders-0/00000000000000000000.log") == storage.read("whole") == b"onetwo"


@pytest.mark.parametrize(
    ("position", "size", "expected"),
    [(0, 6, b"onetwo"), (2, 2, b"et"), (4, 9, b"wo"), (6, 1, b""), (9, 1, b""), (0, 0, b"")],
)
def test_read_range_ends_where_the_file_ends(storage: Storage, position: int, size: int, expected: bytes) -> None:
    storage.append("log", b"onetwo")
    assert storage.read_range("log", position, size) == expected


@pytest.mark.parametrize(("size", "expected"), [(0, b""), (4, b"onet"), (6, b"onetwo"), (9, b"onetwo")])
def test_truncate_cuts_the_end_off_and_the_next_append_follows(storage: Storage, size: int, expected: bytes) -> None:
    storage.append("log", b"onetwo")
    storage.truncate("log", size)
    assert (storage.read("log"), storage.size("log")) == (expected, len(expected))
    storage.flush("log")
    storage.append("log", b"!")
    assert storage.read("log") == expected + b"!"


def test_rename_moves_a_file_over_another(storage: Storage) -> None:
    storage.write("a/old", b"1")
    storage.write("b/new", b"2")
    storage.rename("a/old", "b/new")
    assert (storage.read("a/old"), storage.read("b/new"), storage.list_folder("")) == (None, b"1", ("b",))


def test_rename_moves_a_folder_with_its_files(storage: Storage) -> None:
    storage.append("orders-0/1.log", b"1")
    storage.append("orders-0/2.log", b"2")
    storage.append("orders-01/1.log", b"other")
    storage.rename("orders-0", "orders-0.0a1b-delete")
    assert storage.list_folder("") == ("orders-0.0a1b-delete", "orders-01")
    assert storage.list_folder("orders-0.0a1b-delete") == ("1.log", "2.log")
    assert storage.read("orders-0.0a1b-delete/2.log") == b"2"


def test_rename_replaces_no_folder_and_no_file_by_a_folder(storage: Storage) -> None:
    storage.write("a/1", b"1")
    storage.write("b/2", b"2")
    storage.write("file", b"3")
    for path, to in (("a", "b"), ("a", "file"), ("file", "a"), ("a/1", "b")):
        with pytest.raises(FileExistsError):
            storage.rename(path, to)
    assert (storage.read("a/1"), storage.read("b/2"), storage.read("file")) == (b"1", b"2", b"3")


def test_folder_lists_its_own_names_and_exists_while_it_holds_a_file(storage: Storage) -> None:
    storage.lock()
    for path in ("b/2", "b/deep/3", "a", "c"):
        storage.write(path, b"")
    assert storage.list_folder("") == ("a", "b", "c")
    assert storage.list_folder("b") == ("2", "deep")
    assert (storage.list_folder("a"), storage.list_folder("missing")) == ((), ())
    storage.delete("b/deep/3")
    storage.delete("b/deep/3")
    assert storage.list_folder("b") == ("2",)
    storage.delete("b/2")
    assert storage.list_folder("") == ("a", "c")


@pytest.mark.parametrize(
    "operation",
    [
        lambda storage: storage.read_range("missing", 0, 1),
        lambda storage: storage.truncate("missing", 0),
        lambda storage: storage.flush("missing"),
        lambda storage: storage.rename("missing", "to"),
    ],
)
def test_missing_file_is_an_error_for_operations_that_need_it(
    storage: Storage, operation: Callable[[Storage], object]
) -> None:
    with pytest.raises(FileNotFoundError):
        operation(storage)
    assert storage.list_folder("") == ()


def test_file_is_not_written_below_a_file_or_over_a_folder(storage: Storage) -> None:
    storage.write("a/b", b"1")
    for path in ("a", "a/b/c"):
        for operation in (storage.write, storage.append):
            with pytest.raises(OSError, match=r"directory|exists"):
                operation(path, b"2")
    assert (storage.read("a/b"), storage.list_folder("a")) == (b"1", ("b",))


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../outside", "a/..", "..", "", "nul\0"])
def test_paths_outside_the_directory_are_refused(storage: Storage, path: str) -> None:
    storage.write("inside", b"")
    operations: list[Callable[[str], object]] = [
        storage.read,
        storage.size,
        storage.flush,
        storage.delete,
        lambda path: storage.read_range(path, 0, 1),
        lambda path: storage.write(path, b"x"),
        lambda path: storage.append(path, b"x"),
        lambda path: storage.truncate(path, 0),
        lambda path: storage.rename(path, "to"),
        lambda path: storage.rename("inside", path),
    ]
    for operation in operations:
        with pytest.raises(ValueError, match="path"):
            operation(path)
    assert storage.list_folder("") == ("inside",)


def test_simulated_crash_loses_what_was_not_flushed() -> None:
    """A real crash may lose less; a simulated one always loses all of it."""
    with SimulatedCluster(1, brokers=1) as cluster:
        cluster.start()
        broker = cluster.broker(1)
        storage = broker.node.storage
        storage.append("log", b"flushed")
        storage.flush("log")
        storage.append("log", b", not flushed")
        storage.append("new", b"not flushed")
        broker.kill()
        assert (storage.read("log"), storage.read("new")) == (b"flushed", b"")
        assert storage.read("meta.properties"), "written as a whole, so durable"
        storage.append("log", b" again")
        storage.truncate("log", 5)
        storage.lose_unflushed()
        assert storage.read("log") == b"flush"
