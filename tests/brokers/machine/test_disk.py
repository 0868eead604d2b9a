"""Tests of the `Disk` port on a process's files and on a simulated node's, and of what only files do.

What only a simulated disk does is in `tests/understudy/clusters/simulated/test_disk.py`.
"""

from __future__ import annotations

import errno
import functools
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from understudy.brokers.machine.disk import FileDisk
from understudy.brokers.world import Disk
from understudy.clusters.simulated.disk import SimulatedDisk

FEW = 3
"""How many files the disks of these tests keep open: fewer than the tests use."""


@pytest.fixture(params=["files", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    if request.param == "files":
        return FileDisk(tmp_path / "made" / "on demand", open_files=FEW)
    return SimulatedDisk()


def with_folders(disk: Disk, *folders: str) -> Disk:
    for folder in folders:
        disk.make_folder(folder)
    return disk


# ------------------------------------------------------------------ whole files


@pytest.mark.parametrize("flush", [True, False])
def test_write_replaces_a_file_as_a_whole(disk: Disk, flush: bool) -> None:
    with_folders(disk, "a")
    assert (disk.read("a/b"), disk.size("a/b")) == (None, None)
    disk.write("a/b", b"older", flush=flush)
    disk.write("a/b", b"new", flush=flush)
    disk.write("a/c", b"", flush=flush)
    assert (disk.read("a/b"), disk.size("a/b")) == (b"new", 3)
    assert (disk.read("a/c"), disk.size("a/c")) == (b"", 0)


def test_write_replaces_a_file_that_was_appended_to_and_read(disk: Disk) -> None:
    disk.append("log", b"before")
    assert disk.read_at("log", 0, 6) == b"before"
    disk.write("log", b"after")
    assert disk.read_at("log", 0, 6) == b"after"
    disk.append("log", b"wards")
    assert disk.read("log") == b"afterwards"


# ------------------------------------------------------------------ append, read_at, truncate, flush


def test_append_adds_to_the_end_and_creates_the_file(disk: Disk) -> None:
    with_folders(disk, "orders-0")
    for data in (b"one", bytearray(b""), memoryview(b"-two-")[1:4]):
        disk.append("orders-0/00000000000000000000.log", data)
    disk.append("empty", b"")
    disk.write("whole", b"one")
    disk.append("whole", b"two")
    assert disk.read("orders-0/00000000000000000000.log") == disk.read("whole") == b"onetwo"
    assert (disk.read("empty"), disk.size("whole")) == (b"", 6)


@pytest.mark.parametrize(
    ("position", "size", "expected"),
    [(0, 6, b"onetwo"), (2, 2, b"et"), (4, 9, b"wo"), (6, 1, b""), (9, 1, b""), (0, 0, b"")],
)
def test_read_at_ends_where_the_file_ends(disk: Disk, position: int, size: int, expected: bytes) -> None:
    disk.append("log", b"onetwo")
    assert disk.read_at("log", position, size) == expected


def test_read_at_a_negative_position_is_an_error(disk: Disk) -> None:
    disk.append("log", b"onetwo")
    with pytest.raises(OSError, match="Invalid argument"):
        disk.read_at("log", -2, 2)


@pytest.mark.parametrize(("size", "expected"), [(0, b""), (4, b"onet"), (6, b"onetwo"), (9, b"onetwo")])
def test_truncate_cuts_the_end_off_and_the_next_append_follows(disk: Disk, size: int, expected: bytes) -> None:
    disk.append("log", b"onetwo")
    disk.truncate("log", size)
    assert (disk.read("log"), disk.size("log")) == (expected, len(expected))
    disk.flush("log")
    disk.append("log", b"!")
    assert disk.read("log") == disk.read_at("log", 0, 100) == expected + b"!"


def test_more_files_are_used_than_stay_open(disk: Disk) -> None:
    names = [f"{number}.log" for number in range(4 * FEW)]
    for text in (b"one", b"two", b"three"):
        for name in names:
            disk.append(name, text)
            assert disk.read_at(names[0], 0, 3) == b"one"
    for name in reversed(names):
        assert disk.read_at(name, 3, 100) == b"twothree"
        disk.flush(name)


# ------------------------------------------------------------------ rename and delete


def test_rename_moves_a_file_over_another(disk: Disk) -> None:
    with_folders(disk, "a", "b")
    disk.append("a/old", b"1")
    disk.append("b/new", b"2")
    disk.rename("a/old", "b/new")
    assert (disk.read("a/old"), disk.read("b/new"), disk.list_folder("")) == (None, b"1", ("a", "b"))
    with pytest.raises(FileNotFoundError):
        disk.read_at("a/old", 0, 1)
    disk.append("a/old", b"another")
    disk.append("b/new", b"+")
    assert (disk.read_at("a/old", 0, 9), disk.read_at("b/new", 0, 9)) == (b"another", b"1+")


def test_rename_of_a_file_to_its_own_path_changes_nothing(disk: Disk) -> None:
    disk.append("log", b"1")
    disk.rename("log", "log")
    disk.append("log", b"2")
    assert (disk.read("log"), disk.list_folder("")) == (b"12", ("log",))


def test_rename_moves_a_folder_with_its_files(disk: Disk) -> None:
    with_folders(disk, "orders-0", "orders-0/deep", "orders-01")
    disk.append("orders-0/1.log", b"1")
    disk.append("orders-0/deep/2.log", b"2")
    disk.append("orders-01/1.log", b"other")
    disk.rename("orders-0", "orders-0.0a1b-delete")
    assert disk.list_folder("") == ("orders-0.0a1b-delete", "orders-01")
    assert disk.list_folder("orders-0.0a1b-delete") == ("1.log", "deep")
    assert disk.read_at("orders-0.0a1b-delete/deep/2.log", 0, 9) == b"2"
    with pytest.raises(FileNotFoundError):
        disk.append("orders-0/1.log", b"lost")
    with_folders(disk, "orders-0")
    disk.append("orders-0/1.log", b"of the new topic")
    disk.append("orders-0.0a1b-delete/1.log", b"+")
    disk.append("orders-01/1.log", b"+")
    assert disk.read("orders-0/1.log") == b"of the new topic"
    assert disk.read("orders-0.0a1b-delete/1.log") == b"1+"
    assert disk.read("orders-01/1.log") == b"other+"


def test_rename_replaces_no_folder_and_no_file_by_a_folder(disk: Disk) -> None:
    with_folders(disk, "a", "b", "empty")
    disk.write("a/1", b"1")
    disk.write("b/2", b"2")
    disk.write("file", b"3")
    for path, to in (("a", "b"), ("a", "file"), ("file", "a"), ("a/1", "b"), ("a", "empty"), ("a", "a")):
        with pytest.raises(FileExistsError):
            disk.rename(path, to)
    with pytest.raises(OSError, match="Invalid argument"):
        disk.rename("a", "a/within")
    assert (disk.read("a/1"), disk.read("b/2"), disk.read("file")) == (b"1", b"2", b"3")


def test_rename_creates_no_folder(disk: Disk) -> None:
    disk.write("file", b"1")
    with pytest.raises(FileNotFoundError):
        disk.rename("file", "missing/file")
    with pytest.raises(NotADirectoryError):
        disk.rename("file", "file/within")
    assert (disk.read("file"), disk.list_folder("")) == (b"1", ("file",))


def test_delete_removes_a_file_and_the_next_append_makes_a_new_one(disk: Disk) -> None:
    disk.append("log", b"before")
    disk.delete("log")
    disk.delete("log")
    with pytest.raises(FileNotFoundError):
        disk.read_at("log", 0, 1)
    disk.append("log", b"after")
    assert disk.read_at("log", 0, 100) == disk.read("log") == b"after"


def test_delete_removes_no_folder_and_delete_folder_no_file(disk: Disk) -> None:
    with_folders(disk, "folder")
    disk.write("file", b"1")
    with pytest.raises(OSError, match=r"directory|permitted"):
        disk.delete("folder")
    with pytest.raises(NotADirectoryError):
        disk.delete_folder("file")
    disk.delete("missing/file")
    disk.delete("file/file")
    assert (disk.list_folder(""), disk.read("file")) == (("file", "folder"), b"1")


# ------------------------------------------------------------------ folders


def test_folder_exists_from_its_creation_to_its_deletion(disk: Disk) -> None:
    assert (disk.is_folder("a"), disk.is_folder("")) == (False, True)
    with_folders(disk, "a", "a/deep", "a")
    disk.write("a/1", b"")
    disk.delete("a/1")
    assert (disk.is_folder("a"), disk.list_folder("a"), disk.list_folder("")) == (True, ("deep",), ("a",))
    disk.append("a/deep/2", b"2")
    assert (disk.is_folder("a/deep"), disk.is_folder("a/deep/2")) == (True, False)
    disk.delete_folder("a")
    disk.delete_folder("a")
    assert (disk.is_folder("a"), disk.is_folder("a/deep"), disk.list_folder("")) == (False, False, ())
    assert disk.read("a/deep/2") is None
    with pytest.raises(FileNotFoundError):
        disk.read_at("a/deep/2", 0, 1)


def test_folder_is_created_in_a_folder_that_exists(disk: Disk) -> None:
    disk.write("file", b"1")
    with pytest.raises(FileNotFoundError):
        disk.make_folder("missing/folder")
    with pytest.raises(FileExistsError):
        disk.make_folder("file")
    with pytest.raises(NotADirectoryError):
        disk.make_folder("file/folder")
    assert disk.list_folder("") == ("file",)


def test_folder_lists_its_own_names_in_order(disk: Disk) -> None:
    disk.lock()
    with_folders(disk, "b", "b/deep")
    for path in ("b/deep/3", "b/2", "c", "a", "b/x.tmp"):
        disk.append(path, b"")
    assert disk.list_folder("") == ("a", "b", "c")
    assert disk.list_folder("b") == ("2", "deep")
    assert (disk.list_folder("a"), disk.list_folder("missing"), disk.list_folder("a/below")) == ((), (), ())


def test_flush_of_a_folder_needs_the_folder(disk: Disk) -> None:
    with_folders(disk, "a")
    disk.append("a/1", b"1")
    disk.flush_directory("a")
    disk.flush_directory("")
    with pytest.raises(FileNotFoundError):
        disk.flush_directory("missing")
    with pytest.raises(NotADirectoryError):
        disk.flush_directory("a/1")


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    "operation",
    [
        lambda disk: disk.read_at("missing", 0, 1),
        lambda disk: disk.truncate("missing", 0),
        lambda disk: disk.flush("missing"),
        lambda disk: disk.rename("missing", "to"),
        lambda disk: disk.write("missing/file", b"x"),
        lambda disk: disk.append("missing/file", b"x"),
        lambda disk: disk.append("missing/deeper/file", b"x"),
    ],
)
def test_missing_file_or_folder_is_an_error_for_operations_that_need_it(
    disk: Disk, operation: Callable[[Disk], object]
) -> None:
    with pytest.raises(FileNotFoundError):
        operation(disk)
    assert disk.list_folder("") == ()


def test_folder_is_no_file_and_a_file_no_folder(disk: Disk) -> None:
    with_folders(disk, "a")
    disk.write("a/b", b"1")
    operations: list[Callable[[str], object]] = [
        lambda path: disk.write(path, b"2"),
        lambda path: disk.append(path, b"2"),
        lambda path: disk.read_at(path, 0, 1),
        lambda path: disk.truncate(path, 0),
        disk.flush,
    ]
    for operation in operations:
        with pytest.raises(IsADirectoryError):
            operation("a")
        with pytest.raises(NotADirectoryError):
            operation("a/b/c")
    with pytest.raises(IsADirectoryError):
        disk.read("a")
    assert (disk.size("a"), disk.size("a/b/c"), disk.read("a/b/c"), disk.is_folder("a/b/c")) == (
        None,
        None,
        None,
        False,
    )
    assert (disk.read("a/b"), disk.list_folder("a")) == (b"1", ("b",))


@pytest.mark.parametrize(
    "path", ["../outside", "/etc/passwd", "a/../../outside", "a/..", "..", ".", "a//b", "./a", "a/", "nul\0", "a\0/b"]
)
def test_paths_outside_the_directory_or_not_in_their_plain_form_are_refused(disk: Disk, path: str) -> None:
    disk.write("inside", b"")
    for operation in (*of_a_file(disk), *of_a_folder(disk)):
        with pytest.raises(ValueError, match="path"):
            operation(path)
    assert disk.list_folder("") == ("inside",)


def test_directory_itself_is_no_file_and_is_not_deleted(disk: Disk) -> None:
    disk.write("inside", b"")
    for operation in of_a_file(disk):
        with pytest.raises(ValueError, match="path"):
            operation("")
    disk.make_folder("")
    assert disk.list_folder("") == ("inside",)


def of_a_file(disk: Disk) -> list[Callable[[str], object]]:
    """All operations on the path of a file, or of a folder below the node's directory."""
    return [
        disk.read,
        disk.size,
        disk.flush,
        disk.delete,
        disk.delete_folder,
        lambda path: disk.read_at(path, 0, 1),
        lambda path: disk.write(path, b"x"),
        lambda path: disk.append(path, b"x"),
        lambda path: disk.truncate(path, 0),
        lambda path: disk.rename(path, "to"),
        lambda path: disk.rename("inside", path),
    ]


def of_a_folder(disk: Disk) -> list[Callable[[str], object]]:
    return [disk.list_folder, disk.is_folder, disk.make_folder, disk.flush_directory]


# ------------------------------------------------------------------ both disks, side by side


@pytest.mark.parametrize("seed", range(12))
def test_both_disks_answer_alike_whatever_is_done_to_them(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    files, simulated = FileDisk(tmp_path, open_files=2), SimulatedDisk()
    paths = ["a", "b", "a/1", "a/2", "b/1", "a/a", "a/a/1", "b/a", "c"]
    for step in range(400):
        operation = draw_operation(source, paths)
        answers = [answer(operation, files), answer(operation, simulated)]
        assert answers[0] == answers[1], (step, operation)
    for path in paths:
        for look in (Disk.size, Disk.is_folder, Disk.list_folder, Disk.read):
            question = functools.partial(call, look.__name__, path)
            assert answer(question, files) == answer(question, simulated), path


def draw_operation(source: random.Random, paths: list[str]) -> Callable[[Disk], object]:
    path, number = source.choice(paths), source.randint(0, 6)
    arguments: dict[str, tuple[object, ...]] = {
        "append": (path, bytes([48 + number]) * number),
        "read_at": (path, number, source.randint(0, 6)),
        "truncate": (path, number),
        "write": (path, b"whole"),
        "flush": (path,),
        "flush_directory": (path,),
        "make_folder": (path,),
        "rename": (path, source.choice(paths)),
        "delete": (path,),
        "delete_folder": (path,),
        "list_folder": (path,),
        "read": (path,),
    }
    # Folders are created more often than deleted, or most operations would find nothing.
    name = source.choice((*arguments, "append", "append", "read_at", "read_at", "make_folder", "make_folder"))
    return functools.partial(call, name, *arguments[name])


def call(name: str, *arguments: object, disk: Disk) -> object:
    return getattr(disk, name)(*arguments)


def answer(operation: Callable[..., object], disk: Disk) -> object:
    """What the operation returns, or the kind of its error."""
    try:
        return operation(disk=disk)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


# ------------------------------------------------------------------ files only


@pytest.mark.parametrize("path", ["link/file", "link", "inner/file", "dangling"])
def test_no_part_of_a_path_is_a_symbolic_link(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    disk = FileDisk(root)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"outside")
    disk.make_folder("folder")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "inner").symlink_to(root / "folder")
    (root / "dangling").symlink_to(tmp_path / "outside" / "new")
    disk.write("inside", b"")
    for operation in (*of_a_file(disk), *of_a_folder(disk)):
        with pytest.raises(ValueError, match="symbolic link"):
            operation(path)
    assert [entry.name for entry in (tmp_path / "outside").iterdir()] == ["file"]
    assert (tmp_path / "outside" / "file").read_bytes() == b"outside"


def test_delete_folder_leaves_what_a_symbolic_link_in_it_leads_to(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path / "root")
    disk.make_folder("folder")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"outside")
    (tmp_path / "root" / "folder" / "link").symlink_to(tmp_path / "outside")
    disk.delete_folder("folder")
    assert (disk.list_folder(""), (tmp_path / "outside" / "file").read_bytes()) == ((), b"outside")


def test_short_writes_and_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, pread = os.write, os.pread
    disk = FileDisk(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
        patched.setattr(os, "pread", lambda descriptor, size, position: pread(descriptor, min(size, 4), position))
        disk.append("log", b"0123456789")
        disk.append("log", memoryview(b"abcdef"))
        assert disk.read_at("log", 1, 100) == b"123456789abcdef"
        assert disk.read_at("log", 5, 7) == b"56789ab"
    assert disk.read("log") == b"0123456789abcdef"


def test_append_that_fills_the_disk_raises_and_keeps_what_had_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, room = os.write, 5

    def full(descriptor: int, data: memoryview) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(descriptor, data[:room])
        room -= written
        return written

    disk = FileDisk(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            disk.append("log", b"0123456789")
    assert disk.read_at("log", 0, 100) == b"01234"
    disk.append("log", b"+")
    assert disk.read("log") == b"01234+"


def test_write_that_has_no_room_keeps_the_old_bytes(tmp_path: Path) -> None:
    """With a limit for the size of a file, in another process because it holds for a whole process."""
    script = """
import resource, signal, sys
sys.dont_write_bytecode = True
from pathlib import Path
from understudy.brokers.machine.disk import FileDisk
disk = FileDisk(Path(sys.argv[1]))
disk.write("checkpoint", b"old")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
for failing in (lambda: disk.write("checkpoint", bytes(1000)), lambda: disk.append("log", bytes(1000))):
    try:
        failing()
    except OSError as error:
        print(error.errno)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == [str(errno.EFBIG)] * 2
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == {"checkpoint": 3, "log": 100}


def test_write_that_was_cut_short_leaves_the_old_bytes(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.write("a", b"old")
    (tmp_path / "a.tmp").write_bytes(b"half of the n")
    assert (disk.read("a"), disk.list_folder("")) == (b"old", ("a",))
    disk.write("a", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"new")]


def test_flushes_reach_the_operating_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []

    def fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        flushed.extend(path.name for path in (tmp_path, *tmp_path.rglob("*")) if path.stat().st_ino == status.st_ino)

    disk = FileDisk(tmp_path)
    monkeypatch.setattr(os, "fsync", fsync)
    disk.make_folder("folder")
    disk.append("folder/log", b"1")
    disk.write("folder/lazy", b"1", flush=False)
    disk.rename("folder/log", "folder/log.deleted")
    disk.delete("folder/lazy")
    assert flushed == []
    disk.flush("folder/log.deleted")
    disk.flush_directory("folder")
    disk.flush_directory("")
    disk.write("folder/checkpoint", b"1")
    assert flushed == ["log.deleted", "folder", tmp_path.name, "checkpoint.tmp", "folder"]


@pytest.mark.parametrize("operation", [Disk.flush, Disk.flush_directory])
def test_failed_flush_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: Callable[[Disk, str], None]
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    disk = FileDisk(tmp_path)
    disk.make_folder("folder")
    disk.append("log", b"1")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error"):
        getattr(disk, operation.__name__)("log" if operation is Disk.flush else "folder")


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc/self/fd, which only Linux has"
)


def open_below(root: Path) -> int:
    """How many descriptors of this process are of files below `root`, deleted or not."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = str(link.readlink())
        except FileNotFoundError:
            continue  # the descriptor of this listing
        found += target.startswith(f"{root}/")
    return found


@needs_proc
def test_open_files_are_bounded_and_closed_with_their_names(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path, open_files=5)
    with_folders(disk, "a", "ab", "b")
    for number in range(30):
        disk.append(f"{number}.log", b"1")
        disk.read_at(f"{number // 2}.log", 0, 1)
        disk.flush(f"{number}.log")
        assert open_below(tmp_path) <= 5
    for path in ("a/1", "a/2", "ab/1", "b/1", "log"):
        disk.append(path, b"1")
    assert open_below(tmp_path) == 5
    disk.rename("a", "c")
    assert open_below(tmp_path) == 3
    disk.rename("log", "log.deleted")
    assert open_below(tmp_path) == 2
    disk.delete_folder("b")
    assert open_below(tmp_path) == 1
    disk.delete("ab/1")
    assert open_below(tmp_path) == 0


@needs_proc
def test_open_files_leave_room_where_a_process_may_open_few(tmp_path: Path) -> None:
    """In another process because the limit holds for a whole process."""
    script = """
import os, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from understudy.brokers.machine.disk import FileDisk
disk = FileDisk(Path(sys.argv[1]))
for number in range(200):
    disk.append(f"{number}.log", b"1")
print(sum(os.readlink(f"/proc/self/fd/{name}").endswith(".log") for name in os.listdir("/proc/self/fd")[:-1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "16\n"


@needs_proc
def test_threads_read_and_flush_beside_appends_renames_and_evictions(tmp_path: Path) -> None:
    """Each file holds its own number again and again: a descriptor of another file would show another number."""
    disk = FileDisk(tmp_path, open_files=2)
    numbers = range(8)
    with_folders(disk, "folder")
    for number in numbers:
        disk.append(f"{number}.log", bytes([number]) * 64)
    done = threading.Event()

    def read(seed: int) -> int:
        source, reads = random.Random(seed), 0
        while not done.is_set():
            number = source.choice(numbers)
            data = disk.read_at(f"{number}.log", source.randint(0, 63), 64)
            assert set(data) == {number}
            reads += 1
        return reads

    def flush(seed: int) -> int:
        source, flushes = random.Random(seed), 0
        while not done.is_set():
            disk.flush(f"{source.choice(numbers)}.log")
            flushes += 1
        return flushes

    def read_moving() -> int:
        found = 0
        while not done.is_set():
            try:
                assert set(disk.read_at("moving.log", 0, 100)) <= {255}
                found += 1
            except FileNotFoundError:
                pass
        return found

    with ThreadPoolExecutor(4) as threads:
        working = [
            threads.submit(read, 1),
            threads.submit(read, 2),
            threads.submit(flush, 3),
            threads.submit(read_moving),
        ]
        try:
            source, appended = random.Random(4), [64] * len(numbers)
            for step in range(1_000):
                number = source.choice(numbers)
                disk.append(f"{number}.log", bytes([number]) * 10)
                appended[number] += 10
                if step % 5 == 0:
                    disk.append("moving.log", b"\xff" * 10)
                    disk.rename("moving.log", "folder/moved.log")
                    assert disk.read("folder/moved.log") == b"\xff" * 10
                    disk.delete("folder/moved.log")
        finally:
            done.set()
        assert all(thread.result(timeout=60) > 0 for thread in working[:3])
        working[3].result(timeout=60)
    for number in numbers:
        assert disk.read(f"{number}.log") == bytes([number]) * appended[number]
    assert open_below(tmp_path) <= 2
