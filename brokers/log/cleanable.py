"""Decides which log is compacted next, up to which offset, and which of its segments become one.

Plain functions. A log has a clean part at its beginning, which was compacted before, then a dirty part, and at its end
a part that cannot be compacted yet: at least the active segment. Mirrors `LogCleanerManager` and `LogToClean`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from understudy.brokers.config.kafka_config import MAX_LONG
from understudy.brokers.config.log_config import LogConfig
from understudy.brokers.log.log_segments import place_of
from understudy.brokers.log.segment import MAX_RELATIVE_OFFSET, LogSegment

T = TypeVar("T")


class Dirt(NamedTuple):
    """How much of a log may be compacted.

    Attributes:
        first_dirty_offset: where its dirty part begins.
        first_uncleanable_offset: the base offset of the first segment that cannot be compacted yet.
        delay_ms: how long ago its oldest dirty record has exceeded `max.compaction.lag.ms`; 0 if none has.
        is_reset: whether the first dirty offset of the checkpoint is outside the log, and its start is taken instead.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: float
    is_reset: bool

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def ratio(self) -> float:
        """The share of the bytes that is dirty."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0


def dirt_of(
    segments: Sequence[LogSegment],
    config: LogConfig,
    *,
    checkpoint: int | None,
    log_start_offset: int,
    last_stable_offset: int,
    log_end_offset: int,
    now_ms: float,
) -> Dirt:
    """Return how much of a log may be compacted.

    Never the active segment, nothing at or above the last stable offset, and no segment with a record younger than
    `min.compaction.lag.ms` or anything after it.

    Args:
        checkpoint: the first dirty offset in `cleaner-offset-checkpoint`; None for a log that was never compacted.
    """
    first_dirty = log_start_offset if checkpoint is None else checkpoint
    is_reset = not log_start_offset <= first_dirty <= log_end_offset
    if is_reset:
        first_dirty = log_start_offset
    closed = segments[:-1]
    dirty = closed[place_of(closed, first_dirty) :] if first_dirty <= segments[-1].base_offset else ()
    limit = min(last_stable_offset, segments[-1].base_offset)
    if config.min_compaction_lag_ms > 0:
        youngest_ms = now_ms - config.min_compaction_lag_ms
        young = next((segment for segment in dirty if segment.largest_timestamp_ms > youngest_ms), None)
        limit = limit if young is None else min(limit, young.base_offset)
    limit = max(limit, first_dirty)
    # A segment of which some records cannot be compacted yet is not compacted at all.
    uncleanable = segments[min(place_of(segments, limit), len(segments) - 1)].base_offset
    begin = segments[place_of(segments, min(first_dirty, uncleanable))].base_offset
    return Dirt(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=uncleanable,
        clean_bytes=sum(segment.size for segment in segments if segment.base_offset < first_dirty),
        cleanable_bytes=sum(segment.size for segment in segments if begin <= segment.base_offset < uncleanable),
        delay_ms=_delay_ms(dirty, config, now_ms),
        is_reset=is_reset,
    )


def _delay_ms(dirty: Iterable[LogSegment], config: LogConfig, now_ms: float) -> float:
    if config.max_compaction_lag_ms >= MAX_LONG:
        return 0
    firsts = [timestamp for segment in dirty if (timestamp := segment.first_batch_timestamp()) > 0]
    return max(0, now_ms - config.max_compaction_lag_ms - min(firsts)) if firsts else 0


def is_due(dirt: Dirt, config: LogConfig) -> bool:
    """Whether a log is compacted now: much of it is dirty, or a part has been for too long."""
    return (dirt.delay_ms > 0 and dirt.cleanable_bytes > 0) or dirt.ratio > config.min_cleanable_dirty_ratio


def dirtiest(candidates: Iterable[tuple[T, Dirt]]) -> tuple[T, Dirt] | None:
    """Return the log with the largest dirty share, the first of several; None without any."""
    return max(candidates, key=lambda candidate: candidate[1].ratio, default=None)


def groups_of(
    segments: Sequence[LogSegment], *, max_bytes: int, max_index_bytes: int, end_offset: int
) -> list[list[LogSegment]]:
    """Return segments in groups, each of which fits into one segment, so that segments do not become ever smaller.

    Args:
        max_index_bytes: the largest size of each index.
        end_offset: the offset after the last segment.
    """
    groups: list[list[LogSegment]] = []
    size = offset_index_size = time_index_size = 0
    for place, segment in enumerate(segments):
        after = segments[place + 1].base_offset if place + 1 < len(segments) else end_offset
        offset_index, time_index = segment.offset_index.size, segment.time_index.size
        fits = (
            bool(groups)
            and size + segment.size <= max_bytes
            and offset_index_size + offset_index <= max_index_bytes
            and time_index_size + time_index <= max_index_bytes
            and (segment.size == 0 or after - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        )
        if fits:
            groups[-1].append(segment)
            size, offset_index_size = size + segment.size, offset_index_size + offset_index
            time_index_size += time_index
        else:
            groups.append([segment])
            size, offset_index_size, time_index_size = segment.size, offset_index, time_index
    return groups
