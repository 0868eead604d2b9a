"""The two indexes of a log segment, in memory: positions by offset, and offsets by timestamp.

An index is sparse: it has an entry for every few kilobytes of the log, and a search continues in the log itself. On
disk entries follow each other, big-endian; a file may end in zeros if its writer had reserved room and did not end in
order. Mirrors `OffsetIndex` and `TimeIndex`.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final, NamedTuple

NO_TIMESTAMP: Final = -1

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_MAX_RELATIVE: Final = 2**31 - 1


class CorruptIndex(ValueError):
    """An index file that cannot be used; it is made anew from the log. Mirrors `CorruptIndexException`."""


class OffsetPosition(NamedTuple):
    """A record's offset, and where its batch begins in the segment, in bytes."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """A timestamp, and the offset of the record which is the first of its segment to have one as large."""

    timestamp: int
    offset: int


class OffsetIndex:
    """Where batches begin, by offset.

    Args:
        base_offset: the segment's; entries are relative to it.
        max_bytes: the file's largest size, `segment.index.bytes`.
    """

    def __init__(self, base_offset: int, max_bytes: int) -> None:
        self.base_offset = base_offset
        self._max_entries = max_bytes // _OFFSET_ENTRY.size
        self._offsets = array("i")
        self._positions = array("i")

    @classmethod
    def decode(cls, data: bytes, base_offset: int, max_bytes: int) -> OffsetIndex:
        """Return the index of a file.

        Raises:
            CorruptIndex: it has no whole entries, or they are not in order.
        """
        index = cls(base_offset, max_bytes)
        _check_size(data, _OFFSET_ENTRY.size)
        last = OffsetPosition(-1, -1)
        for offset, position in _OFFSET_ENTRY.iter_unpack(data):
            if (offset, position) == (0, 0) and last.offset >= 0:
                break  # room that was reserved
            if offset <= last.offset or position <= last.position:
                raise CorruptIndex(f"an offset index has ({offset}, {position}) behind {tuple(last)}")
            last = OffsetPosition(offset, position)
            index._offsets.append(offset)
            index._positions.append(position)
        return index

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return len(self) * _OFFSET_ENTRY.size

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self._max_entries

    @property
    def last_offset(self) -> int:
        """The offset of the last entry; the base offset without any."""
        return self.base_offset + (self._offsets[-1] if self._offsets else 0)

    def append(self, offset: int, position: int) -> bytes:
        """Add an entry, and return its bytes for the file.

        Raises:
            ValueError: the index is full, or the offset is not above the last one, or too far from the base offset.
        """
        relative = _relative(offset, self.base_offset)
        if self.is_full:
            raise ValueError(f"Attempt to append to a full index (size = {len(self)}).")
        if self._offsets and relative <= self._offsets[-1]:
            raise ValueError(f"Attempt to append an offset {offset} no larger than the last one, {self.last_offset}")
        self._offsets.append(relative)
        self._positions.append(position)
        return _OFFSET_ENTRY.pack(relative, position)

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or before an offset; the segment's beginning without one."""
        place = bisect_right(self._offsets, offset - self.base_offset)
        if place == 0:
            return OffsetPosition(self.base_offset, 0)
        return OffsetPosition(self.base_offset + self._offsets[place - 1], self._positions[place - 1])

    def truncate_to(self, offset: int) -> int:
        """Remove the entries at or after an offset, and return the size of the file that is left."""
        kept = bisect_left(self._offsets, offset - self.base_offset)
        del self._offsets[kept:], self._positions[kept:]
        return kept * _OFFSET_ENTRY.size

    def encode(self) -> bytes:
        """Return the bytes of the whole file."""
        pairs = array("i", [0]) * (2 * len(self))
        pairs[0::2], pairs[1::2] = self._offsets, self._positions
        if sys.byteorder == "little":
            pairs.byteswap()
        return pairs.tobytes()


class TimeIndex:
    """The largest timestamp up to some offsets.

    Args:
        base_offset: the segment's; entries are relative to it.
        max_bytes: the file's largest size, `segment.index.bytes`.
    """

    def __init__(self, base_offset: int, max_bytes: int) -> None:
        self.base_offset = base_offset
        self._max_entries = max_bytes // _TIME_ENTRY.size
        self._timestamps = array("q")
        self._offsets = array("i")

    @classmethod
    def decode(cls, data: bytes, base_offset: int, max_bytes: int) -> TimeIndex:
        """Return the index of a file.

        Raises:
            CorruptIndex: it has no whole entries, or they are not in order.
        """
        index = cls(base_offset, max_bytes)
        _check_size(data, _TIME_ENTRY.size)
        for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
            if index._offsets and (timestamp, offset) == (0, 0):
                break  # room that was reserved
            if index._offsets and (timestamp < index._timestamps[-1] or offset < index._offsets[-1]):
                last = (index._timestamps[-1], index._offsets[-1])
                raise CorruptIndex(f"a time index has ({timestamp}, {offset}) behind {last}")
            if offset < 0:
                raise CorruptIndex(f"a time index has ({timestamp}, {offset}), before its base offset")
            index._timestamps.append(timestamp)
            index._offsets.append(offset)
        return index

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return len(self) * _TIME_ENTRY.size

    @property
    def is_full(self) -> bool:
        """Whether there is room for only the entry that a segment gets when it is closed."""
        return len(self._offsets) >= self._max_entries - 1

    @property
    def last(self) -> TimestampOffset:
        """The last entry; no timestamp at the base offset without any."""
        if not self._offsets:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(self._timestamps[-1], self.base_offset + self._offsets[-1])

    def maybe_append(self, timestamp: int, offset: int, *, is_closing: bool = False) -> bytes:
        """Add an entry if its timestamp is above the last one; return its bytes for the file, empty if it is not.

        Args:
            is_closing: whether the segment is being closed, for which there is always room.

        Raises:
            ValueError: the index is full, or the offset or the timestamp is below the last one.
        """
        relative = _relative(offset, self.base_offset)
        last = self.last
        if self.is_full and not is_closing:
            raise ValueError(f"Attempt to append to a full time index (size = {len(self)}).")
        if self._offsets and offset < last.offset:
            raise ValueError(f"Attempt to append an offset ({offset}) less than the last one, {last.offset}")
        if self._offsets and timestamp < last.timestamp:
            raise ValueError(f"Attempt to append a timestamp ({timestamp}) less than the last one, {last.timestamp}")
        if timestamp <= last.timestamp:
            return b""
        self._timestamps.append(timestamp)
        self._offsets.append(relative)
        return _TIME_ENTRY.pack(timestamp, relative)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry whose timestamp is not above `timestamp`; the segment's beginning without one."""
        place = bisect_right(self._timestamps, timestamp)
        if place == 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(self._timestamps[place - 1], self.base_offset + self._offsets[place - 1])

    def truncate_to(self, offset: int) -> int:
        """Remove the entries at or after an offset, and return the size of the file that is left."""
        kept = bisect_left(self._offsets, offset - self.base_offset)
        del self._timestamps[kept:], self._offsets[kept:]
        return kept * _TIME_ENTRY.size

    def encode(self) -> bytes:
        """Return the bytes of the whole file."""
        return b"".join(map(_TIME_ENTRY.pack, self._timestamps, self._offsets))


def _check_size(data: bytes, entry_bytes: int) -> None:
    if len(data) % entry_bytes:
        raise CorruptIndex(f"found {len(data)} bytes which is neither positive nor a multiple of {entry_bytes}")


def _relative(offset: int, base_offset: int) -> int:
    relative = offset - base_offset
    if not 0 <= relative <= _MAX_RELATIVE:
        raise ValueError(f"Integer overflow for offset: {offset} in a segment with base offset {base_offset}")
    return relative
