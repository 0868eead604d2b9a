"""Who joins, who leaves, and what an answer means (specification 13.1)."""

from __future__ import annotations

import pytest

from brokers.replication import isr
from brokers.replication.partition import FollowerState, IsrProposal, Partition, Role
from foundation.cluster.errors import Errors
from tests.brokers.stage import ME, ORDERS_0, OTHER, THIRD

LEADER = Partition(
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
CAUGHT_UP = FollowerState(0, 5_000.0, 5_000.0)
SILENT = FollowerState(-1, 1_000.0, 0.0)


@pytest.mark.spec("IS-1")
def test_who_has_caught_up_joins_at_the_end() -> None:
    assert isr.expansion(LEADER, THIRD, CAUGHT_UP, is_alive=lambda broker: True) == JOINING


@pytest.mark.spec("IS-1")
@pytest.mark.parametrize(
    ("partition", "follower", "state", "alive"),
    [
        pytest.param(LEADER, OTHER, CAUGHT_UP, True, id="is in already"),
        pytest.param(LEADER, THIRD, SILENT, True, id="has not reached the high watermark"),
        pytest.param(LEADER, THIRD, CAUGHT_UP, False, id="is not alive in the metadata cache"),
        pytest.param(isr.proposing(LEADER, JOINING), THIRD, CAUGHT_UP, True, id="a change is under way"),
        pytest.param(
            Partition(topic_partition=ORDERS_0, role=Role.FOLLOWER), THIRD, CAUGHT_UP, True, id="not the leader"
        ),
    ],
)
def test_who_does_not_join(partition: Partition, follower: int, state: FollowerState, alive: bool) -> None:
    assert isr.expansion(partition, follower, state, is_alive=lambda broker: alive) is None


def shrinkage(partition: Partition, followers: dict[int, FollowerState], now_ms: float) -> IsrProposal | None:
    return isr.shrinkage(partition, followers, broker_id=ME, now_ms=now_ms, max_lag_ms=30_000)


@pytest.mark.spec("IS-2")
@pytest.mark.parametrize(
    ("followers", "now_ms", "leaves"),
    [
        pytest.param({}, 31_000.0, False, id="never heard of, but the epoch is young"),
        pytest.param({}, 31_001.0, True, id="never heard of since the epoch began"),
        pytest.param({OTHER: SILENT}, 31_001.0, True, id="behind for too long"),
        pytest.param({OTHER: SILENT}, 31_000.0, False, id="behind for exactly as long as allowed"),
        pytest.param({OTHER: CAUGHT_UP}, 1e9, False, id="at the end of the log, however long ago"),
    ],
)
def test_who_leaves(followers: dict[int, FollowerState], now_ms: float, leaves: bool) -> None:
    proposal = shrinkage(LEADER, followers, now_ms)
    assert (proposal is not None) == leaves
    if proposal is not None:
        assert (proposal.isr, proposal.leaving) == ((ME,), (OTHER,))


@pytest.mark.spec("IS-2")
def test_all_laggards_leave_in_one_change_and_the_leader_never_does() -> None:
    partition = isr.proposing(LEADER, JOINING)
    assert shrinkage(partition, {}, 1e9) is None, "one change at a time"
    wide = Partition(topic_partition=ORDERS_0, role=Role.LEADER, isr=(OTHER, ME, THIRD), leader_since_ms=0.0)
    proposal = shrinkage(wide, {}, 1e9)
    assert proposal is not None
    assert (proposal.isr, proposal.leaving) == ((ME,), (OTHER, THIRD))


@pytest.mark.spec("IS-3")
def test_while_it_is_under_way_the_newcomer_may_be_in_already_and_a_leaver_still_is() -> None:
    assert isr.proposing(LEADER, JOINING).maximal_isr == (ME, OTHER, THIRD)
    leaving = IsrProposal(isr=(ME,), joining=(), leaving=(OTHER,), leader_epoch=3, partition_epoch=7)
    assert isr.proposing(LEADER, leaving).maximal_isr == (ME, OTHER)
    assert isr.proposing(LEADER, leaving).isr == (ME, OTHER), "min.insync.replicas counts what is committed"


@pytest.mark.spec("IS-6")
@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "commits"),
    [(3, 8, True), (3, 7, True), (3, 6, False), (2, 8, False), (4, 8, False)],
)
def test_a_success_commits_at_our_leader_epoch_and_no_older_partition_epoch(
    leader_epoch: int, partition_epoch: int, commits: bool
) -> None:
    pending = isr.proposing(LEADER, JOINING)
    after = isr.accepted(
        pending, JOINING, leader_epoch=leader_epoch, partition_epoch=partition_epoch, isr=(ME, OTHER, THIRD)
    )
    assert (after is not None) == commits
    if after is not None:
        assert (after.isr, after.partition_epoch, after.proposal) == ((ME, OTHER, THIRD), partition_epoch, None)


@pytest.mark.spec("IS-6")
@pytest.mark.parametrize(
    ("error", "reverts", "again"),
    [
        (Errors.OPERATION_NOT_ATTEMPTED, True, False),
        (Errors.INELIGIBLE_REPLICA, True, False),
        (Errors.UNKNOWN_TOPIC_OR_PARTITION, False, False),
        (Errors.UNKNOWN_TOPIC_ID, False, False),
        (Errors.NEW_LEADER_ELECTED, False, False),
        (Errors.FENCED_LEADER_EPOCH, False, False),
        (Errors.INVALID_UPDATE_VERSION, False, False),
        (Errors.INVALID_REQUEST, False, False),
        (Errors.UNKNOWN_SERVER_ERROR, False, True),
        (Errors.NETWORK_EXCEPTION, False, True),
    ],
)
def test_what_each_error_means(error: Errors, reverts: bool, again: bool) -> None:
    pending = isr.proposing(LEADER, JOINING)
    after, retry = isr.refused(pending, JOINING, error)
    assert after == (LEADER if reverts else None)
    assert retry == again


@pytest.mark.spec("IS-6")
def test_an_answer_to_something_else_than_the_present_state_is_ignored() -> None:
    assert isr.accepted(LEADER, JOINING, leader_epoch=3, partition_epoch=8, isr=(ME,)) is None
    assert isr.refused(LEADER, JOINING, Errors.INELIGIBLE_REPLICA) == (None, False)
    assert isr.refused(LEADER, JOINING, Errors.NETWORK_EXCEPTION) == (None, False)


@pytest.mark.spec("IS-1")
def test_a_fetch_at_the_end_of_the_log_catches_up_and_time_never_runs_back() -> None:
    assert isr.after_fetch(FollowerState(), 0, 7.0) == FollowerState(0, 7.0, 7.0)
    assert isr.after_fetch(FollowerState(0, 9.0, 9.0), 0, 7.0).last_caught_up_ms == 9.0
    assert isr.after_fetch(FollowerState(last_caught_up_ms=3.0), -1, 7.0) == FollowerState(-1, 3.0, 7.0)
