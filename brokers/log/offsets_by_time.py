"""Finds records by their timestamps, for ListOffsets. Mirrors `UnifiedLog.fetchOffsetByTimestamp`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from understudy.brokers.log.segment import LogSegment
from understudy.foundation.records.record import records


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
                    epoch = batch.header.partition_leader_epoch
                    return TimestampAndOffset(record.timestamp, record.offset, epoch if epoch >= 0 else None)
    return None


def newest(segments: Sequence[LogSegment], *, log_start_offset: int) -> TimestampAndOffset | None:
    """Return the first record with the largest timestamp; None if no record has one (KIP-734). Raises as above."""
    largest = max(segment.max_timestamp.timestamp for segment in segments)
    return None if largest < 0 else first_at_or_after(segments, largest, log_start_offset=log_start_offset)
