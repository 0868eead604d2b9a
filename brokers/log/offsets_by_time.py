"""Finds records by their timestamps, for ListOffsets. Mirrors `UnifiedLog.fetchOffsetByTimestamp`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from understudy.brokers.log.segment import LogSegment
from understudy.foundation.records.batch import RecordBatch
from understudy.foundation.records.record import Record, records


class TimestampAndOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int | None


def first_at_or_after(
    segments: Sequence[LogSegment], timestamp: int, *, log_start_offset: int
) -> TimestampAndOffset | None:
    """Return the first record whose timestamp is at least `timestamp`; None without one.

    Raises:
        CorruptRecord, InvalidRecord: a batch that may have it cannot be read.
        OSError: the disk fails.
    """
    for segment in segments:
        if segment.max_timestamp.timestamp < timestamp:
            continue
        begin = segment.find(max(segment.time_index.lookup(timestamp).offset, log_start_offset))
        if begin is None:
            continue
        for _, batch in segment.batches(begin.position):
            if batch.header.max_timestamp < timestamp:
                continue
            for record in records(batch):
                if record.timestamp >= timestamp and record.offset >= log_start_offset:
                    return _found(record, batch)
    return None


def newest(segments: Sequence[LogSegment]) -> TimestampAndOffset | None:
    """Return the first record with the largest timestamp; None without one (KIP-734). Raises as above.

    As in Kafka, it may be a record that DeleteRecords has deleted, if its segment is still there.
    """
    segment = max(segments, key=lambda each: each.max_timestamp.timestamp)
    largest = segment.max_timestamp
    begin = segment.find(largest.offset)
    if begin is None:
        return None
    of_largest = (b for _, b in segment.batches(begin.position) if b.header.max_timestamp == largest.timestamp)
    batch = next(of_largest, None)
    if batch is None:
        return None
    found = next((each for each in records(batch) if each.timestamp == largest.timestamp), None)
    return None if found is None else _found(found, batch)


def _found(record: Record, batch: RecordBatch) -> TimestampAndOffset:
    epoch = batch.header.partition_leader_epoch
    return TimestampAndOffset(record.timestamp, record.offset, epoch if epoch >= 0 else None)
