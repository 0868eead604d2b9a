"""Splits a byte stream into frames: each is preceded by its size, a big-endian int32. Mirrors `NetworkReceive`."""

from __future__ import annotations

from struct import Struct
from typing import Final

from understudy.foundation.wire.errors import InvalidReceive

_SIZE: Final = Struct(">i")

DEFAULT_MAX_BYTES: Final = 100 * 1024 * 1024
"""Kafka's default of `socket.request.max.bytes`."""


class FrameReader:
    """Takes bytes as they are received and returns whole frames, without their sizes.

    It keeps at most one unfinished frame, and never more bytes than `max_bytes` and one `feed`.

    Args:
        max_bytes: the largest frame accepted.
        limit: the name of this limit, for the error.
    """

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES, *, limit: str = "socket.request.max.bytes") -> None:
        self._max_bytes = max_bytes
        self._limit = limit
        self._unfinished = bytearray()
        """The beginning of a frame. It grows as bytes are received, and not by the size that a peer announces."""
        self._needed = 0
        """The fewest bytes that the unfinished frame, or its size, will have when it is whole."""

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes; return the frames that they complete, in order, often none.

        Raises:
            InvalidReceive: a size is negative or above the limit; the stream cannot be read on. Frames that the same
                `data` completes are not returned either: their sender gets no answer, its connection is closed.
        """
        unfinished = self._unfinished
        if not unfinished and self._is_whole_frame(data):
            return [data[_SIZE.size :]]
        if unfinished:
            unfinished += data
            if len(unfinished) < self._needed:
                return []
        view = memoryview(unfinished or data)
        frames: list[bytes] = []
        start, size = 0, len(view)
        self._needed = _SIZE.size
        while size - start >= _SIZE.size:
            (length,) = _SIZE.unpack_from(view, start)
            if not 0 <= length <= self._max_bytes:
                raise InvalidReceive(length, self._max_bytes, self._limit)
            end = start + _SIZE.size + length
            if end > size:
                self._needed = end - start
                break
            frames.append(bytes(view[start + _SIZE.size : end]))
            start = end
        if start or not unfinished:
            self._unfinished = bytearray(view[start:])
        return frames

    def _is_whole_frame(self, data: bytes) -> bool:
        """Whether `data` is one frame and nothing else, as most small requests are received."""
        length = len(data) - _SIZE.size
        return 0 <= length <= self._max_bytes and _SIZE.unpack_from(data)[0] == length

    @property
    def has_unfinished_frame(self) -> bool:
        """Whether bytes are waiting for the rest of their frame."""
        return bool(self._unfinished)
