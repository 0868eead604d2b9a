"""Tests of the offset to which a follower truncates its log, by its leader's answer about the follower's last epoch."""

from __future__ import annotations

import pytest

from understudy.brokers.log.checkpoint_file import EpochEntry
from understudy.brokers.log.leader_epoch_cache import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET, LeaderEpochCache
from understudy.brokers.replication.truncation import Truncation, truncation_offset

LOG_END, HIGH_WATERMARK = 30, 12


@pytest.mark.parametrize(
    ("leader_epoch", "leader_end_offset", "offset", "is_complete"),
    [
        pytest.param(4, 25, 25, True, id="the leader's end of the last epoch is before"),
        pytest.param(4, 35, LOG_END, True, id="the leader's end of the last epoch is behind"),
        pytest.param(2, 15, 15, True, id="the leader's end of an earlier epoch is before"),
        pytest.param(2, 35, 20, True, id="the leader's end of an earlier epoch is behind"),
        pytest.param(3, 15, 20, False, id="the leader's epoch is not in the log: the one before is compared next"),
        pytest.param(5, 25, 25, True, id="the leader's epoch is later than all of the log, and ends before"),
        pytest.param(5, 35, LOG_END, True, id="the leader's epoch is later than all of the log, and ends behind"),
        pytest.param(UNDEFINED_EPOCH, 25, 25, True, id="the leader names an offset only, which is before"),
        pytest.param(UNDEFINED_EPOCH, 35, LOG_END, True, id="the leader names an offset only, which is behind"),
        pytest.param(4, UNDEFINED_EPOCH_OFFSET, HIGH_WATERMARK, True, id="the leader has no epochs"),
    ],
)
def test_a_log_is_truncated_to_where_it_agrees_with_the_leaders(
    leader_epoch: int, leader_end_offset: int, offset: int, is_complete: bool
) -> None:
    found = truncation_offset(
        LeaderEpochCache([EpochEntry(2, 10), EpochEntry(4, 20)]),
        leader_epoch=leader_epoch,
        leader_end_offset=leader_end_offset,
        log_end_offset=LOG_END,
        high_watermark=HIGH_WATERMARK,
    )
    assert found == Truncation(offset, is_complete)
