"""One compaction of one log, in steps that may run on another thread. Mirrors `Cleaner`.

It reads the files of closed segments and writes new ones that end in `.cleaned`; it touches nothing else. The event
loop swaps them in between two steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from understudy.brokers.config.log_config import LogConfig
from understudy.brokers.log.batch_retention import Retention, retained
from understudy.brokers.log.cleanable import Dirt, groups_of
from understudy.brokers.log.cleaned_transactions import AbortedTransactions, CleanedTransactions
from understudy.brokers.log.log_files import CLEANED, SEGMENT_FILES, file_name
from understudy.brokers.log.log_segments import place_of
from understudy.brokers.log.offset_map import OffsetMap
from understudy.brokers.log.producer_state import LastRecord
from understudy.brokers.log.segment import LogSegment
from understudy.brokers.world import Disk
from understudy.foundation.records.batch import RecordBatch, check_crc
from understudy.foundation.records.compaction import stored_records
from understudy.foundation.records.errors import CorruptRecord


class SegmentFile(NamedTuple):
    """A segment as it was when the compaction began."""

    base_offset: int
    size: int
    created_ms: float


class CleaningPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction needs to know of a log and of the configuration.

    Attributes:
        segments: all of the log, the active one last.
        last_records: where producers have appended last.
        now_ms: wall time.
        buffer_bytes, load_factor: as in `OffsetMap`.
        io_bytes: about how many bytes of batches one step reads.
    """

    folder: str
    config: LogConfig
    dirt: Dirt
    segments: tuple[SegmentFile, ...]
    last_stable_offset: int
    last_records: Mapping[int, LastRecord]
    now_ms: float
    buffer_bytes: int
    load_factor: float
    io_bytes: int


class Worked(NamedTuple):
    """A step that has read and written bytes."""

    size: int


class CleaningCounts(msgspec.Struct):
    """How much a compaction has read and written.

    Attributes:
        without_key: records without a key, which are removed.
    """

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    without_key: int = 0

    def add(self, other: CleaningCounts) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Cleaned(NamedTuple):
    """A step that has finished a segment, which is to be swapped in before the next step.

    Attributes:
        base_offsets: the base offsets of the segments that it replaces.
        end_offset: the offset after the last of them.
        counts: what was read of them and written.
    """

    segment: LogSegment
    base_offsets: frozenset[int]
    end_offset: int
    counts: CleaningCounts


Step: TypeAlias = Worked | Cleaned


class CleaningStats(msgspec.Struct):
    """What a compaction has done so far. Mirrors `CleanerStats`.

    Attributes:
        end_offset: the first offset that is not compacted.
        counts: of all segments.
        utilization: the share of the buffer for keys that was used.
    """

    end_offset: int
    counts: CleaningCounts = msgspec.field(default_factory=CleaningCounts)
    utilization: float = 0.0


class Cleaning:
    """One compaction; `steps` is iterated once.

    Attributes:
        stats: complete after the last step.
    """

    def __init__(self, plan: CleaningPlan, disk: Disk) -> None:
        self._plan = plan
        self._disk = disk
        self._newest = OffsetMap(plan.buffer_bytes, plan.load_factor)
        self._aborted = AbortedTransactions()
        self._in_work: int | None = None
        """The base offset of the segment that is being written."""
        self.stats = CleaningStats(plan.dirt.first_dirty_offset)

    def steps(self) -> Iterator[Step]:
        """Do the work, one step for each value that is yielded.

        Raises:
            CorruptRecord, InvalidRecord, UnsupportedMagic: a batch cannot be read.
            OSError: the disk fails or is full, or the log was truncated or deleted meanwhile.
        """
        plan = self._plan
        segments = [self._opened(each) for each in plan.segments]
        yield from self._find_aborted(segments)
        first, end = plan.dirt.first_dirty_offset, plan.dirt.first_uncleanable_offset
        yield from self._map_keys([each for each in segments[place_of(segments, first) :] if each.base_offset < end])
        self.stats.end_offset = self._newest.latest_offset + 1
        self.stats.utilization = self._newest.utilization
        retention = Retention(
            newest=self._newest,
            transactions=CleanedTransactions(self._aborted.found()),
            last_records=plan.last_records,
            now_ms=int(plan.now_ms),
            delete_retention_ms=plan.config.delete_retention_ms,
        )
        config, left = plan.config, [each for each in segments if each.base_offset < self.stats.end_offset]
        groups = groups_of(
            left, max_bytes=config.segment_bytes, max_index_bytes=config.segment_index_bytes, end_offset=end
        )
        for place, group in enumerate(groups):
            after = groups[place + 1][0].base_offset if place + 1 < len(groups) else end
            yield from self._clean(group, after, retention)

    def delete_unfinished(self) -> None:
        """Delete the files of a segment that was not finished. Only while no step runs."""
        if self._in_work is not None:
            self._delete_cleaned(self._in_work)

    def _opened(self, file: SegmentFile) -> LogSegment:
        """A segment with indexes of its own: the log's are used by the event loop."""
        segment = LogSegment(
            self._disk, self._plan.folder, file.base_offset, self._plan.config, created_ms=file.created_ms
        )
        segment.size = file.size
        return segment

    def _find_aborted(self, segments: Iterable[LogSegment]) -> Iterator[Step]:
        """Read up to the last stable offset, below which every transaction is committed or aborted."""
        for segment in segments:
            for chunk in _chunks(segment, 0, self._plan.io_bytes):
                for batch in chunk:
                    if batch.header.base_offset >= self._plan.last_stable_offset:
                        return
                    self._aborted.read(batch)
                yield Worked(_size_of(chunk))

    # ------------------------------------------------------------------ the newest offset of each key

    def _map_keys(self, dirty: Sequence[LogSegment]) -> Iterator[Step]:
        first, newest = self._plan.dirt.first_dirty_offset, self._newest
        transactions = CleanedTransactions(self._aborted.found(ending_from=first))
        newest.latest_offset = first - 1
        for place, segment in enumerate(dirty):
            begin = segment.find(max(first, segment.base_offset))
            for chunk in _chunks(segment, segment.size if begin is None else begin.position, self._plan.io_bytes):
                for batch in chunk:
                    if not self._map_batch(batch, transactions):
                        return
                yield Worked(_size_of(chunk))
            is_last = place + 1 == len(dirty)
            after = self._plan.dirt.first_uncleanable_offset if is_last else dirty[place + 1].base_offset
            # Offsets that an earlier compaction has removed need no other.
            newest.latest_offset = max(newest.latest_offset, after - 1)

    def _map_batch(self, batch: RecordBatch, transactions: CleanedTransactions) -> bool:
        """Put the keys of a batch into the map; return False if it is full."""
        header, newest, first = batch.header, self._newest, self._plan.dirt.first_dirty_offset
        can_discard = transactions.can_discard(batch)
        if not can_discard and not header.is_control:
            for record in stored_records(batch):
                if record.offset >= first and record.key is not None:
                    if not newest.put(record.key, record.offset):
                        return False
                    newest.latest_offset = record.offset
        newest.latest_offset = max(newest.latest_offset, header.last_offset)
        return True

    # ------------------------------------------------------------------ writing

    def _clean(self, group: Sequence[LogSegment], end_offset: int, retention: Retention) -> Iterator[Step]:
        """Write one segment with the remaining records of others, which end at `end_offset`."""
        plan, base_offset, counts = self._plan, group[0].base_offset, CleaningCounts()
        self._delete_cleaned(base_offset)
        self._in_work = base_offset
        cleaned = LogSegment.create(
            self._disk, plan.folder, base_offset, plan.config, now_ms=group[-1].created_ms, suffix=CLEANED
        )
        for segment in group:
            for chunk in _chunks(segment, 0, plan.io_bytes):
                left = [retained(batch, retention) for batch in chunk]
                kept = [batch.data for batch in left if batch.data]
                written = cleaned.append_batches(kept)
                counts.records_read += sum(batch.read for batch in left)
                counts.records_kept += sum(batch.kept for batch in left)
                counts.without_key += sum(batch.without_key for batch in left)
                counts.bytes_read += _size_of(chunk)
                counts.bytes_written += written
                yield Worked(_size_of(chunk) + written)
        cleaned.close(flush=True)
        self._disk.flush(cleaned.path)
        self.stats.counts.add(counts)
        yield Cleaned(cleaned, frozenset(segment.base_offset for segment in group), end_offset, counts)
        self._in_work = None

    def _delete_cleaned(self, base_offset: int) -> None:
        for suffix in SEGMENT_FILES:
            self._disk.delete(f"{self._plan.folder}/{file_name(base_offset, suffix)}{CLEANED}")


def _chunks(segment: LogSegment, position: int, size: int) -> Iterator[list[RecordBatch]]:
    """Yield the batches of a segment from `position` on, together about `size` bytes, or one that is larger.

    Raises:
        CorruptRecord: a checksum is wrong, or the segment ends in a part of a batch.
    """
    chunk: list[RecordBatch] = []
    read, end = 0, position
    for at, batch in segment.batches(position):
        check_crc(batch)
        end = at + batch.header.size
        chunk.append(batch)
        read += batch.header.size
        if read >= size:
            yield chunk
            chunk, read = [], 0
    if end < segment.size:
        raise CorruptRecord(f"{segment.path} has {segment.size - end} bytes behind its last whole batch")
    if chunk:
        yield chunk


def _size_of(chunk: Iterable[RecordBatch]) -> int:
    return sum(batch.header.size for batch in chunk)
