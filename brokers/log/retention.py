"""Decides which of a log's oldest segments are deleted. A plain function; mirrors `UnifiedLog.deleteOldSegments`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from understudy.brokers.config.log_config import LogConfig
from understudy.brokers.log.segment import LogSegment


def deletable_segments(
    segments: Sequence[LogSegment],
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: float,
) -> int:
    """Return how many segments, from the oldest on, neither retention nor the log start offset keeps.

    A segment that reaches above the high watermark is kept, and so is an empty one at the end.
    """
    ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    most = 0
    while most < len(segments) and ends[most] <= high_watermark:
        most += 1
    if most == len(segments) and segments[-1].size == 0:
        most -= 1
    # The active segment stays for its log start offset alone, as in Kafka.
    deletable = _leading(ends[: min(most, len(segments) - 1)], lambda place: ends[place] <= log_start_offset)
    if config.is_deleted and config.retention_ms >= 0:
        aged = _leading(ends[:most], lambda place: now_ms - segments[place].largest_timestamp_ms > config.retention_ms)
        deletable = max(deletable, aged)
    if config.is_deleted and config.retention_bytes >= 0:
        deletable = max(
            deletable, _beyond(segments[:most], sum(each.size for each in segments), config.retention_bytes)
        )
    return deletable


def _leading(ends: Sequence[int], is_due: Callable[[int], bool]) -> int:
    count = 0
    while count < len(ends) and is_due(count):
        count += 1
    return count


def _beyond(segments: Sequence[LogSegment], size: int, limit: int) -> int:
    """Return how many segments can go while the rest still has at least `limit` bytes."""
    count = 0
    for segment in segments:
        if size - segment.size < limit:
            break
        size -= segment.size
        count += 1
    return count
