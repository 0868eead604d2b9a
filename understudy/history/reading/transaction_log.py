"""Reads the history of the znodes from ZooKeeper's transaction log, in the order of the transactions.

ZooKeeper appends every transaction to `log.<first zxid>` before it acknowledges it. So the history holds exactly the
committed transactions, whatever the brokers report. The log of a running server can be read: an unfinished last entry
is left out. In an ensemble a transaction is committed once most servers have logged it; a server that was away
may lack some that it received in a snapshot, and may have logged others that were never committed. Mirrors
`org.apache.zookeeper.server.persistence.FileTxnLog` and the records of ZooKeeper's `zookeeper.jute`.
"""

from __future__ import annotations

import itertools
import math
import mmap
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, TypeVar

from understudy.checks.history import OpKind, ZnodeOp, ZnodeTransaction

MAGIC: Final = b"ZKLG"
VERSION: Final = 2
END_OF_RECORD: Final = ord("B")
MAX_ENTRY_BYTES: Final = 64 * 1024 * 1024

_FILE_HEADER = struct.Struct(">4siq")
_ENTRY_HEADER = struct.Struct(">qi")
_TRANSACTION_HEADER = struct.Struct(">qiqqi")
_INT = struct.Struct(">i")

CREATE, DELETE, SET_DATA, CHECK, MULTI = 1, 2, 5, 13, 14
CREATE_2, CREATE_CONTAINER, DELETE_CONTAINER, CREATE_TTL = 15, 19, 20, 21
ERROR, CREATE_SESSION, CLOSE_SESSION = -1, -10, -11

T = TypeVar("T")

_NAME = re.compile(r"log\.[0-9a-f]{1,16}")


class MalformedTransactionLog(Exception):
    """The file is no transaction log, or is damaged. The message names the file, the offset and what was expected."""


class OpenedSession(NamedTuple):
    """A transaction that opens a session."""

    zxid: int
    time_ms: float
    """Milliseconds since 1970 by the server's wall clock."""
    session_id: int
    timeout_ms: int
    """The session timeout that the server granted."""


class ClosedByClient(NamedTuple):
    """A note before the transaction that ends a session, if the session's client has requested the end."""

    zxid: int
    time_ms: float
    session_id: int


SessionNote: TypeAlias = OpenedSession | ClosedByClient


def read_transaction_logs(*folders: Path, after_zxid: int = 0, chroot: str = "") -> list[ZnodeTransaction]:
    """Read all committed transactions of a server or of an ensemble, in order.

    Args:
        folders: the folder with the `log.*` files of each server (`dataDir/version-2`).
        after_zxid: leave out the transactions up to this one.
        chroot: keep only the operations below it (for example `/run-1`), and remove it from their paths.

    Raises:
        MalformedTransactionLog: a file is damaged. An unfinished last entry is no damage.
    """
    logged = iterate_transaction_logs(*folders, after_zxid=after_zxid, chroot=chroot)
    return [transaction for transaction in logged if isinstance(transaction, ZnodeTransaction)]


def iterate_transaction_logs(
    *folders: Path, after_zxid: int = 0, chroot: str = ""
) -> Iterator[ZnodeTransaction | SessionNote]:
    """Yield the transactions that `read_transaction_logs` returns; raise what it raises.

    Of a single server one transaction at a time is in memory.

    The openings of sessions, and the ends that clients requested, are also yielded, whatever the chroot.
    """
    for found in TransactionLogTail(*folders).new_entries():
        if found.zxid > after_zxid:
            seen = _below(found, chroot) if isinstance(found, ZnodeTransaction) else found
            if seen is not None:
                yield seen


class TransactionLogTail:
    """Reads each committed transaction of a server or of an ensemble once, soon after it was written.

    Args:
        folders: as for `read_transaction_logs`.
    """

    def __init__(self, *folders: Path) -> None:
        self._tails = [_ServerLogTail(folder) for folder in folders]
        self._waiting: dict[int, tuple[int, list[ZnodeTransaction | SessionNote]]] = {}
        """The number of servers that have logged a transaction which is not known to be committed, and its entries, by
        zxid."""
        self._last_zxid = 0

    def new_transactions(self, until_ms: float = math.inf) -> Iterator[ZnodeTransaction]:
        """Yield the transactions since the last call whose time, by the server's wall clock, is not after `until_ms`.

        Raises: as `new_entries`.
        """
        return (found for found in self.new_entries(until_ms) if isinstance(found, ZnodeTransaction))

    def new_entries(self, until_ms: float = math.inf) -> Iterator[ZnodeTransaction | SessionNote]:
        """Yield the new transactions and session notes, as `new_transactions` does.

        Raises:
            MalformedTransactionLog: a file is damaged. An unfinished last entry is no damage.
            OSError: a file cannot be read.
        """
        if len(self._tails) == 1:
            yield from self._tails[0].new_entries(until_ms)
            return
        for tail in self._tails:
            for zxid, entries in itertools.groupby(tail.new_entries(until_ms), lambda entry: entry.zxid):
                if zxid > self._last_zxid:
                    servers, _ = self._waiting.get(zxid, (0, []))
                    self._waiting[zxid] = servers + 1, list(entries)
        for zxid in sorted(self._waiting):
            servers, waiting = self._waiting[zxid]
            if 2 * servers > len(self._tails):
                del self._waiting[zxid]
                self._last_zxid = zxid
                yield from waiting


class _ServerLogTail:
    """Reads each transaction of one server's log once, whether it is committed or not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._offset = _FILE_HEADER.size
        self._ephemerals: dict[int, list[str]] = {}
        """The paths of the ephemeral znodes of each session."""

    def new_entries(self, until_ms: float) -> Iterator[ZnodeTransaction | SessionNote]:
        for path in _files(self._folder):
            if self._path is not None and _first_zxid(path) < _first_zxid(self._path):
                continue
            if path != self._path:
                self._path, self._offset = path, _FILE_HEADER.size
            for offset, found in _read_on(path, self._offset):
                if found.time_ms > until_ms:
                    return
                self._offset = offset
                yield self._with_ephemerals(found) if isinstance(found, ZnodeTransaction) else found

    def _with_ephemerals(self, transaction: ZnodeTransaction) -> ZnodeTransaction:
        """Add the deletes of ephemeral znodes to the end of their session; before ZooKeeper 3.6 the log has none."""
        for op in transaction.ops:
            if op.kind is OpKind.CREATE and op.ephemeral_owner:
                self._ephemerals.setdefault(op.ephemeral_owner, []).append(op.path)
            elif op.kind is OpKind.DELETE and not transaction.closed_session:
                for paths in self._ephemerals.values():
                    if op.path in paths:
                        paths.remove(op.path)
        if not transaction.closed_session:
            return transaction
        left = self._ephemerals.pop(transaction.session_id, [])
        if transaction.ops:
            return transaction
        return transaction._replace(ops=tuple(ZnodeOp(OpKind.DELETE, path) for path in left))


def first_zxid(folder: Path) -> int | None:
    """Return the first zxid of the log; None if there is no log."""
    return next((_first_zxid(path) for path in _files(folder)), None)


def is_whole(*folders: Path) -> bool:
    """Whether the history of a server or an ensemble begins with its first transaction: no old file has been purged.

    The low half of a zxid counts from 1; the high half is the epoch of the ensemble's leader, 0 for a single server.
    """
    begins = [first_zxid(folder) for folder in folders]
    return 2 * sum(zxid is not None and zxid & 0xFFFF_FFFF == 1 for zxid in begins) > len(folders)


def missing_transactions(*folders: Path, seen_zxid: int = 0) -> str:
    """Return which transactions are missing from the history, as a clause; empty if none are.

    A server numbers its transactions without a gap, failed ones and openings of sessions included. A server of an
    ensemble may have received some in a snapshot instead, so that a gap in its log is none in the history.

    Args:
        folders: as for `read_transaction_logs`. The history begins with the first transaction (`is_whole`).
        seen_zxid: the largest zxid that the event logs name.

    Raises:
        MalformedTransactionLog, OSError: as `read_transaction_logs`.
    """
    last = 0
    for folder in folders:
        before = 0
        for path in _files(folder):
            for zxid in _zxids(path):
                if len(folders) == 1 and zxid > before + 1 and zxid & 0xFFFF_FFFF != 1:
                    return f"{path} has zxid {zxid} after {before}"
                before = max(before, zxid)
        last = max(last, before)
    if seen_zxid > last:
        return f"it ends at zxid {last}, and the event logs name zxid {seen_zxid}"
    return ""


def _files(folder: Path) -> list[Path]:
    """Return the log files in the order of their first zxid, which is in the name; leave out other files."""
    return sorted((path for path in folder.glob("log.*") if _NAME.fullmatch(path.name)), key=_first_zxid)


def _first_zxid(path: Path) -> int:
    return int(path.suffix[1:], 16)


def _below(transaction: ZnodeTransaction, chroot: str) -> ZnodeTransaction | None:
    if not chroot:
        return transaction
    ops = tuple(op._replace(path=op.path[len(chroot) :]) for op in transaction.ops if op.path.startswith(chroot + "/"))
    return transaction._replace(ops=ops) if ops else None


def _read_on(path: Path, offset: int) -> Iterator[tuple[int, ZnodeTransaction | SessionNote]]:
    """Yield the transactions and notes of a file from `offset` on, each with the offset after it."""
    if path.stat().st_size == 0:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if len(data) < _FILE_HEADER.size:
            return
        magic, version, _ = _FILE_HEADER.unpack_from(data)
        if magic != MAGIC or version != VERSION:
            expected = f"expected {MAGIC!r} version {VERSION}, a ZooKeeper transaction log"
            raise MalformedTransactionLog(f"{path} starts with {magic!r} version {version}; {expected}")
        while (entry := _entry(path, data, offset)) is not None:
            record = _Record(path, offset + _ENTRY_HEADER.size, entry)
            before, offset = offset, offset + _ENTRY_HEADER.size + len(entry) + 1
            if (transaction := record.transaction()) is not None:
                if isinstance(transaction, ZnodeTransaction) and transaction.closed_session and record.was_requested:
                    yield before, ClosedByClient(transaction.zxid, transaction.time_ms, transaction.session_id)
                yield offset, transaction


def _zxids(path: Path) -> Iterator[int]:
    """Yield the zxid of every complete entry of a file, also of failed transactions."""
    if path.stat().st_size == 0:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        offset = _FILE_HEADER.size
        while (entry := _entry(path, data, offset)) is not None and len(entry) >= _TRANSACTION_HEADER.size:
            offset += _ENTRY_HEADER.size + len(entry) + 1
            yield _TRANSACTION_HEADER.unpack_from(entry)[2]


def _entry(path: Path, data: mmap.mmap, offset: int) -> bytes | None:
    """Return the bytes of the entry at `offset`; None at the end of the log or of its complete entries."""
    start = offset + _ENTRY_HEADER.size
    if start > len(data):
        return None
    _, length = _ENTRY_HEADER.unpack_from(data, offset)
    if length == 0:
        return None
    if not 0 < length <= MAX_ENTRY_BYTES:
        raise MalformedTransactionLog(
            f"{path} at {offset}: an entry of {length} bytes; the longest may have {MAX_ENTRY_BYTES}"
        )
    end = start + length
    if end >= len(data) or data[end] != END_OF_RECORD:
        return None
    # A running server writes an entry from its first byte to its last, and the header may lie across two pages:
    # the header is only complete if it is read after the last byte.
    checksum, complete_length = _ENTRY_HEADER.unpack_from(data, offset)
    if complete_length != length:
        return None
    entry = data[start:end]
    if zlib.adler32(entry) != checksum:
        raise MalformedTransactionLog(f"{path} at {offset}: checksum {zlib.adler32(entry)}; the log says {checksum}")
    return entry


class _Record:
    """A cursor over the bytes of one entry. It checks every length against the bytes that are left."""

    def __init__(self, path: Path, offset: int, data: bytes) -> None:
        self._path, self._offset, self._data, self._position = path, offset, data, 0
        self.was_requested = False
        """Whether a client requested the transaction; the server itself ends expired sessions."""

    def transaction(self) -> ZnodeTransaction | OpenedSession | None:
        """Return the transaction, or None if it failed: it changed no znode and opened no session."""
        session_id, request, zxid, time_ms, kind = self._unpack(_TRANSACTION_HEADER)
        self.was_requested = request != 0
        if kind == CREATE_SESSION:
            return OpenedSession(zxid, float(time_ms), session_id, self._int())
        closed = kind == CLOSE_SESSION
        if closed:
            paths = self._vector(self._string) if self._position < len(self._data) else []
            ops = [ZnodeOp(OpKind.DELETE, path or "") for path in paths]
        else:
            ops = self._operations(kind, session_id)
        return ZnodeTransaction(zxid, float(time_ms), session_id, tuple(ops), closed) if ops or closed else None

    def _operations(self, kind: int, session_id: int) -> list[ZnodeOp]:
        if kind != MULTI:
            return [op for op in [self._operation(kind, session_id)] if op is not None]
        parts = self._vector(lambda: (self._int(), self._offset + self._position + _INT.size, self._bytes() or b""))
        # A failed multi is logged with the operations before the one that failed; none of them was applied.
        if any(part_kind == ERROR for part_kind, _, _ in parts):
            return []
        ops = [_Record(self._path, start, data)._operation(part_kind, session_id) for part_kind, start, data in parts]
        return [op for op in ops if op is not None]

    def _operation(self, kind: int, session_id: int) -> ZnodeOp | None:
        if kind in (CREATE, CREATE_2, CREATE_CONTAINER, CREATE_TTL):
            path, data = self._path_name(), self._bytes()
            self._vector(self._acl)
            ephemeral = kind in (CREATE, CREATE_2) and self._unpack(struct.Struct(">?"))[0]
            return ZnodeOp(OpKind.CREATE, path, data, 0, session_id if ephemeral else 0)
        if kind in (DELETE, DELETE_CONTAINER):
            return ZnodeOp(OpKind.DELETE, self._path_name())
        if kind == SET_DATA:
            return ZnodeOp(OpKind.SET, self._path_name(), self._bytes(), self._int())
        if kind == CHECK:
            # The log has the znode's version plus one, as for a write (`PrepRequestProcessor.checkAndIncVersion`).
            return ZnodeOp(OpKind.CHECK, self._path_name(), None, self._int() - 1)
        return None

    def _acl(self) -> None:
        self._int()
        self._string()
        self._string()

    def _path_name(self) -> str:
        path = self._string()
        if not path:
            raise self._malformed("a path")
        return path

    def _string(self) -> str | None:
        raw = self._bytes()
        try:
            return None if raw is None else raw.decode()
        except UnicodeDecodeError:
            raise self._malformed("UTF-8") from None

    def _bytes(self) -> bytes | None:
        length = self._int()
        if length == -1:
            return None
        if not 0 <= length <= len(self._data) - self._position:
            raise self._malformed(f"{length} bytes")
        self._position += length
        return self._data[self._position - length : self._position]

    def _vector(self, element: Callable[[], T]) -> list[T]:
        count = self._int()
        if not -1 <= count <= len(self._data) - self._position:
            raise self._malformed(f"{count} elements")
        return [element() for _ in range(count)]

    def _int(self) -> int:
        value: int = self._unpack(_INT)[0]
        return value

    def _unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        if self._position + layout.size > len(self._data):
            raise self._malformed(f"{layout.size} bytes")
        self._position += layout.size
        return layout.unpack_from(self._data, self._position - layout.size)

    def _malformed(self, expected: str) -> MalformedTransactionLog:
        left = len(self._data) - self._position
        return MalformedTransactionLog(
            f"{self._path} at {self._offset + self._position}: expected {expected}, {left} bytes are left"
        )
