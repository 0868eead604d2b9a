"""Finds the frames in the bytes of a connection, and reads their headers; opens no socket.

Kafka's and ZooKeeper's frames both begin with their size, a big-endian int32. Bytes that cannot be such frames, for
example TLS, are forwarded unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, error
from typing import Final, NamedTuple

from understudy.foundation.zk import jute

MAX_FRAME_BYTES: Final = 1024 * 1024
"""The largest frame that is kept until it is whole. Larger ones are forwarded as they arrive, and no rule changes them
or finds a path in them."""

_CREDIBLE_BYTES: Final = 1024 * 1024 * 1024
"""No frame is larger; bytes that announce more are no frames."""

ZOOKEEPER_REQUEST: Final = Struct(">iii")
"""Size, xid, operation."""
ZOOKEEPER_ANSWER: Final = Struct(">ii")
"""Size, xid."""

_CONNECT_ANSWER: Final = Struct(">iiiqi")
"""Size, protocol version, timeout, session id, length of the password."""
_CONNECT_REQUEST: Final = Struct(">iiqiqi")
"""Size, protocol version, last zxid, timeout, session id, length of the password."""
_CLOSE_SESSION: Final = ZOOKEEPER_REQUEST.pack(8, 1, -11)
_SESSION_TIMEOUT_MS: Final = 10_000

WATCH_EVENT_XID: Final = -1

_ELECTION_GREETING: Final = Struct(">qqi")
"""Protocol version (negative), server id, length of the election address that follows."""

_SIZE: Final = Struct(">i")
_MULTI_HEADER: Final = Struct(">iBi")
_CREATE_2, _CREATE_CONTAINER, _CREATE_TTL = 15, 19, 21
_ON_ONE_PATH: Final = frozenset({jute.CREATE, jute.DELETE, jute.SET_DATA, _CREATE_2, _CREATE_CONTAINER, _CREATE_TTL})


class Piece(NamedTuple):
    """Bytes to forward: a whole frame, the beginning of one, or bytes within one."""

    data: bytes
    header: tuple[int, ...] | None
    """The fields of the header after the size; None if no frame begins here."""
    is_whole: bool


class ProxiedSession(NamedTuple):
    """A session of ZooKeeper; with both its values another connection can take it over."""

    session_id: int
    password: bytes


class FrameScanner:
    """Splits the bytes of one direction of a connection at its frames.

    Args:
        header: the beginning of a frame; its first field is the size of the bytes after this field.
        first_is_other: whether the first frame has another header, as a connect request to ZooKeeper has.
    """

    def __init__(self, header: Struct, *, first_is_other: bool = False) -> None:
        self.is_opaque = False
        """Whether bytes came that cannot be frames; from then on everything is forwarded unchanged."""
        self._header = header
        self._least = header.size - _SIZE.size
        self._kept = b""
        """The beginning of a frame whose header, or whose rest, has not arrived."""
        self._left = 0
        """Number of bytes of the current frame that have not arrived."""
        self._skips = 1 if first_is_other else 0

    def scan(self, data: bytes, *, whole: bool) -> list[Piece]:
        """Take bytes that have arrived, and return the pieces to forward, in order.

        Args:
            whole: whether frames up to `MAX_FRAME_BYTES` are kept until they are whole.
        """
        if self.is_opaque:
            return [Piece(data, None, False)]
        if self._kept:
            data, self._kept = self._kept + data, b""
        position, end = self._left, len(data)
        if position >= end:
            self._left = position - end
            return [Piece(data, None, False)]
        pieces = [Piece(data[:position], None, False)] if position else []
        while end - position >= self._header.size:
            size, *fields = self._header.unpack_from(data, position)
            if not self._least <= size <= _CREDIBLE_BYTES:
                break  # these are no frames: see below
            following = position + _SIZE.size + size
            if following > end and whole and size <= MAX_FRAME_BYTES:
                break
            header = tuple(fields) if not self._skips else None
            self._skips = 0
            pieces.append(Piece(data[position:following], header, following <= end))
            position = following
        self._left = max(0, position - end)
        if position < end:
            rest = data[position:]
            self.is_opaque = len(rest) >= _SIZE.size and not self._is_credible(rest)
            if self.is_opaque:
                pieces.append(Piece(rest, None, False))
            else:
                self._kept = rest
        return pieces

    def _is_credible(self, frame: bytes) -> bool:
        size: int = _SIZE.unpack_from(frame)[0]
        return self._least <= size <= _CREDIBLE_BYTES

    def advance(self, data: bytes) -> bytes:
        """Take bytes that have arrived, and return the bytes to forward; used if no header is needed."""
        if self.is_opaque:
            return data
        if self._kept:
            data, self._kept = self._kept + data, b""
        position, end = self._left, len(data)
        while end - position >= _SIZE.size:
            (size,) = _SIZE.unpack_from(data, position)
            if not self._least <= size <= _CREDIBLE_BYTES:
                self.is_opaque = True
                return data
            position += _SIZE.size + size
            self._skips = 0
        if position < end:
            self._kept, self._left = data[position:], 0
            return data[:position]
        self._left = position - end
        return data

    def rest(self) -> bytes:
        """Return the beginning of a frame that was kept, because the stream has ended."""
        rest, self._kept = self._kept, b""
        return rest


class PeerScanner:
    """Forwards the bytes between two servers of a ZooKeeper ensemble, in which it finds no frames.

    Args:
        election_address: replaces the address with which a server introduces itself on a connection for elections: the
            other server may end this connection and open one to that address (`QuorumCnxManager`), past the proxy. None
            for other bytes.
    """

    def __init__(self, election_address: bytes | None) -> None:
        self._address = election_address
        self._kept = b""

    def scan(self, data: bytes, *, whole: bool) -> list[Piece]:
        """See `FrameScanner.scan`."""
        passing = self.advance(data)
        return [Piece(passing, None, False)] if passing else []

    def advance(self, data: bytes) -> bytes:
        """See `FrameScanner.advance`."""
        if self._address is None:
            return data
        data, self._kept = self._kept + data, b""
        if len(data) >= _ELECTION_GREETING.size:
            version, server, length = _ELECTION_GREETING.unpack_from(data)
            end = _ELECTION_GREETING.size + length
            if version >= 0:  # an old server, which names no address
                self._address = None
                return data
            if len(data) >= end:
                address, self._address = self._address, None
                return _ELECTION_GREETING.pack(version, server, len(address)) + address + data[end:]
        self._kept = data
        return b""

    def rest(self) -> bytes:
        """See `FrameScanner.rest`."""
        rest, self._kept = self._kept, b""
        return rest


def session_of(answer: bytes) -> ProxiedSession | None:
    """Read the answer to a connect request; None if the session has expired, or the bytes are no such answer."""
    try:
        _, _, _, session_id, length = _CONNECT_ANSWER.unpack_from(answer)
    except error:
        return None
    at = _CONNECT_ANSWER.size
    return ProxiedSession(session_id, answer[at : at + length]) if session_id and length > 0 else None


def closing_requests(session: ProxiedSession) -> bytes:
    """Encode the requests that take a session over and close it."""
    size = _CONNECT_REQUEST.size - _SIZE.size + len(session.password)
    return (
        _CONNECT_REQUEST.pack(size, 0, 0, _SESSION_TIMEOUT_MS, session.session_id, len(session.password))
        + session.password
        + _CLOSE_SESSION
    )


def written_paths(frame: bytes) -> list[str]:
    """Return the paths that a request to ZooKeeper writes, or checks inside a MULTI; empty for a read.

    Args:
        frame: the whole frame, with its size.
    """
    _, _, operation = ZOOKEEPER_REQUEST.unpack_from(frame)
    try:
        if operation in _ON_ONE_PATH:
            return [_text(frame, ZOOKEEPER_REQUEST.size)[0]]
        if operation == jute.MULTI:
            return list(_paths_of_multi(frame))
    except (error, UnicodeDecodeError):
        return []  # the server refuses it
    return []


def _paths_of_multi(frame: bytes) -> Iterator[str]:
    at = ZOOKEEPER_REQUEST.size
    while True:
        operation, is_end, _ = _MULTI_HEADER.unpack_from(frame, at)
        if is_end:
            return
        path, at = _text(frame, at + _MULTI_HEADER.size)
        yield path
        if operation in (jute.CREATE, _CREATE_2, _CREATE_CONTAINER, _CREATE_TTL):
            at = _after_buffer(frame, at)  # the data
            (acls,) = _SIZE.unpack_from(frame, at)
            at += _SIZE.size
            for _ in range(acls):
                at = _after_buffer(frame, at + _SIZE.size)  # permissions, then the scheme
                at = _after_buffer(frame, at)  # the id
            at += _SIZE.size  # the flags
            if operation == _CREATE_TTL:
                at += 2 * _SIZE.size
        elif operation == jute.SET_DATA:
            at = _after_buffer(frame, at) + _SIZE.size
        else:
            at += _SIZE.size  # the version


def _after_buffer(frame: bytes, at: int) -> int:
    size: int = _SIZE.unpack_from(frame, at)[0]
    return at + _SIZE.size + max(size, 0)


def _text(frame: bytes, at: int) -> tuple[str, int]:
    end = _after_buffer(frame, at)
    return frame[at + _SIZE.size : end].decode(), end
