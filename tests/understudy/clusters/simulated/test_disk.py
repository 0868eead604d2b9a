"""Tests of what only a simulated disk does: losses of power, and faults by rule. The port's are in brokers/machine."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import pytest

from understudy.clusters.cluster import ClusterError
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.disk import SimulatedDisk
from understudy.clusters.simulated.disk_faults import OPERATIONS
from understudy.foundation.eventlog.records import FaultInjected
from understudy.history.reading.lines import decode_record

SEEDS = range(200)


def after_power_loss(prepare: Callable[[SimulatedDisk], None], seed: int) -> SimulatedDisk:
    disk = SimulatedDisk()
    prepare(disk)
    disk.lose_power(random.Random(seed))
    return disk


def contents(disk: SimulatedDisk, folder: str = "") -> dict[str, bytes]:
    """The bytes of all files below `folder`, by path."""
    found: dict[str, bytes] = {}
    for name in disk.list_folder(folder):
        path = f"{folder}/{name}" if folder else name
        if disk.is_folder(path):
            found |= contents(disk, path)
        else:
            found[path] = disk.read(path) or b""
    return found


# ------------------------------------------------------------------ bytes


def test_loss_of_power_keeps_a_prefix_of_each_file_with_all_that_was_flushed() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        disk.append("log", b"flushed, ")
        disk.flush("log")
        disk.flush_directory("")
        disk.append("log", b"not flushed, ")
        disk.append("log", b"nor this")

    survivors = {after_power_loss(prepare, seed).read("log") or b"" for seed in SEEDS}
    whole = b"flushed, not flushed, nor this"
    assert all(survivor.startswith(b"flushed, ") and whole.startswith(survivor) for survivor in survivors)
    assert {b"flushed, ", whole} < survivors, "none and all of the rest"
    assert any(len(b"flushed, ") < len(survivor) < 21 for survivor in survivors), "an append that is torn"
    assert any(21 < len(survivor) < len(whole) for survivor in survivors), "one append whole and the next one torn"


def test_what_survived_one_loss_of_power_survives_the_next() -> None:
    for seed in SEEDS:
        disk = SimulatedDisk()
        disk.make_folder("orders-0")
        disk.append("orders-0/log", b"not flushed")
        disk.lose_power(random.Random(seed))
        survived = contents(disk)
        disk.lose_power(random.Random(-seed))
        assert contents(disk) == survived


def test_truncation_is_durable_at_once_and_what_follows_is_not() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        disk.append("log", b"onetwo")
        disk.flush("log")
        disk.flush_directory("")
        disk.truncate("log", 3)
        disk.append("log", b"!!")

    assert {after_power_loss(prepare, seed).read("log") for seed in SEEDS} == {b"one", b"one!", b"one!!"}


def test_write_is_durable_and_without_flush_may_be_undone_or_cut() -> None:
    def durable(disk: SimulatedDisk) -> None:
        disk.make_folder("a")
        disk.flush_directory("")
        disk.write("a/checkpoint", b"old")
        disk.write("a/checkpoint", b"newer")

    def not_flushed(disk: SimulatedDisk) -> None:
        durable(disk)
        disk.write("a/checkpoint", b"NEWEST", flush=False)

    assert {after_power_loss(durable, seed).read("a/checkpoint") for seed in SEEDS} == {b"newer"}
    survivors = {after_power_loss(not_flushed, seed).read("a/checkpoint") for seed in SEEDS}
    assert survivors == {b"newer", *(b"NEWEST"[:size] for size in range(7))}


def test_same_seed_loses_the_same() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        for number in range(20):
            disk.make_folder(f"orders-{number}")
            disk.append(f"orders-{number}/log", bytes(100))
        for number in range(0, 20, 3):
            disk.rename(f"orders-{number}", f"orders-{number}-delete")

    assert contents(after_power_loss(prepare, 5)) == contents(after_power_loss(prepare, 5))
    assert len({str(contents(after_power_loss(prepare, seed))) for seed in range(10)}) > 3


# ------------------------------------------------------------------ names


def test_name_of_a_new_file_survives_once_its_folder_is_flushed() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        disk.append("flushed", b"1")
        disk.flush_directory("")
        disk.append("not flushed", b"1")
        disk.flush("not flushed")

    found = {after_power_loss(prepare, seed).list_folder("") for seed in SEEDS}
    assert found == {("flushed",), ("flushed", "not flushed")}


def test_folder_that_was_not_flushed_in_its_own_folder_vanishes_with_its_files() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        disk.make_folder("orders-0")
        disk.append("orders-0/log", b"1")
        disk.flush("orders-0/log")
        disk.flush_directory("orders-0")

    found = {str(contents(after_power_loss(prepare, seed))) for seed in SEEDS}
    assert found == {"{}", "{'orders-0/log': b'1'}"}


@pytest.mark.parametrize("flushed", ["a", "b"])
def test_rename_to_another_folder_survives_the_flush_of_either(flushed: str) -> None:
    def prepare(disk: SimulatedDisk) -> None:
        for folder in ("a", "b"):
            disk.make_folder(folder)
        disk.flush_directory("")
        disk.append("a/log", b"1")
        disk.rename("a/log", "b/log")
        disk.flush("b/log")
        disk.flush_directory(flushed)

    for seed in SEEDS:
        assert contents(after_power_loss(prepare, seed)) == {"b/log": b"1"}


def test_rename_of_a_folder_and_deletions_may_be_undone_as_a_whole() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        for folder in ("orders-0", "orders-1"):
            disk.make_folder(folder)
            disk.write(f"{folder}/log", folder.encode())
        disk.flush_directory("")
        disk.rename("orders-0", "orders-0-delete")
        disk.delete("orders-1/log")

    found = [contents(after_power_loss(prepare, seed)) for seed in SEEDS]
    assert {tuple(sorted(one)) for one in found} == {
        ("orders-0/log", "orders-1/log"),
        ("orders-0-delete/log", "orders-1/log"),
        ("orders-0/log",),
        ("orders-0-delete/log",),
    }
    for one in found:
        assert all(path.startswith(data.decode()) for path, data in one.items())


def test_folders_that_change_places_are_never_inside_each_other() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        disk.make_folder("a")
        disk.make_folder("a/b")
        disk.flush_directory("")
        disk.write("a/1", b"1")
        disk.write("a/b/2", b"2")
        disk.rename("a/b", "b")
        disk.rename("a", "b/a")

    found = {tuple(contents(after_power_loss(prepare, seed))) for seed in SEEDS}
    assert found == {("a/1", "b/2"), ("b/2", "b/a/1")}


def test_deleted_folder_is_back_in_part_only_as_long_as_its_folder_was_not_flushed() -> None:
    def prepare(disk: SimulatedDisk) -> None:
        disk.make_folder("a")
        disk.write("a/1", b"1")
        disk.write("a/2", b"2")
        disk.flush_directory("")
        disk.delete_folder("a")

    def flushed(disk: SimulatedDisk) -> None:
        prepare(disk)
        disk.flush_directory("")

    found = {str((disk.is_folder("a"), contents(disk))) for disk in (after_power_loss(prepare, s) for s in SEEDS)}
    assert {"(False, {})", "(True, {})", "(True, {'a/1': b'1'})", "(True, {'a/1': b'1', 'a/2': b'2'})"} <= found
    assert all(contents(after_power_loss(flushed, seed)) == {} for seed in SEEDS)


@pytest.mark.parametrize("seed", range(100))
def test_flushed_bytes_and_names_survive_and_no_file_is_lost_or_doubled(seed: int) -> None:
    """Random work on a few paths. Every file holds its own number again and again, and is flushed with its folder
    when it is created, so that it must be there under exactly one of the names that it has had since, unless it was
    deleted or replaced: then it may be there or not.
    """
    source = random.Random(seed)
    disk = SimulatedDisk()
    folders, names = ("", "a/", "b/"), ("1", "2", "3")
    disk.make_folder("a")
    disk.make_folder("b")
    disk.flush_directory("")
    now: dict[str, int] = {}
    flushed: dict[int, int] = {}
    """How many bytes of each file are flushed, by its number."""
    sizes: dict[int, int] = {}
    past: dict[int, set[str]] = {}
    """The names of each file since the last flush of its folder."""
    for _ in range(source.randint(1, 60)):
        path = source.choice(folders) + source.choice(names)
        match source.choice(("create", "append", "append", "flush", "flush names", *["rename"] * 9, "delete")):
            case "create" if path not in now:
                number = now[path] = len(sizes)
                disk.append(path, bytes([number]) * 3)
                disk.flush(path)
                disk.flush_directory(path.rpartition("/")[0])
                flushed[number], sizes[number], past[number] = 3, 3, {path}
            case "append" if path in now:
                disk.append(path, bytes([now[path]]) * 5)
                sizes[now[path]] += 5
            case "flush" if path in now:
                disk.flush(path)
                flushed[now[path]] = sizes[now[path]]
            case "flush names" if path in now:
                disk.flush_directory(path.rpartition("/")[0])
                past[now[path]] = {path}
            case "rename" if path in now:
                to = source.choice(folders) + source.choice(names)
                disk.rename(path, to)
                now[to] = now.pop(path)
                past[now[to]].add(to)
            case "delete" if path in now:
                disk.delete(path)
                del now[path]
    disk.lose_power(source)
    found = contents(disk)
    numbers = [data[0] for data in found.values()]
    assert len(set(numbers)) == len(numbers), "no file has two names"
    assert set(now.values()) <= set(numbers), "no file that has a name loses it"
    for path, data in found.items():
        number = data[0]
        assert data == bytes([number]) * len(data)
        assert flushed[number] <= len(data) <= sizes[number]
        assert path in past[number]
    assert disk.volume().usable_bytes == disk.volume_bytes - sum(map(len, found.values()))


def test_oldest_of_very_many_changes_of_names_are_durable() -> None:
    """The operating system writes them some time; what could be undone would grow without end."""

    def prepare(disk: SimulatedDisk) -> None:
        for number in range(3_000):
            disk.append(f"{number:04}", b"")

    found = [len(after_power_loss(prepare, seed).list_folder("")) for seed in range(20)]
    assert {2_000, 3_000} <= set(found)
    assert min(found) == 2_000


# ------------------------------------------------------------------ faults by rule


def test_rule_fails_an_operation_below_a_path_so_often_or_until_faults_end() -> None:
    disk = SimulatedDisk()
    disk.make_folder("orders-0")
    disk.append("orders-0/log", b"123456")
    disk.append("other", b"1")
    disk.faults.fail("orders-0/", "read_at", errno.EIO, times=2)
    disk.faults.fail("orders-0", "truncate", errno.EIO)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error") as failure:
            disk.read_at("orders-0/log", 0, 1)
        assert (failure.value.errno, failure.value.filename) == (errno.EIO, "orders-0/log")
        with pytest.raises(OSError, match="Input/output error"):
            disk.truncate("orders-0/log", 0)
    assert (disk.read_at("orders-0/log", 0, 1), disk.read_at("other", 0, 1)) == (b"1", b"1")
    with pytest.raises(OSError, match="Input/output error"):
        disk.truncate("orders-0/log", 0)
    disk.faults.clear()
    disk.truncate("orders-0/log", 0)
    assert disk.read("orders-0/log") == b""


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_can_fail_and_changes_nothing_then(operation: str) -> None:
    disk = SimulatedDisk()
    disk.make_folder("a")
    disk.write("a/1", b"1")
    calls: dict[str, Callable[[], object]] = {
        "append": lambda: disk.append("a/1", b"2"),
        "delete": lambda: disk.delete("a/1"),
        "delete_folder": lambda: disk.delete_folder("a"),
        "flush": lambda: disk.flush("a/1"),
        "flush_directory": lambda: disk.flush_directory("a"),
        "list_folder": lambda: disk.list_folder("a"),
        "make_folder": lambda: disk.make_folder("a/2"),
        "read": lambda: disk.read("a/1"),
        "read_at": lambda: disk.read_at("a/1", 0, 1),
        "rename": lambda: disk.rename("a/1", "a/2"),
        "truncate": lambda: disk.truncate("a/1", 0),
        "volume": lambda: disk.volume(),
        "write": lambda: disk.write("a/1", b"2"),
    }
    disk.faults.fail("", operation, errno.EIO, times=1)
    with pytest.raises(OSError, match="Input/output error"):
        calls[operation]()
    assert contents(disk) == {"a/1": b"1"}
    if not operation.startswith("flush"):
        calls[operation]()


def test_rule_for_an_unknown_operation_is_refused() -> None:
    with pytest.raises(ValueError, match="no operation 'fsync' can fail; the operations are append, delete"):
        SimulatedDisk().faults.fail("", "fsync", errno.EIO)


def test_append_that_fails_by_rule_adds_half_of_its_data() -> None:
    disk = SimulatedDisk()
    disk.append("log", b"whole,")
    disk.faults.fail("log", "append", errno.ENOSPC, times=1)
    with pytest.raises(OSError, match="No space left"):
        disk.append("log", b"half,lost")
    assert disk.read("log") == b"whole,half"
    disk.append("log", b"!")
    assert disk.read("log") == b"whole,half!"


def test_full_volume_takes_what_has_room_until_space_is_freed() -> None:
    disk = SimulatedDisk(volume_bytes=10)
    disk.append("log", b"12345678")
    with pytest.raises(OSError, match="No space left") as failure:
        disk.append("log", memoryview(b"90abc"))
    assert (failure.value.errno, disk.read("log"), disk.volume()) == (errno.ENOSPC, b"1234567890", (10, 0))
    with pytest.raises(OSError, match="No space left"):
        disk.append("log", b"x")
    with pytest.raises(OSError, match="No space left"):
        disk.write("checkpoint", b"x")
    assert (disk.read("log"), disk.read("checkpoint")) == (b"1234567890", None)
    disk.truncate("log", 6)
    disk.write("checkpoint", b"old")
    with pytest.raises(OSError, match="No space left"):
        disk.write("checkpoint", b"new")
    assert (disk.read("checkpoint"), disk.volume()) == (b"old", (10, 1))
    disk.append("another", b"x")
    disk.rename("another", "log")
    assert disk.volume() == (10, 6)
    disk.delete("log")
    disk.make_folder("folder")
    disk.append("folder/log", b"1234567")
    assert disk.volume() == (10, 0)
    disk.delete_folder("folder")
    assert disk.volume() == (10, 7)
    disk.volume_bytes = 1
    assert disk.volume() == (1, 0)
    with pytest.raises(OSError, match="No space left"):
        disk.append("log", b"x")


# ------------------------------------------------------------------ failed flushes


def test_failed_flush_is_never_repeated_and_loses_the_bytes() -> None:
    for seed in SEEDS:
        disk = SimulatedDisk()
        disk.append("log", b"flushed")
        disk.flush("log")
        disk.flush_directory("")
        disk.append("log", b", not flushed")
        disk.faults.fail("log", "flush", errno.EIO, times=1)
        with pytest.raises(OSError, match="Input/output error"):
            disk.flush("log")
        assert disk.read("log") == b"flushed, not flushed", "the operating system still has them"
        with pytest.raises(AssertionError, match="log is flushed again after a flush of it has failed"):
            disk.flush("log")
        disk.end_process()
        disk.append("log", b", appended by the next process")
        disk.flush("log")
        disk.lose_power(random.Random(seed))
        assert disk.read("log") == b"flushed"
        disk.append("log", b" anew")
        disk.flush("log")
        disk.lose_power(random.Random(seed))
        assert disk.read("log") == b"flushed anew"


def test_file_that_is_truncated_to_its_flushed_bytes_has_none_that_are_lost() -> None:
    disk = SimulatedDisk()
    disk.append("log", b"flushed, lost")
    disk.flush_directory("")
    disk.truncate("log", 7)
    disk.flush("log")
    disk.append("log", b", lost")
    disk.faults.fail("log", "flush", errno.EIO, times=1)
    with pytest.raises(OSError, match="Input/output error"):
        disk.flush("log")
    disk.end_process()
    disk.truncate("log", 7)
    disk.append("log", b", again")
    disk.flush("log")
    disk.lose_power(random.Random(1))
    assert disk.read("log") == b"flushed, again"


def test_failed_flush_of_a_folder_is_never_repeated() -> None:
    disk = SimulatedDisk()
    disk.faults.fail("", "flush_directory", errno.EIO, times=1)
    disk.append("log", b"")
    with pytest.raises(OSError, match="Input/output error"):
        disk.flush_directory("")
    with pytest.raises(AssertionError, match="/data is flushed again after a flush of it has failed"):
        disk.flush_directory("")
    with pytest.raises(AssertionError, match="/data is flushed again after a flush of it has failed"):
        disk.write("checkpoint", b"")
    disk.end_process()
    disk.flush_directory("")
    disk.lose_power(random.Random(1))
    assert "log" in disk.list_folder("")


# ------------------------------------------------------------------ brokers


def test_kill_keeps_what_was_not_flushed_and_a_loss_of_power_what_was() -> None:
    lost = 0
    for seed in range(6):
        with SimulatedCluster(seed, brokers=1) as cluster:
            cluster.start()
            broker = cluster.broker(1)
            disk = broker.node.disk
            disk.append("log", b"flushed")
            disk.flush("log")
            disk.flush_directory("")
            disk.append("log", b", not flushed")
            broker.kill()
            assert disk.read("log") == b"flushed, not flushed"
            broker.restart()
            broker.lose_power()
            assert not broker.is_running
            log = disk.read("log") or b""
            assert log.startswith(b"flushed")
            assert b"flushed, not flushed".startswith(log)
            assert disk.read("meta.properties"), "it is flushed as it is written"
            lost += log != b"flushed, not flushed"
            injected = [decode_record(line).data for line in cluster.log_lines]
            assert FaultInjected(fault="power_loss", target="broker-1", role="controller") in injected
            with pytest.raises(ClusterError, match="power_loss was not injected: broker-1 is not running"):
                broker.lose_power()
            broker.restart()
            cluster.settle()
    assert lost > 0
