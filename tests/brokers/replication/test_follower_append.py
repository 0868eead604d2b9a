"""Tests of appends to a follower's log that begins in the middle of a leader's batch."""

from __future__ import annotations

import pytest

from tests.brokers.log.parts import NOW_MS, batch
from tests.brokers.parts import ORDERS_0, OTHER, replica_manager, state
from understudy.brokers.log.log_validator import UnexpectedAppendOffset
from understudy.foundation.cluster.errors import ApiError

FIVE = batch(b"a", b"b", b"c", b"d", b"e", leader_epoch=1)


def test_an_empty_follower_copies_the_batch_that_holds_the_leaders_log_start_offset() -> None:
    """DeleteRecords on the leader has deleted the first three of a batch of five records."""
    manager, _, _ = replica_manager(state(leader=OTHER, leader_epoch=4))
    partition = manager.partitions[ORDERS_0]
    partition.log.truncate_fully_and_start_at(3, now_ms=NOW_MS)
    manager.append_as_follower(partition, FIVE, 5, 3)
    replica = partition.log
    assert (replica.log_start_offset, replica.high_watermark, replica.log_end_offset) == (3, 5, 5)
    assert bytes(replica.read(3, 10_000, end_offset=5)) == FIVE
    with pytest.raises(ApiError):
        replica.read(2, 10_000, end_offset=5)
    manager.append_as_follower(partition, batch(b"f", offset=5, leader_epoch=1), 6, 3)
    assert replica.log_end_offset == 6


@pytest.mark.parametrize("begin", [5, 6])
def test_a_batch_that_ends_before_an_empty_log_is_refused(begin: int) -> None:
    manager, _, _ = replica_manager(state(leader=OTHER, leader_epoch=4))
    partition = manager.partitions[ORDERS_0]
    partition.log.truncate_fully_and_start_at(begin, now_ms=NOW_MS)
    with pytest.raises(UnexpectedAppendOffset):
        manager.append_as_follower(partition, FIVE, begin, begin)
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (begin, begin)


def test_a_log_with_records_keeps_them() -> None:
    manager, _, _ = replica_manager(state(leader=OTHER, leader_epoch=4))
    partition = manager.partitions[ORDERS_0]
    manager.append_as_follower(partition, batch(b"a", b"b", leader_epoch=1), 2, 0)
    with pytest.raises(UnexpectedAppendOffset):
        manager.append_as_follower(partition, FIVE, 5, 0)
    assert partition.log.log_end_offset == 2
