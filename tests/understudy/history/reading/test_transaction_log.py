"""The reader of ZooKeeper's transaction log, on files made here byte by byte and on one of a real server."""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Self, SupportsIndex, overload

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError

from understudy.checks.history import OpKind, ZnodeOp, ZnodeTransaction, tree_after
from understudy.checks.invariant_checker import InvariantChecker
from understudy.checks.zookeeper import CHECKS
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.history.reading.transaction_log import (
    ClosedByClient,
    MalformedTransactionLog,
    OpenedSession,
    TransactionLogTail,
    is_whole,
    iterate_transaction_logs,
    missing_transactions,
    read_transaction_logs,
)

HEADER = struct.pack(">4siq", b"ZKLG", 2, 0)
SESSION = 0x1000_0001


def text(value: str) -> bytes:
    return buffer(value.encode())


def buffer(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def create(path: str, data: bytes | None, *, ephemeral: bool = False) -> bytes:
    acl = struct.pack(">ii", 1, 31) + text("world") + text("anyone")
    return text(path) + buffer(data) + acl + struct.pack(">?i", ephemeral, 1)


def set_data(path: str, data: bytes, version: int) -> bytes:
    return text(path) + buffer(data) + struct.pack(">i", version)


def multi(*parts: tuple[int, bytes]) -> bytes:
    return struct.pack(">i", len(parts)) + b"".join(struct.pack(">i", kind) + buffer(record) for kind, record in parts)


def transaction(zxid: int, kind: int, record: bytes, *, session: int = SESSION, request: int = 7) -> bytes:
    return struct.pack(">qiqqi", session, request, zxid, 1_700_000_000_000 + zxid, kind) + record


def entry(data: bytes, *, checksum: int | None = None, end: bytes = b"B") -> bytes:
    return struct.pack(">qi", zlib.adler32(data) if checksum is None else checksum, len(data)) + data + end


def write(folder: Path, *entries: bytes, name: str = "log.1", padding: int = 64) -> Path:
    (folder / name).write_bytes(HEADER + b"".join(entries) + bytes(padding))
    return folder


def ops(folder: Path) -> list[tuple[ZnodeOp, ...]]:
    return [read.ops for read in read_transaction_logs(folder)]


def test_every_kind_of_operation_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        entry(transaction(1, -10, struct.pack(">i", 3000))),
        entry(transaction(2, 1, create("/a", None))),
        entry(transaction(3, 1, create("/a/b", b"x", ephemeral=True))),
        entry(transaction(4, 5, set_data("/a", b"y", 1))),
        entry(transaction(5, 2, text("/a/b"))),
    )
    history = read_transaction_logs(tmp_path)
    assert history[0] == ZnodeTransaction(2, 1_700_000_000_002.0, SESSION, (ZnodeOp(OpKind.CREATE, "/a"),))
    assert [read.ops[0] for read in history[1:]] == [
        ZnodeOp(OpKind.CREATE, "/a/b", b"x", 0, SESSION),
        ZnodeOp(OpKind.SET, "/a", b"y", 1),
        ZnodeOp(OpKind.DELETE, "/a/b"),
    ]


def test_a_check_is_logged_with_the_version_of_the_znode_plus_one(tmp_path: Path) -> None:
    record = multi((13, text("/epoch") + struct.pack(">i", 2)), (5, set_data("/a", b"", 1)))
    write(tmp_path, entry(transaction(1, 14, record)))
    assert ops(tmp_path) == [(ZnodeOp(OpKind.CHECK, "/epoch", None, 1), ZnodeOp(OpKind.SET, "/a", b"", 1))]


def test_failed_transactions_are_left_out(tmp_path: Path) -> None:
    error = struct.pack(">i", -103)
    failed = multi((5, set_data("/a", b"", 1)), (-1, error), (-1, struct.pack(">i", -2)))
    write(tmp_path, entry(transaction(1, -1, error)), entry(transaction(2, 14, failed)))
    assert ops(tmp_path) == []


def test_openings_of_sessions_and_requested_ends_are_read_on_demand(tmp_path: Path) -> None:
    """ZooKeeper ends an expired session by a transaction without a client's request."""
    nothing = struct.pack(">i", 0)
    write(
        tmp_path,
        entry(transaction(1, -10, struct.pack(">i", 3000))),
        entry(transaction(2, -11, nothing)),
        entry(transaction(3, -11, nothing, session=SESSION + 1, request=0)),
    )
    ends = read_transaction_logs(tmp_path)
    assert [(end.zxid, end.closed_session) for end in ends] == [(2, True), (3, True)]
    time_ms = 1_700_000_000_000.0
    assert list(iterate_transaction_logs(tmp_path)) == [
        OpenedSession(1, time_ms + 1, SESSION, 3000),
        ClosedByClient(2, time_ms + 2, SESSION),
        *ends,
    ]


def test_the_end_of_a_session_deletes_its_ephemeral_znodes(tmp_path: Path) -> None:
    paths = struct.pack(">i", 1) + text("/b")
    write(
        tmp_path,
        entry(transaction(1, 1, create("/a", b"", ephemeral=True))),
        entry(transaction(2, 1, create("/b", b"", ephemeral=True))),
        entry(transaction(3, 2, text("/a"))),
        entry(transaction(4, -11, paths)),
    )
    assert read_transaction_logs(tmp_path)[-1][2:] == (SESSION, (ZnodeOp(OpKind.DELETE, "/b"),), True)


def test_the_deletes_at_the_end_of_a_session_are_added_to_the_log_of_an_old_server(tmp_path: Path) -> None:
    write(
        tmp_path,
        entry(transaction(1, 1, create("/a", b"", ephemeral=True))),
        entry(transaction(2, 1, create("/b", b"", ephemeral=True))),
        entry(transaction(3, 2, text("/a"), session=9)),
        entry(transaction(4, -11, b"")),
    )
    assert read_transaction_logs(tmp_path)[-1].ops == (ZnodeOp(OpKind.DELETE, "/b"),)


def test_files_are_read_in_order_of_their_first_zxid(tmp_path: Path) -> None:
    write(tmp_path, entry(transaction(0x10, 2, text("/late"))), name="log.10")
    write(tmp_path, entry(transaction(0x9, 2, text("/early"))), name="log.9")
    assert [read.zxid for read in read_transaction_logs(tmp_path)] == [0x9, 0x10]
    assert [read.zxid for read in read_transaction_logs(tmp_path, after_zxid=0x9)] == [0x10]


def test_a_chroot_is_removed_from_paths_and_other_paths_are_left_out(tmp_path: Path) -> None:
    write(
        tmp_path,
        entry(transaction(1, 2, text("/run-1/a"))),
        entry(transaction(2, 2, text("/run-10/a"))),
        entry(transaction(3, 14, multi((2, text("/run-1/b")), (2, text("/other"))))),
    )
    below = read_transaction_logs(tmp_path, chroot="/run-1")
    assert [[op.path for op in read.ops] for read in below] == [["/a"], ["/b"]]


@pytest.mark.parametrize("missing", [1, 10, 25])
def test_an_unfinished_last_entry_is_left_out(tmp_path: Path, missing: int) -> None:
    whole, unfinished = entry(transaction(1, 2, text("/a"))), entry(transaction(2, 2, text("/b")))
    write(tmp_path, whole, unfinished[:-missing], padding=64)
    assert [read.zxid for read in read_transaction_logs(tmp_path)] == [1]
    write(tmp_path, whole, unfinished[:-missing], padding=0)
    assert [read.zxid for read in read_transaction_logs(tmp_path)] == [1]


def test_the_tail_of_a_log_is_read_once_up_to_a_time_and_over_several_files(tmp_path: Path) -> None:
    first = [
        entry(transaction(1, -10, struct.pack(">i", 3000))),
        entry(transaction(2, 1, create("/a", None, ephemeral=True))),
        entry(transaction(3, 1, create("/b", None))),
    ]
    write(tmp_path, *first[:2])
    tail = TransactionLogTail(tmp_path)
    assert [read.zxid for read in tail.new_transactions()] == [2]
    assert list(tail.new_transactions()) == []
    write(tmp_path, *first, entry(transaction(4, 1, create("/c", None))))
    assert [read.zxid for read in tail.new_transactions(until_ms=1_700_000_000_003.0)] == [3]
    write(tmp_path, entry(transaction(5, -11, b"")), name="log.5")
    later = list(tail.new_transactions())
    assert [read.zxid for read in later] == [4, 5]
    assert later[1].ops == (ZnodeOp(OpKind.DELETE, "/a"),), "the end of a session deletes what it created before"
    assert [(read.zxid, read.ops) for read in read_transaction_logs(tmp_path)][-1] == (5, later[1].ops)
    assert list(tail.new_transactions()) == []


class GrowingFile(bytearray):
    """The bytes of a log file, of which the second page is visible before the first one until a byte is read alone."""

    def __init__(self, complete: bytes, *, unwritten: slice) -> None:
        super().__init__(complete)
        self._complete = complete
        self[unwritten] = bytes(len(complete[unwritten]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> bytearray: ...
    def __getitem__(self, index: SupportsIndex | slice) -> int | bytearray:
        found = super().__getitem__(index)
        if not isinstance(index, slice):
            self[:] = self._complete
        return found


@pytest.mark.parametrize(
    ("unwritten", "zxids"),
    [(slice(0, 6), [1]), (slice(9, 11), []), (slice(11, 12), [])],
    ids=["half-of-the-checksum", "high-bytes-of-the-length", "low-byte-of-the-length"],
)
def test_a_header_that_the_server_is_writing_is_no_damage(
    unwritten: slice, zxids: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = entry(transaction(1, 1, create("/a", b"B" * 600)))
    write(tmp_path, long)
    half_written = slice(len(HEADER) + unwritten.start, len(HEADER) + unwritten.stop)
    complete = (tmp_path / "log.1").read_bytes()
    monkeypatch.setattr(mmap, "mmap", lambda *_, **__: GrowingFile(complete, unwritten=half_written))
    assert [read.zxid for read in read_transaction_logs(tmp_path)] == zxids


def test_an_empty_file_has_no_transactions(tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(b"")
    write(tmp_path, name="log.2")
    (tmp_path / "log.3").write_bytes(HEADER[:7])
    assert ops(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"GARBAGE!" * 4, "starts with b'GARB'"),
        (HEADER + entry(transaction(1, 2, text("/a")), checksum=5), "the log says 5"),
        (HEADER + struct.pack(">qi", 0, -5) + bytes(64), "an entry of -5 bytes"),
        (HEADER + struct.pack(">qi", 0, 2**31 - 1) + bytes(64), "an entry of 2147483647 bytes"),
        (HEADER + entry(b"short"), "expected 32 bytes, 5 bytes are left"),
        (HEADER + entry(transaction(1, 2, struct.pack(">i", 2**30) + b"/a")), "expected 1073741824 bytes"),
        (HEADER + entry(transaction(1, 2, buffer(b"\xff\xfe"))), "expected UTF-8"),
        (HEADER + entry(transaction(1, 2, buffer(None))), "expected a path"),
        (HEADER + entry(transaction(1, 14, struct.pack(">i", 2**31 - 1))), "expected 2147483647 elements"),
        (HEADER + entry(transaction(1, 14, multi((5, b"\0\0")))), "expected 4 bytes, 2 bytes are left"),
    ],
)
def test_a_damaged_file_is_reported_with_its_name_and_offset(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "log.1").write_bytes(content)
    with pytest.raises(MalformedTransactionLog, match=r"log\.1") as raised:
        read_transaction_logs(tmp_path)
    assert message in str(raised.value)


# ------------------------------------------------------------------ an ensemble


def logs_of(folder: Path, *servers: Sequence[int]) -> list[Path]:
    """Return the folders of servers whose logs have creations with these zxids."""
    for number, zxids in enumerate(servers, start=1):
        (folder / str(number)).mkdir()
        entries = [entry(transaction(zxid, 1, create(f"/{zxid:x}", None))) for zxid in zxids]
        write(folder / str(number), *entries, name=f"log.{zxids[0]:x}")
    return [folder / str(number) for number in range(1, len(servers) + 1)]


def test_a_transaction_is_committed_once_most_servers_have_logged_it(tmp_path: Path) -> None:
    """The third server has received 3 and 4 in a snapshot; the first has proposed 5 to no other before its end."""
    first, later = 0x1_0000_0001, 0x2_0000_0001
    folders = logs_of(
        tmp_path,
        [first, first + 1, first + 2, first + 3, first + 4],
        [first, first + 1, first + 2, first + 3, later],
        [first, first + 1, later],
    )
    history = read_transaction_logs(*folders)
    assert [read.zxid for read in history] == [first, first + 1, first + 2, first + 3, later]
    assert is_whole(*folders)


def test_a_transaction_that_reaches_a_second_server_later_is_read_once(tmp_path: Path) -> None:
    folders = logs_of(tmp_path, [1, 2], [1], [1])
    tail = TransactionLogTail(*folders)
    assert [read.zxid for read in tail.new_transactions()] == [1]
    write(folders[1], *[entry(transaction(zxid, 1, create(f"/{zxid}", None))) for zxid in (1, 2)])
    assert [read.zxid for read in tail.new_transactions()] == [2]
    write(folders[2], *[entry(transaction(zxid, 1, create(f"/{zxid}", None))) for zxid in (1, 2)])
    assert list(tail.new_transactions()) == []


@pytest.mark.parametrize(
    ("begins", "expected"),
    [
        ((0x1,), True),
        ((0x7,), False),
        ((0x1_0000_0001, 0x1_0000_0001, 0x1_0000_0005), True),
        ((0x1_0000_0001, 0x1_0000_0004, 0x1_0000_0005), False),
    ],
)
def test_a_history_is_whole_if_most_logs_begin_with_the_first_transaction(
    tmp_path: Path, begins: Sequence[int], expected: bool
) -> None:
    assert is_whole(*logs_of(tmp_path, *[[zxid] for zxid in begins])) is expected


def test_the_log_of_a_real_server_has_every_transaction_of_a_client(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        client = KazooClient(server.connect_string)
        client.start()
        session = client.client_id[0]
        client.create("/a", b"1")
        client.create("/a/e", b"", ephemeral=True)
        client.create("/a/s-", b"", sequence=True)
        with client.transaction() as together:
            together.check("/a", 0)
            together.set_data("/a", b"2")
        with pytest.raises(BadVersionError):
            client.set("/a", b"3", version=0)
        client.stop()
        client.close()
        history = read_transaction_logs(server.transaction_log_dir)

    of_session = [read for read in history if read.session_id == session]
    assert [read.ops for read in of_session] == [
        (ZnodeOp(OpKind.CREATE, "/a", b"1"),),
        (ZnodeOp(OpKind.CREATE, "/a/e", b"", 0, session),),
        (ZnodeOp(OpKind.CREATE, "/a/s-0000000001", b""),),
        (ZnodeOp(OpKind.CHECK, "/a", None, 0), ZnodeOp(OpKind.SET, "/a", b"2", 1)),
        (ZnodeOp(OpKind.DELETE, "/a/e"),),
    ]
    assert [read.closed_session for read in of_session] == [False, False, False, False, True]
    tree = tree_after(history)
    assert (tree["/a"].data, tree["/a"].version, "/a/e" in tree) == (b"2", 1, False)
    checker = InvariantChecker(CHECKS)
    for read in history:
        checker.transaction(read)
    assert checker.violations() == []


def test_a_missing_file_or_end_of_a_servers_log_is_named(tmp_path: Path) -> None:
    for first, last in ((1, 3), (4, 6), (7, 9)):
        kinds = [(zxid, -1 if zxid == 5 else 1) for zxid in range(first, last + 1)]
        write(
            tmp_path,
            *(entry(transaction(zxid, kind, create("/a", None))) for zxid, kind in kinds),
            name=f"log.{first:x}",
        )
    assert missing_transactions(tmp_path, seen_zxid=9) == "", "a failed transaction is logged with its number"
    assert missing_transactions(tmp_path, seen_zxid=10) == "it ends at zxid 9, and the event logs name zxid 10"
    (tmp_path / "log.4").unlink()
    assert missing_transactions(tmp_path, seen_zxid=9) == f"{tmp_path}/log.7 has zxid 7 after 3"
    (tmp_path / "log.7").unlink()
    assert missing_transactions(tmp_path, seen_zxid=9) == "it ends at zxid 3, and the event logs name zxid 9"


def test_what_a_server_of_an_ensemble_got_in_a_snapshot_is_not_missing(tmp_path: Path) -> None:
    folders = logs_of(tmp_path, [1, 2, 3, 4], [1, 4], [1, 2, 3])
    assert missing_transactions(*folders, seen_zxid=4) == ""
    assert missing_transactions(*folders, seen_zxid=5) == "it ends at zxid 4, and the event logs name zxid 5"


def test_a_new_epoch_of_a_leader_is_no_gap(tmp_path: Path) -> None:
    (folder,) = logs_of(tmp_path, [1, 2, (1 << 32) | 1, (1 << 32) | 2])
    assert missing_transactions(folder, seen_zxid=2) == ""
