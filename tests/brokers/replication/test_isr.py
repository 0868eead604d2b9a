"""Tests of ISR decisions: which follower joins or leaves, and the effect of an AlterPartition response."""

from __future__ import annotations

import pytest

from tests.brokers.parts import ME, ORDERS_0, OTHER, THIRD
from understudy.brokers.replication import isr
from understudy.brokers.replication.isr import OnRefusal
from understudy.brokers.replication.partition import FollowerState, IsrProposal, LocalPartitionState, Role
from understudy.foundation.cluster.errors import Errors

END, HIGH_WATERMARK, EPOCH_START = 9, 7, 8
"""Offsets of the leader: of its log's end, of what all replicas have, and of the start of its leader epoch."""

LEADER = LocalPartitionState(
    topic_partition=ORDERS_0,
    role=Role.LEADER,
    leader=ME,
    leader_epoch=3,
    partition_epoch=7,
    isr=(ME, OTHER),
    replicas=(ME, OTHER, THIRD),
    leader_since_ms=1_000.0,
)
JOINING = IsrProposal(isr=(ME, OTHER, THIRD), joining=(THIRD,), leaving=(), leader_epoch=3, partition_epoch=7)
LEAVING = IsrProposal(isr=(ME,), joining=(), leaving=(OTHER,), leader_epoch=3, partition_epoch=7)
CAUGHT_UP = FollowerState(END, 5_000.0, 5_000.0)
NEVER_FETCHED = FollowerState(-1, 1_000.0, 0.0)


def expansion(
    partition: LocalPartitionState, follower: int, known: FollowerState, *, alive: bool = True
) -> IsrProposal | None:
    return isr.expansion(
        partition,
        follower,
        known,
        high_watermark=HIGH_WATERMARK,
        leader_epoch_start_offset=EPOCH_START,
        is_alive=lambda broker: alive,
    )


@pytest.mark.spec("IS-1")
@pytest.mark.parametrize("known", [CAUGHT_UP, FollowerState(EPOCH_START)])
def test_follower_that_reached_high_watermark_and_leader_epoch_joins_at_the_end_of_the_isr(
    known: FollowerState,
) -> None:
    assert expansion(LEADER, THIRD, known) == JOINING


@pytest.mark.spec("IS-1")
@pytest.mark.parametrize(
    ("partition", "follower", "known", "alive"),
    [
        pytest.param(LEADER, OTHER, CAUGHT_UP, True, id="is in the ISR"),
        pytest.param(LEADER, THIRD, NEVER_FETCHED, True, id="has not fetched"),
        pytest.param(LEADER, THIRD, FollowerState(HIGH_WATERMARK - 1), True, id="below the high watermark"),
        pytest.param(LEADER, THIRD, FollowerState(EPOCH_START - 1), True, id="below the start of the leader epoch"),
        pytest.param(LEADER, THIRD, CAUGHT_UP, False, id="is not alive in the metadata cache"),
        pytest.param(isr.with_proposal(LEADER, JOINING), THIRD, CAUGHT_UP, True, id="a proposal is pending"),
        pytest.param(
            LocalPartitionState(topic_partition=ORDERS_0, role=Role.FOLLOWER),
            THIRD,
            CAUGHT_UP,
            True,
            id="not the leader",
        ),
    ],
)
def test_follower_that_does_not_join(
    partition: LocalPartitionState, follower: int, known: FollowerState, alive: bool
) -> None:
    assert expansion(partition, follower, known, alive=alive) is None


def shrinkage(partition: LocalPartitionState, followers: dict[int, FollowerState], now_ms: float) -> IsrProposal | None:
    return isr.shrinkage(partition, followers, broker_id=ME, leader_end_offset=END, now_ms=now_ms, max_lag_ms=30_000)


@pytest.mark.spec("IS-2")
@pytest.mark.parametrize(
    ("followers", "now_ms", "leaves"),
    [
        pytest.param({}, 31_000.0, False, id="has not fetched, in a young leader epoch"),
        pytest.param({}, 31_001.0, True, id="has not fetched since the leader epoch began"),
        pytest.param({OTHER: NEVER_FETCHED}, 31_001.0, True, id="behind for too long"),
        pytest.param({OTHER: NEVER_FETCHED}, 31_000.0, False, id="behind for exactly as long as allowed"),
        pytest.param({OTHER: FollowerState(END - 1, 1_000.0)}, 31_001.0, True, id="one record behind for too long"),
        pytest.param({OTHER: CAUGHT_UP}, 1e9, False, id="at the end of the log, however long ago"),
    ],
)
def test_follower_that_lags_leaves_the_isr(followers: dict[int, FollowerState], now_ms: float, leaves: bool) -> None:
    assert shrinkage(LEADER, followers, now_ms) == (LEAVING if leaves else None)


@pytest.mark.spec("IS-2")
def test_all_lagging_followers_leave_in_one_proposal_and_the_leader_stays() -> None:
    assert shrinkage(isr.with_proposal(LEADER, JOINING), {}, 1e9) is None, "one proposal at a time"
    wide = LocalPartitionState(topic_partition=ORDERS_0, role=Role.LEADER, isr=(OTHER, ME, THIRD), leader_since_ms=0.0)
    proposal = shrinkage(wide, {}, 1e9)
    assert proposal is not None
    assert (proposal.isr, proposal.leaving) == ((ME,), (OTHER, THIRD))


@pytest.mark.spec("IS-3")
def test_maximal_isr_holds_joining_and_leaving_followers_while_a_proposal_is_pending() -> None:
    assert isr.with_proposal(LEADER, JOINING).maximal_isr == (ME, OTHER, THIRD)
    leaving = isr.with_proposal(LEADER, LEAVING)
    assert leaving.maximal_isr == (ME, OTHER)
    assert leaving.isr == (ME, OTHER), "min.insync.replicas counts the committed ISR"


@pytest.mark.spec("IS-6")
@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "commits"),
    [(3, 8, True), (3, 7, True), (3, 6, False), (2, 8, False), (4, 8, False)],
)
def test_success_commits_at_the_same_leader_epoch_and_no_older_partition_epoch(
    leader_epoch: int, partition_epoch: int, commits: bool
) -> None:
    pending = isr.with_proposal(LEADER, JOINING)
    after = isr.accepted(
        pending, JOINING, leader_epoch=leader_epoch, partition_epoch=partition_epoch, isr=(ME, OTHER, THIRD)
    )
    assert (after is not None) == commits
    if after is not None:
        assert (after.isr, after.partition_epoch, after.proposal) == ((ME, OTHER, THIRD), partition_epoch, None)


@pytest.mark.spec("IS-6")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Errors.OPERATION_NOT_ATTEMPTED, OnRefusal.REVERT),
        (Errors.INELIGIBLE_REPLICA, OnRefusal.REVERT),
        (Errors.UNKNOWN_TOPIC_OR_PARTITION, OnRefusal.AWAIT_METADATA),
        (Errors.UNKNOWN_TOPIC_ID, OnRefusal.AWAIT_METADATA),
        (Errors.NEW_LEADER_ELECTED, OnRefusal.AWAIT_METADATA),
        (Errors.FENCED_LEADER_EPOCH, OnRefusal.AWAIT_METADATA),
        (Errors.INVALID_UPDATE_VERSION, OnRefusal.AWAIT_METADATA),
        (Errors.INVALID_REQUEST, OnRefusal.AWAIT_METADATA),
        (Errors.UNKNOWN_SERVER_ERROR, OnRefusal.RETRY),
        (Errors.NETWORK_EXCEPTION, OnRefusal.RETRY),
    ],
)
def test_what_a_leader_does_with_a_refused_proposal(error: Errors, expected: OnRefusal) -> None:
    assert isr.on_refusal(error) is expected


@pytest.mark.spec("IS-6")
def test_success_without_a_pending_proposal_is_ignored() -> None:
    assert isr.accepted(LEADER, JOINING, leader_epoch=3, partition_epoch=8, isr=(ME,)) is None


def after_fetch(known: FollowerState, fetch_offset: int, now_ms: float) -> FollowerState:
    return isr.after_fetch(known, fetch_offset, now_ms, leader_end_offset=END)


@pytest.mark.spec("IS-1")
def test_fetch_at_the_end_of_the_log_catches_up_and_never_moves_the_time_back() -> None:
    caught_up = after_fetch(FollowerState(), END, 7.0)
    assert (caught_up.log_end_offset, caught_up.last_caught_up_ms, caught_up.last_fetch_ms) == (END, 7.0, 7.0)
    assert after_fetch(FollowerState(END, 9.0, 9.0), END, 7.0).last_caught_up_ms == 9.0
    behind = FollowerState(last_caught_up_ms=3.0, last_fetch_leader_end_offset=END)
    assert after_fetch(behind, END - 1, 7.0).last_caught_up_ms == 3.0


@pytest.mark.spec("IS-1")
def test_follower_under_constant_load_was_caught_up_at_its_last_fetch() -> None:
    """It never fetches at the leader's end, but at each Fetch it has what the leader had at the one before."""
    known = FollowerState()
    ends = (10, 20, 30, 40)
    for now_ms, (offset, end) in enumerate(zip((0, *ends), (*ends, 50), strict=True)):
        known = isr.after_fetch(known, offset, float(now_ms), leader_end_offset=end)
    assert known.last_caught_up_ms == 3.0, "the time of the Fetch before the last one"
    stuck = isr.after_fetch(known, 40, 99.0, leader_end_offset=60)
    assert stuck.last_caught_up_ms == 3.0


@pytest.mark.spec("IS-3")
@pytest.mark.parametrize(
    ("follower_ends", "is_caught_up", "expected"),
    [
        ({OTHER: 8}, True, 8),
        ({OTHER: END}, True, END),
        ({}, True, -1),
        ({OTHER: 8, THIRD: 5}, True, 5),
        ({OTHER: 8, THIRD: 5}, False, 8),
    ],
)
def test_high_watermark_waits_for_the_isr_and_for_caught_up_replicas_outside(
    follower_ends: dict[int, int], is_caught_up: bool, expected: int
) -> None:
    """Broker 3 is outside the ISR of 1 and 2. A member that has not fetched yet keeps the high watermark in place."""
    followers = {
        follower: FollowerState(end, last_caught_up_ms=100.0 if is_caught_up or follower == OTHER else 0.0)
        for follower, end in follower_ends.items()
    }
    assert (
        isr.high_watermark(
            LEADER,
            followers,
            broker_id=ME,
            leader_end_offset=END,
            now_ms=100.0,
            max_lag_ms=50.0,
            is_alive=lambda _: True,
        )
        == expected
    )
