"""Tests of which log is compacted, up to which offset, and which segments become one."""

from __future__ import annotations

import pytest

from tests.brokers.log.parts import NOW_MS, batch, config, open_log
from understudy.brokers.config.log_config import LogConfig
from understudy.brokers.log.cleanable import Dirt, dirt_of, dirtiest, groups_of, is_due
from understudy.brokers.log.partition_log import PartitionLog

SMALL = {"segment_bytes": 200, "cleanup_policy": "compact"}
HOUR_MS = 3_600_000


def five_segments(log_config: LogConfig, *, timestamps: tuple[int, ...] = (NOW_MS,) * 5) -> PartitionLog:
    """A log with two batches of one record in each segment: base offsets 0, 2, 4, 6 and 8."""
    opened = open_log(log_config=log_config)
    for offset in range(10):
        data = batch(b"x" * 20, offset=offset, timestamp=timestamps[offset // 2], keys=[b"k"])
        opened.append_as_follower(data, now_ms=NOW_MS)
    assert [segment.base_offset for segment in opened.segments] == [0, 2, 4, 6, 8]
    opened.update_high_watermark(10)
    return opened


def dirt(
    opened: PartitionLog, checkpoint: int | None = None, *, now_ms: float = NOW_MS, stable: int | None = None
) -> Dirt:
    return dirt_of(
        opened.segments,
        opened.config,
        checkpoint=checkpoint,
        log_start_offset=opened.log_start_offset,
        last_stable_offset=opened.last_stable_offset if stable is None else stable,
        log_end_offset=opened.log_end_offset,
        now_ms=now_ms,
    )


def test_everything_but_the_active_segment_of_a_new_log_is_dirty() -> None:
    opened = five_segments(config(**SMALL))
    size = opened.segments[0].size
    assert dirt(opened) == Dirt(0, 8, 0, 4 * size, 0, is_reset=False)
    assert dirt(opened).ratio == 1


@pytest.mark.parametrize(("checkpoint", "clean", "cleanable"), [(4, 2, 2), (8, 4, 0), (9, 5, 0), (5, 3, 2)])
def test_what_was_compacted_before_is_clean(checkpoint: int, clean: int, cleanable: int) -> None:
    """Of a segment that is compacted in part the bytes count as both, as in Kafka."""
    opened = five_segments(config(**SMALL))
    size, found = opened.segments[0].size, dirt(opened, checkpoint)
    assert (found.first_dirty_offset, found.clean_bytes, found.cleanable_bytes) == (
        checkpoint,
        clean * size,
        cleanable * size,
    )


@pytest.mark.parametrize(("stable", "uncleanable"), [(8, 8), (7, 6), (6, 6), (1, 0), (0, 0)])
def test_a_segment_with_records_that_are_not_stable_is_not_compacted(stable: int, uncleanable: int) -> None:
    found = dirt(five_segments(config(**SMALL)), stable=stable)
    assert found.first_uncleanable_offset == uncleanable


def test_young_segments_and_what_follows_them_are_not_compacted() -> None:
    old = NOW_MS - 2 * HOUR_MS
    opened = five_segments(config(min_compaction_lag_ms=HOUR_MS, **SMALL), timestamps=(old, old, NOW_MS, old, NOW_MS))
    assert dirt(opened).first_uncleanable_offset == 4
    assert dirt(opened, now_ms=NOW_MS + 2 * HOUR_MS).first_uncleanable_offset == 8


@pytest.mark.parametrize("checkpoint", [-1, 11])
def test_a_checkpoint_outside_the_log_is_forgotten(checkpoint: int) -> None:
    found = dirt(five_segments(config(**SMALL)), checkpoint)
    assert (found.first_dirty_offset, found.is_reset) == (0, True)


def test_a_log_is_due_by_its_dirty_share_or_by_age() -> None:
    log_config = config(min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=HOUR_MS, **SMALL)
    opened = five_segments(log_config)
    assert is_due(dirt(opened), log_config)
    half = dirt(opened, 4)
    assert half.ratio == 0.5
    assert not is_due(half, log_config), "not above it"
    overdue = dirt(opened, 4, now_ms=NOW_MS + HOUR_MS + 5)
    assert overdue.delay_ms == 5
    assert is_due(overdue, log_config)
    assert not is_due(dirt(opened, 8, now_ms=NOW_MS + 2 * HOUR_MS), log_config), "nothing to compact"


def test_the_dirtiest_log_comes_first() -> None:
    opened = five_segments(config(**SMALL))
    assert dirtiest([("a", dirt(opened, 6)), ("b", dirt(opened, 2)), ("c", dirt(opened, 2))]) == ("b", dirt(opened, 2))
    assert dirtiest([]) is None


def test_an_empty_log_has_no_ratio() -> None:
    assert dirt(open_log(log_config=config(**SMALL))).ratio == 0


def groups(opened: PartitionLog, max_bytes: int, max_index_bytes: int = 1 << 20) -> list[list[int]]:
    found = groups_of(opened.segments[:-1], max_bytes=max_bytes, max_index_bytes=max_index_bytes, end_offset=8)
    return [[segment.base_offset for segment in group] for group in found]


def test_segments_are_grouped_by_size() -> None:
    opened = five_segments(config(index_interval_bytes=0, **SMALL))
    size = opened.segments[0].size
    assert groups(opened, 10 * size) == [[0, 2, 4, 6]]
    assert groups(opened, 2 * size) == [[0, 2], [4, 6]]
    assert groups(opened, 3 * size - 1) == [[0, 2], [4, 6]]
    assert groups(opened, 1) == [[0], [2], [4], [6]]
    assert groups(opened, 10 * size, opened.segments[0].time_index.size * 3) == [[0, 2, 4], [6]]


def test_a_group_has_no_offset_that_is_too_far_from_its_base() -> None:
    opened = open_log(log_config=config(**SMALL))
    for offset in (0, 10, 2**31 + 5, 2**31 + 20):
        opened.append_as_follower(batch(b"x" * 150, offset=offset, keys=[b"k"]), now_ms=NOW_MS)
    found = groups_of(opened.segments, max_bytes=10_000, max_index_bytes=10_000, end_offset=2**31 + 21)
    assert [[segment.base_offset for segment in group] for group in found] == [[0, 1], [11], [2**31 + 6]]
