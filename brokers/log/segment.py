"""One segment of a partition's log: the batches from a base offset on, and two indexes of them. Mirrors `LogSegment`.

The indexes are kept in memory and written when the segment is closed. A segment that was not closed in order has none,
or old ones: they are made again from the batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from understudy.brokers.config.log_config import LogConfig
from understudy.brokers.log.indexes import CorruptIndex, OffsetIndex, TimeIndex, TimestampOffset
from understudy.brokers.log.log_files import LOG, OFFSET_INDEX, SEGMENT_FILES, TIME_INDEX, TRANSACTION_INDEX, file_name
from understudy.brokers.world import Disk
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import (
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    RecordBatch,
    check_crc,
    read_header,
    size_of_first,
)
from understudy.foundation.records.errors import CorruptRecord, UnsupportedMagic
from understudy.foundation.records.varint import Buffer

SCAN_BYTES: Final = 1 << 20
"""Number of bytes that are read at once if batches are read one after the other."""

_SPAN: Final = Struct(">qi11xi")
"""Base offset, size and last offset delta, at which a search looks in each batch."""

MAX_RELATIVE_OFFSET: Final = 2**31 - 1

_LOOK_AHEAD: Final = 4096
"""Number of bytes read beyond the distance of two index entries in the search for one batch."""

_OLD_HEAD: Final = Struct(">8xiIb")
"""Size, checksum and magic of a batch of message format 0 or 1."""
_OLD_CHECKED_FROM: Final = 16


class BatchPosition(NamedTuple):
    """Where a batch is in its segment, in bytes."""

    base_offset: int
    position: int
    size: int


class LogSegment:
    """A segment of a log.

    Until it is used, a segment has no index in memory: most of many thousand logs are idle.

    Args:
        created_ms: wall time at which this process created or opened it.
        suffix: what its files' names end in: `.cleaned` while the log cleaner writes it.

    Attributes:
        size: bytes of its batches.
        max_timestamp: the largest timestamp of its records, and the offset of the batch that has it.
    """

    __slots__ = (
        "_bytes_since_index_entry",
        "_config",
        "_disk",
        "_folder",
        "_has_index_files",
        "_last_append",
        "_max_timestamp",
        "_offsets",
        "_suffix",
        "_times",
        "base_offset",
        "created_ms",
        "first_timestamp",
        "path",
        "size",
    )

    def __init__(
        self, disk: Disk, folder: str, base_offset: int, config: LogConfig, *, created_ms: float, suffix: str = ""
    ) -> None:
        self.base_offset = base_offset
        self.path = f"{folder}/{file_name(base_offset, LOG)}{suffix}"
        self.size = 0
        self.created_ms = created_ms
        self.first_timestamp: int | None = None
        """The timestamp of its first batch, from which `segment.ms` counts; None while that is not known."""
        self._disk = disk
        self._folder = folder
        self._suffix = suffix
        self._config = config
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._max_timestamp: TimestampOffset | None = None
        self._bytes_since_index_entry = 0
        self._last_append: tuple[int, int] | None = None
        """The base offset of the first batch of the last append, and its position: the batch that is read most."""
        self._has_index_files = False
        """Whether the index files on disk are known to have what the indexes in memory have."""

    @classmethod
    def create(
        cls, disk: Disk, folder: str, base_offset: int, config: LogConfig, *, now_ms: float, suffix: str = ""
    ) -> LogSegment:
        """Create an empty segment with its file."""
        segment = cls(disk, folder, base_offset, config, created_ms=now_ms, suffix=suffix)
        disk.append(segment.path, b"")
        return segment

    @classmethod
    def open(
        cls, disk: Disk, folder: str, base_offset: int, config: LogConfig, *, now_ms: float, suffix: str = ""
    ) -> LogSegment:
        """Open a segment whose file exists. Its indexes are read when they are first used."""
        segment = cls(disk, folder, base_offset, config, created_ms=now_ms, suffix=suffix)
        segment.size = disk.size(segment.path) or 0
        return segment

    @property
    def max_timestamp(self) -> TimestampOffset:
        if self._max_timestamp is None:
            self._load_indexes()
            assert self._max_timestamp is not None, "set with the indexes"
        return self._max_timestamp

    @property
    def largest_timestamp_ms(self) -> float:
        """The largest timestamp of its records; if they have none, the time at which the segment was opened."""
        timestamp = self.max_timestamp.timestamp
        return timestamp if timestamp >= 0 else self.created_ms

    def use_config(self, config: LogConfig) -> None:
        self._config = config

    # ------------------------------------------------------------------ appending

    def should_roll(self, size: int, max_timestamp: int, last_offset: int, *, now_ms: float, jitter_ms: int) -> bool:
        """Whether the next append has to go to a new segment.

        Args:
            size: bytes of the append; `max_timestamp` and `last_offset` belong to its records.
            jitter_ms: by how much earlier than `segment.ms` this segment is closed.
        """
        config = self._config
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if self.size == 0:
            return False
        if self.size > config.segment_bytes - size:
            return True
        if self._waited_ms(now_ms, max_timestamp) > config.segment_ms - jitter_ms:
            return True
        return self.offset_index.is_full or self.time_index.is_full

    def _waited_ms(self, now_ms: float, timestamp: int) -> float:
        """How long ago the segment began: by the timestamps of records, by the clock if they have none."""
        first = self.first_batch_timestamp()
        if first >= 0:
            return timestamp - first if timestamp >= 0 else 0
        return now_ms - self.created_ms

    def first_batch_timestamp(self) -> int:
        """Return the timestamp of its first batch, in ms since 1970; -1 without one."""
        if self.first_timestamp is None and self.size > 0:
            first = next(self.batches(), None)
            self.first_timestamp = NO_TIMESTAMP if first is None else first[1].header.max_timestamp
        return NO_TIMESTAMP if self.first_timestamp is None else self.first_timestamp

    def append(self, data: Buffer, *, last_offset: int, max_timestamp: int, offset_of_max_timestamp: int) -> None:
        """Add batches at the end.

        Raises:
            OSError: the disk fails or is full; the file may have a part of `data`, which recovery cuts off.
        """
        if self._offsets is None:
            self._load_indexes()  # from the batches before these
        position = self.size
        self._disk.append(self.path, data)
        self.size += len(data)
        if position == 0:
            self.first_timestamp = max_timestamp
        self._last_append = _SPAN.unpack_from(data)[0], position
        self._note(position, len(data), last_offset, max_timestamp, offset_of_max_timestamp)

    def append_batches(self, batches: Sequence[Buffer]) -> int:
        """Add whole batches at the end, each of them with its place in the indexes; return their size in bytes.

        Raises:
            OSError: as `append`.
        """
        if self._offsets is None:
            self._load_indexes()
        data, position = b"".join(batches), self.size
        if data:
            self._disk.append(self.path, data)
        self.size += len(data)
        for batch in batches:
            header = read_header(batch)
            self._note(position, header.size, header.last_offset, header.max_timestamp, header.last_offset)
            position += header.size
        return len(data)

    def _note(self, position: int, size: int, last_offset: int, max_timestamp: int, offset_of_max: int) -> None:
        """Bring the indexes up to date with batches at `position`."""
        self._has_index_files = False
        largest = self.max_timestamp
        if max_timestamp > largest.timestamp:
            largest = self._max_timestamp = TimestampOffset(max_timestamp, offset_of_max)
        if self._bytes_since_index_entry > self._config.index_interval_bytes:
            if not self.offset_index.is_full:
                self.offset_index.append(last_offset, position)
            if not self.time_index.is_full:
                self.time_index.maybe_append(largest.timestamp, largest.offset)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size

    # ------------------------------------------------------------------ indexes

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offsets is None:
            self._load_indexes()
            assert self._offsets is not None, "just loaded"
        return self._offsets

    @property
    def time_index(self) -> TimeIndex:
        if self._times is None:
            self._load_indexes()
            assert self._times is not None, "just loaded"
        return self._times

    def _begin_indexes(self) -> None:
        max_bytes = self._config.segment_index_bytes
        self._offsets = OffsetIndex(self.base_offset, max_bytes)
        self._times = TimeIndex(self.base_offset, max_bytes)
        self._max_timestamp = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self._bytes_since_index_entry = 0

    def _load_indexes(self) -> None:
        """Read both index files; make the indexes from the batches if one is missing or damaged."""
        if self.size == 0:
            self._begin_indexes()
            return
        files = {suffix: self._disk.read(self._file(suffix)) for suffix in (OFFSET_INDEX, TIME_INDEX)}
        offsets, times = files[OFFSET_INDEX], files[TIME_INDEX]
        max_bytes = self._config.segment_index_bytes
        try:
            if offsets is None or times is None:
                raise CorruptIndex("an index file is missing")
            self._offsets = OffsetIndex.decode(offsets, self.base_offset, max_bytes)
            self._times = TimeIndex.decode(times, self.base_offset, max_bytes)
            last = self._offsets.lookup(self._offsets.last_offset)
            if last.position >= self.size:
                raise CorruptIndex(f"an offset index leads to {last.position} in a file of {self.size} bytes")
        except CorruptIndex:
            self._index_batches()
            return
        self._has_index_files = True
        self._note_tail(self._times, last.position)

    def _note_tail(self, times: TimeIndex, position: int) -> None:
        """Note the largest timestamp, which a batch may have after the last entry, at `position`."""
        largest = times.last
        for _, batch in self.batches(position):
            header = batch.header
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        self._max_timestamp = largest
        self._bytes_since_index_entry = self.size - position

    def _index_batches(self) -> None:
        self._begin_indexes()
        for position, batch in self.batches():
            header = batch.header
            self._note(position, header.size, header.last_offset, header.max_timestamp, header.last_offset)

    def close(self, *, flush: bool = False) -> bool:
        """Write the index files, unless those on disk are the same; return whether there is something to flush.

        The index of timestamps comes first: without its last entry the largest timestamp would not be found.
        """
        if self._has_index_files or (self._offsets is None and self.size > 0):
            return False
        if self.size == 0:
            # Kafka wants index files of an empty segment too; there is nothing in them to flush.
            for path in (self._file(TIME_INDEX), self._file(OFFSET_INDEX)):
                if self._disk.size(path) != 0:
                    self._disk.write(path, b"", flush=False)
            self._has_index_files = True
            return False
        self.time_index.maybe_append(*self.max_timestamp, is_closing=True)
        self._disk.write(self._file(TIME_INDEX), self.time_index.encode(), flush=flush)
        self._disk.write(self._file(OFFSET_INDEX), self.offset_index.encode(), flush=flush)
        self._has_index_files = True
        return True

    def files(self) -> tuple[str, ...]:
        """The paths of all files that it may have."""
        return tuple(self._file(suffix) for suffix in SEGMENT_FILES)

    def rename(self, suffix: str) -> None:
        """Let the names of its files end in `suffix` instead of what they end in now. The `.log` comes first."""
        for path in self.files():
            if self._disk.size(path) is not None:
                self._disk.rename(path, path.removesuffix(self._suffix) + suffix)
        self._suffix = suffix
        self.path = self._file(LOG)

    def _file(self, suffix: str) -> str:
        return f"{self._folder}/{file_name(self.base_offset, suffix)}{self._suffix}"

    # ------------------------------------------------------------------ reading

    def find(self, offset: int) -> BatchPosition | None:
        """Return the first batch that ends at or after an offset; None if all end before it."""
        return self._find(offset, 0)[0]

    def _find(self, offset: int, size: int) -> tuple[BatchPosition | None, memoryview]:
        """Return the batch as `find` does, and what was read of the file from it on, perhaps `size` bytes."""
        if self._last_append is not None and offset >= self._last_append[0]:
            position = self._last_append[1]
        else:
            position = self.offset_index.lookup(offset).position
        want = self._config.index_interval_bytes + _LOOK_AHEAD + size
        while position < self.size:
            data = memoryview(self._disk.read_at(self.path, position, min(want, self.size - position)))
            at, end = 0, len(data) - _SPAN.size
            while at <= end:
                base_offset, length, delta = _SPAN.unpack_from(data, at)
                if length < 0:
                    raise CorruptRecord(f"{self.path} has a batch of {length} bytes at {position + at}")
                if base_offset + delta >= offset:
                    return BatchPosition(base_offset, position + at, length + LOG_OVERHEAD), data[at:]
                at += length + LOG_OVERHEAD
            if at == 0:
                break  # the file ends in a header
            position += at
        return None, memoryview(b"")

    def read(self, offset: int, max_bytes: int, *, end_offset: int | None, min_one: bool) -> Buffer | None:
        """Return batches from the one that has `offset` on; None if the segment ends before it.

        Args:
            max_bytes: the last batch may be cut off at this size.
            end_offset: batches that begin at or after it are left out; None for no such limit.
            min_one: whether the first batch is returned as a whole, however large it is.
        """
        first, data = self._find(offset, max_bytes)
        if first is None:
            return None
        if end_offset is not None and first.base_offset >= end_offset:
            return b""
        size = min(max(max_bytes, first.size) if min_one else max_bytes, self.size - first.position)
        # With an `end_offset` also the beginning of the batch in which `max_bytes` end is looked at.
        needed = min(size if end_offset is None else size + _SPAN.size, self.size - first.position)
        if needed > len(data):
            more = self._disk.read_at(self.path, first.position + len(data), needed - len(data))
            data = memoryview(b"".join((data, more))) if data else memoryview(more)
        return data[:size] if end_offset is None else data[: _bytes_before(data, end_offset, size)]

    def batches(self, position: int = 0) -> Iterator[tuple[int, RecordBatch]]:
        """Yield the whole batches from `position` on with their positions; end at the first that is cut off.

        Raises:
            CorruptRecord: a size or a magic is impossible.
            UnsupportedMagic: a batch is of message format 0 or 1.
        """
        want = SCAN_BYTES
        while position < self.size:
            data = memoryview(self._disk.read_at(self.path, position, min(want, self.size - position)))
            at = 0
            while (size := size_of_first(data, at)) is not None and at + size <= len(data):
                yield position + at, RecordBatch(read_header(data, at), data[at : at + size])
                at += size
            if at == 0:
                if size is None or position + size > self.size:
                    return
                want = size
            else:
                position += at
                want = SCAN_BYTES

    def end(self) -> tuple[int, int]:
        """Return the offset after its last whole batch, its base offset without any, and where that batch ends."""
        position = self.offset_index.lookup(MAX_RELATIVE_OFFSET + self.base_offset).position
        next_offset = self.base_offset
        for at, batch in self.batches(position):
            next_offset, position = batch.header.next_offset, at + batch.header.size
        return next_offset, position

    # ------------------------------------------------------------------ changing

    def recover(self) -> Iterator[RecordBatch]:
        """Check every batch, yield those that are intact, and cut the file off at the first that is not.

        The indexes are made again. To be exhausted; `size` is the intact size then.
        """
        self._begin_indexes()
        self._has_index_files = False
        self._last_append = None
        valid, next_offset = 0, self.base_offset
        try:
            for position, batch in self.batches():
                header = batch.header
                check_crc(batch)
                if (
                    not next_offset
                    <= header.base_offset
                    <= header.last_offset
                    <= self.base_offset + MAX_RELATIVE_OFFSET
                ):
                    raise CorruptRecord(
                        f"{self.path} has offsets {header.base_offset} to {header.last_offset} behind {next_offset - 1}"
                    )
                if position == 0:
                    self.first_timestamp = header.max_timestamp
                self._note(position, header.size, header.last_offset, header.max_timestamp, header.last_offset)
                valid, next_offset = position + header.size, header.next_offset
                yield batch
        except (CorruptRecord, UnsupportedMagic) as error:
            # What follows an intact batch is what an unclean end has left.
            if self._is_intact_in_old_format(valid):
                raise UnsupportedMagic(f"{self.path} has message format 0 or 1 at {valid}, not 2") from error
        if valid < self.size:
            self._disk.truncate(self.path, valid)
            self.size = valid

    def _is_intact_in_old_format(self, position: int) -> bool:
        """Return whether the batch at `position` is one of message format 0 or 1, and not a damaged one of format 2."""
        head = self._disk.read_at(self.path, position, _OLD_HEAD.size)
        if len(head) < _OLD_HEAD.size:
            return False
        length, crc, magic = _OLD_HEAD.unpack(head)
        if magic >= MAGIC or not 0 < length <= self.size - position - LOG_OVERHEAD:
            return False
        checked = self._disk.read_at(self.path, position + _OLD_CHECKED_FROM, length + LOG_OVERHEAD - _OLD_CHECKED_FROM)
        return bool(crc == crc32(checked))

    def truncate_to(self, offset: int) -> int:
        """Remove the batches that end at or after an offset; return the offset at which the segment ends then.

        It is below `offset` if a batch has records on both sides of it: such a batch is removed as a whole.
        """
        found = self.find(offset)
        if found is None:
            return offset
        end_offset = min(offset, found.base_offset)
        # Deleted first: entries on disk that lead behind the end would be taken for entries of later batches, also in
        # the index of transactions.
        for suffix in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
            self._disk.delete(self._file(suffix))
        self._has_index_files = False
        self._last_append = None
        self._disk.truncate(self.path, found.position)
        self.size = found.position
        if self.size == 0:
            self._begin_indexes()
            self.first_timestamp = None
            return end_offset
        # Not by `offset`: the batch that is removed as a whole may have records before it.
        self.offset_index.truncate_to(end_offset)
        self.time_index.truncate_to(end_offset)
        self._note_tail(self.time_index, self.offset_index.lookup(end_offset).position)
        return end_offset


def _bytes_before(data: memoryview, end_offset: int, size: int) -> int:
    """Return how many bytes, at most `size`, belong to batches that begin before `end_offset`."""
    at = 0
    while at < size and len(data) - at >= _SPAN.size:
        base_offset, length, _ = _SPAN.unpack_from(data, at)
        if base_offset >= end_offset:
            return at
        at += length + LOG_OVERHEAD
    return size


def roll_jitter_ms(topic_partition: TopicPartition, base_offset: int, most: int) -> int:
    """Return by how much earlier than `segment.ms` a segment is closed: spread over logs, the same in every run."""
    if most <= 0:
        return 0
    seed = sum(topic_partition.topic.encode()) * 31 + topic_partition.partition * 7919 + base_offset
    return (seed * 2654435761) % (2**32) * most >> 32
