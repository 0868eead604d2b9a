"""Encodes the bodies of requests to ZooKeeper and decodes the bodies of its answers.

kazoo sends and receives the packets; their bodies are encoded here for three reasons. kazoo lacks MultiRead and
SetWatches; its generic classes cost several times as much per znode; and the size of a request has to be known before
it is sent. Paths are the server's: the caller adds and removes the chroot. Mirrors `org.apache.zookeeper.proto`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence

from understudy.foundation.zk.client import (
    Check,
    Checked,
    Children,
    Create,
    Created,
    Delete,
    Deleted,
    Failure,
    MultiFailed,
    Op,
    OpResult,
    SetData,
    Stat,
    Updated,
    ZNodeData,
)

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA = 1, 2, 3, 4, 5
GET_CHILDREN_2, CHECK, MULTI, MULTI_READ, SET_WATCHES = 12, 13, 14, 22, 101

_EPHEMERAL, _SEQUENTIAL = 1, 2
_ROLLED_BACK = (0, -2)
"""Codes, in the answer to a failed multi, of the operations before the failing one and after it."""

FAILURES = {
    -8: Failure.BAD_ARGUMENTS,
    -101: Failure.NO_NODE,
    -102: Failure.NO_AUTH,
    -103: Failure.BAD_VERSION,
    -108: Failure.NO_CHILDREN_FOR_EPHEMERALS,
    -110: Failure.NODE_EXISTS,
    -111: Failure.NOT_EMPTY,
    -112: Failure.SESSION_EXPIRED,
}

_int = struct.Struct("!i")
_long = struct.Struct("!q")
_header = struct.Struct("!iBi")
_stat = struct.Struct("!qqqqiiiqiiq")
_END = _header.pack(-1, 1, -1)
_NULL = _int.pack(-1)


def _buffer(data: bytes | None) -> bytes:
    return _NULL if data is None else _int.pack(len(data)) + data


def _string(text: str) -> bytes:
    return _buffer(text.encode())


_OPEN_ACL = _int.pack(1) + _int.pack(31) + _string("world") + _string("anyone")


# ------------------------------------------------------------------ requests


def read_request(path: str, watch: bool) -> bytes:
    """Encode the body of EXISTS, GET_DATA or GET_CHILDREN_2."""
    return _string(path) + (b"\1" if watch else b"\0")


def op_code(op: Op) -> int:
    match op:
        case Create():
            return CREATE
        case SetData():
            return SET_DATA
        case Delete():
            return DELETE
        case Check():
            return CHECK


def op_request(op: Op, path: str) -> bytes:
    """Encode the body of `op` on `path`, alone or inside a MULTI."""
    match op:
        case Create(_, data, ephemeral, sequential):
            flags = (_EPHEMERAL if ephemeral else 0) | (_SEQUENTIAL if sequential else 0)
            return _string(path) + _buffer(data) + _OPEN_ACL + _int.pack(flags)
        case SetData(_, data, version):
            return _string(path) + _buffer(data) + _int.pack(version)
        case Delete(_, version) | Check(_, version):
            return _string(path) + _int.pack(version)


_SET_DATA_HEADER = _header.pack(SET_DATA, 0, -1)


def multi_request(ops: Iterable[Op], path_of: Callable[[str], str]) -> bytes:
    parts: list[bytes] = []
    length = _int.pack
    for op in ops:
        if isinstance(op, SetData):
            # States are written by the hundred thousand: without a call for each of their parts.
            path, data = path_of(op.path).encode(), op.data
            parts += (_SET_DATA_HEADER, length(len(path)), path, length(len(data)), data, length(op.version))
        else:
            parts += (_header.pack(op_code(op), 0, -1), op_request(op, path_of(op.path)))
    parts.append(_END)
    return b"".join(parts)


_READ_HEADER = _header.pack(GET_DATA, 0, -1)


def multi_read_request(paths: Iterable[str]) -> bytes:
    """Encode a MULTI_READ of GET_DATA. The watch flag stays off: the server ignores it here."""
    return b"".join([_READ_HEADER + _string(path) + b"\0" for path in paths]) + _END


def set_watches_request(since_zxid: int, data: Sequence[str], exist: Sequence[str], children: Sequence[str]) -> bytes:
    """Encode a SetWatches as of `since_zxid`: the server reports at once what has changed since then."""
    lists = [_int.pack(len(paths)) + b"".join(map(_string, paths)) for paths in (data, exist, children)]
    return _long.pack(since_zxid) + b"".join(lists)


# ------------------------------------------------------------------ answers


def read_stat(answer: bytes, offset: int) -> Stat:
    czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, length, children, pzxid = _stat.unpack_from(
        answer, offset
    )
    return Stat(czxid, mzxid, version, cversion, owner, length, children, ctime, mtime, pzxid, aversion)


def read_node(answer: bytes, offset: int) -> ZNodeData:
    return _node(answer, offset)[0]


def read_children(answer: bytes, offset: int) -> Children:
    (count,) = _int.unpack_from(answer, offset)
    offset += 4
    names = []
    for _ in range(count):
        name, offset = _text(answer, offset)
        names.append(name)
    return Children(tuple(sorted(names)), read_stat(answer, offset))


def read_created(answer: bytes, offset: int) -> Created:
    return Created(_text(answer, offset)[0])


def read_updated(answer: bytes, offset: int) -> Updated:
    return Updated(read_stat(answer, offset))


def read_deleted(answer: bytes, offset: int) -> Deleted:
    return Deleted()


def read_nothing(answer: bytes, offset: int) -> bool:
    return True


def read_many(answer: bytes, offset: int) -> list[ZNodeData | Failure]:
    """Decode the answer to a MULTI_READ."""
    results: list[ZNodeData | Failure] = []
    while True:
        kind, done, _ = _header.unpack_from(answer, offset)
        offset += 9
        if done:
            return results
        if kind == GET_DATA:
            node, offset = _node(answer, offset)
            results.append(node)
        else:
            (code,) = _int.unpack_from(answer, offset)
            offset += 4
            results.append(FAILURES.get(code, Failure.UNKNOWN))


def read_multi(answer: bytes, offset: int) -> tuple[OpResult, ...] | MultiFailed:
    """Decode the answer to a MULTI: the result of every operation, or which one failed."""
    results: list[OpResult] = []
    position = 0
    while True:
        kind, done, _ = _header.unpack_from(answer, offset)
        offset += _header.size
        if done:
            return tuple(results)
        if kind == SET_DATA:
            results.append(Updated(read_stat(answer, offset)))
            offset += _stat.size
        elif kind == CREATE:
            path, offset = _text(answer, offset)
            results.append(Created(path))
        elif kind == DELETE:
            results.append(Deleted())
        elif kind == CHECK:
            results.append(Checked())
        else:
            (code,) = _int.unpack_from(answer, offset)
            offset += 4
            if code not in _ROLLED_BACK:
                return MultiFailed(position, FAILURES.get(code, Failure.UNKNOWN))
        position += 1


def _node(answer: bytes, offset: int) -> tuple[ZNodeData, int]:
    (length,) = _int.unpack_from(answer, offset)
    offset += 4
    end = offset + max(length, 0)
    return ZNodeData(answer[offset:end], read_stat(answer, end), length < 0), end + _stat.size


def _text(answer: bytes, offset: int) -> tuple[str, int]:
    (length,) = _int.unpack_from(answer, offset)
    offset += 4
    return answer[offset : offset + length].decode(), offset + length
