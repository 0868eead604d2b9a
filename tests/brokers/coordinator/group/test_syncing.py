"""Tests of SyncGroup, heartbeats, sessions and LeaveGroup: what members of a generation are answered."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.brokers.coordinator.group.parts import (
    GROUP,
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    CoordinatorHarness,
    assignment,
)
from tests.brokers.parts import ME, OTHER
from understudy.brokers.coordinator.group.group_coordinator import LeavingMember
from understudy.foundation.cluster.errors import Errors


def joined(harness: CoordinatorHarness, count: int = 2) -> list[str]:
    """The ids of members whose generation has begun, the leader's first."""
    joins = [harness.join() for _ in range(count)]
    harness.advance(2 * INITIAL_DELAY_MS)
    ids = [join.result().member_id for join in joins]
    return sorted(ids, key=lambda each: each != joins[0].result().leader_id)


# ------------------------------------------------------------------ SyncGroup


def test_followers_wait_for_the_assignment_of_the_leader(harness: CoordinatorHarness) -> None:
    leader, follower = joined(harness)
    waiting = harness.sync(follower, 1)
    assert not waiting.done()
    mine = harness.sync(leader, 1, {leader: assignment(0), follower: assignment(1)}).result()
    assert (mine.error, mine.assignment, mine.protocol_type, mine.protocol_name) == (
        Errors.NONE,
        assignment(0),
        "consumer",
        "range",
    )
    assert waiting.result().assignment == assignment(1)
    assert harness.state == "Stable"


def test_a_follower_that_comes_late_is_given_its_assignment(harness: CoordinatorHarness) -> None:
    leader, follower = joined(harness)
    harness.sync(leader, 1, {leader: assignment(0), follower: assignment(1)})
    assert harness.sync(follower, 1).result().assignment == assignment(1)
    assert harness.sync(follower, 1).result().assignment == assignment(1)


def test_members_that_the_leader_has_left_out_get_an_empty_assignment(harness: CoordinatorHarness) -> None:
    leader, follower = joined(harness)
    harness.sync(leader, 1, {leader: assignment(0), "invented": b"x"})
    assert harness.sync(follower, 1).result() == (Errors.NONE, "consumer", "range", b"")


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"member_id": "invented"}, Errors.UNKNOWN_MEMBER_ID),
        ({"generation": 2}, Errors.ILLEGAL_GENERATION),
        ({"generation": -1}, Errors.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, Errors.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, Errors.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance": "i"}, Errors.UNKNOWN_MEMBER_ID),
        ({"group": "other"}, Errors.UNKNOWN_MEMBER_ID),
        ({"group": ""}, Errors.INVALID_GROUP_ID),
    ],
)
def test_a_member_that_lies_is_refused(harness: CoordinatorHarness, wrong: dict[str, object], error: Errors) -> None:
    leader, follower = joined(harness)
    asked: dict[str, object] = {"member_id": leader, "generation": 1, "assigned": {}} | wrong
    assert harness.sync(**asked).result().error is error  # type: ignore[arg-type]  # any argument of `sync`
    harness.complete([leader, follower], 1)


def test_old_members_name_no_protocol(harness: CoordinatorHarness) -> None:
    [leader] = joined(harness, 1)
    assert harness.sync(leader, 1, protocol_type=None, protocol_name=None).result().error is Errors.NONE


def test_a_sync_during_a_rebalance_is_answered_with_it(harness: CoordinatorHarness) -> None:
    leader, follower = harness.stable(2)
    harness.join(leader)
    assert harness.sync(follower, 1).result().error is Errors.REBALANCE_IN_PROGRESS


def test_a_new_member_ends_the_wait_for_an_assignment(harness: CoordinatorHarness) -> None:
    _, follower = joined(harness)
    waiting = harness.sync(follower, 1)
    harness.join()
    assert waiting.result().error is Errors.REBALANCE_IN_PROGRESS
    assert harness.state == "PreparingRebalance"


def test_a_sync_that_is_sent_again_supersedes_the_one_that_waits(harness: CoordinatorHarness) -> None:
    leader, follower = joined(harness)
    first = harness.sync(follower, 1)
    second = harness.sync(follower, 1)
    assert first.result().error is Errors.REBALANCE_IN_PROGRESS
    harness.sync(leader, 1, {follower: b"x"})
    assert second.result().assignment == b"x"


def test_members_that_never_sync_are_removed_after_the_rebalance_timeout(harness: CoordinatorHarness) -> None:
    leader, silent = joined(harness)
    harness.sync(leader, 1, {})
    for _ in range(int(REBALANCE_MS / 5_000)):
        assert "NONE" in (harness.heartbeat(leader, 1), harness.heartbeat(silent, 1))
        harness.advance(5_000)
    assert harness.state == "PreparingRebalance"
    assert list(harness.manager_groups[GROUP].members) == [leader]


def test_a_leader_that_never_syncs_is_removed_and_another_leads(harness: CoordinatorHarness) -> None:
    leader, follower = joined(harness)
    waiting = harness.sync(follower, 1)
    for _ in range(int(REBALANCE_MS / 5_000)):
        harness.heartbeat(leader, 1)
        harness.advance(5_000)
    assert waiting.result().error is Errors.REBALANCE_IN_PROGRESS
    assert harness.join(follower).result().leader_id == follower


# ------------------------------------------------------------------ storing the assignment


def test_members_are_answered_when_the_assignment_is_replicated(replicated: CoordinatorHarness) -> None:
    harness = replicated
    leader, follower = joined(harness)
    waiting = [harness.sync(follower, 1), harness.sync(leader, 1, {leader: assignment(0)})]
    assert [task.done() for task in waiting] == [False, False]
    assert harness.state == "CompletingRebalance"
    harness.replicate()
    assert [task.result().error for task in waiting] == [Errors.NONE, Errors.NONE]
    assert harness.state == "Stable"


def test_an_assignment_that_is_not_replicated_in_time_begins_a_rebalance(replicated: CoordinatorHarness) -> None:
    harness = replicated
    leader, follower = joined(harness)
    waiting = [harness.sync(follower, 1), harness.sync(leader, 1, {})]
    harness.advance(5_000)
    assert [task.result().error for task in waiting] == [Errors.REBALANCE_IN_PROGRESS] * 2
    assert harness.state == "PreparingRebalance"


def test_an_assignment_of_an_earlier_generation_changes_nothing(replicated: CoordinatorHarness) -> None:
    harness = replicated
    [leader] = joined(harness, 1)
    stale = harness.sync(leader, 1, {leader: b"old"})
    new = harness.join()
    again = harness.join(leader)
    assert stale.result().error is Errors.REBALANCE_IN_PROGRESS
    assert (again.result().generation_id, new.result().generation_id) == (2, 2)
    harness.replicate()
    assert harness.state == "CompletingRebalance"
    assert harness.manager_groups[GROUP].members[leader].assignment == b""


def test_a_group_too_large_to_be_stored_is_answered_with_an_unknown_error(harness: CoordinatorHarness) -> None:
    [leader] = joined(harness, 1)
    waiting = harness.sync(leader, 1, {leader: b"x" * 2_000_000})
    assert waiting.result().error is Errors.UNKNOWN_SERVER_ERROR
    assert harness.state == "PreparingRebalance"


def test_too_few_in_sync_replicas_make_the_coordinator_unavailable(harness: CoordinatorHarness) -> None:
    leader, _ = joined(harness)
    harness.partition().state = replace(harness.partition().state, isr=(), replicas=(ME, OTHER))
    assert harness.sync(leader, 1, {}).result().error is Errors.COORDINATOR_NOT_AVAILABLE


# ------------------------------------------------------------------ heartbeats and sessions


def test_heartbeats_keep_a_session(harness: CoordinatorHarness) -> None:
    [only] = harness.stable(1)
    for _ in range(5):
        harness.advance(SESSION_MS - 1)
        assert harness.heartbeat(only, 1) == "NONE"
    harness.advance(SESSION_MS)
    assert harness.heartbeat(only, 1) == "UNKNOWN_MEMBER_ID"
    assert harness.state == "Empty"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"member_id": "invented"}, "UNKNOWN_MEMBER_ID"),
        ({"generation": 7}, "ILLEGAL_GENERATION"),
        ({"instance": "i"}, "UNKNOWN_MEMBER_ID"),
        ({"group": "other"}, "UNKNOWN_MEMBER_ID"),
        ({"group": ""}, "INVALID_GROUP_ID"),
    ],
)
def test_a_heartbeat_of_no_member_is_refused_and_keeps_no_session(
    harness: CoordinatorHarness, wrong: dict[str, str], error: str
) -> None:
    [only] = harness.stable(1)
    harness.advance(SESSION_MS - 1)
    asked: dict[str, object] = {"member_id": only, "generation": 1} | wrong
    assert harness.heartbeat(**asked) == error  # type: ignore[arg-type]  # any argument of `heartbeat`
    harness.advance(1)
    assert harness.state == "Empty"


def test_heartbeats_count_while_the_leader_assigns(harness: CoordinatorHarness) -> None:
    leader, follower = joined(harness)
    for _ in range(2):
        harness.advance(SESSION_MS - 1)
        assert (harness.heartbeat(leader, 1), harness.heartbeat(follower, 1)) == ("NONE", "NONE")


def test_members_that_wait_need_no_heartbeats(harness: CoordinatorHarness) -> None:
    leader, follower = joined(harness)
    waiting = harness.sync(follower, 1)
    harness.heartbeat(leader, 1)
    harness.advance(SESSION_MS - 1)
    harness.heartbeat(leader, 1)
    harness.advance(SESSION_MS - 1)
    harness.sync(leader, 1, {follower: b"x"})
    assert waiting.result().assignment == b"x"
    harness.advance(SESSION_MS)
    assert harness.state == "Empty", "its session begins with the answer"


def test_a_member_that_fails_causes_a_rebalance(harness: CoordinatorHarness) -> None:
    leader, follower = harness.stable(2)
    harness.advance(SESSION_MS - 1)
    harness.heartbeat(leader, 1)
    harness.advance(1)
    assert harness.state == "PreparingRebalance"
    assert harness.heartbeat(follower, 1) == "UNKNOWN_MEMBER_ID"
    assert harness.join(leader).result().generation_id == 2


def test_a_rebalance_ends_where_no_member_joins_again(harness: CoordinatorHarness) -> None:
    leader, follower = harness.stable(2)
    gone = harness.join(leader)
    leave(harness, LeavingMember(leader))
    assert gone.result().error is Errors.UNKNOWN_MEMBER_ID
    harness.advance(SESSION_MS)
    assert harness.state == "Empty"
    assert harness.heartbeat(follower, 1) == "UNKNOWN_MEMBER_ID"


# ------------------------------------------------------------------ leaving


def leave(
    harness: CoordinatorHarness, *leaving: LeavingMember, group: str = GROUP
) -> tuple[Errors, tuple[Errors, ...]]:
    answer = harness.groups.leave_group(group, leaving)
    harness.settle()
    return answer


def test_the_last_member_that_leaves_empties_the_group_at_once(harness: CoordinatorHarness) -> None:
    [only] = harness.stable(1)
    assert leave(harness, LeavingMember(only)) == (Errors.NONE, (Errors.NONE,))
    assert (harness.state, harness.manager_groups[GROUP].generation_id) == ("Empty", 2)


def test_a_member_that_leaves_causes_a_rebalance(harness: CoordinatorHarness) -> None:
    leader, follower = harness.stable(2)
    leave(harness, LeavingMember(leader))
    assert harness.heartbeat(follower, 1) == "REBALANCE_IN_PROGRESS"
    assert harness.join(follower).result().leader_id == follower


def test_a_member_that_leaves_while_it_waits_is_answered(harness: CoordinatorHarness) -> None:
    leader, follower = joined(harness)
    waiting = harness.sync(follower, 1)
    leave(harness, LeavingMember(follower))
    assert waiting.result().error is Errors.UNKNOWN_MEMBER_ID
    assert harness.join(leader).result().generation_id == 2


def test_each_of_several_leaving_members_is_answered_by_itself(harness: CoordinatorHarness) -> None:
    ids = harness.stable(instances=["a", "b"])
    first, second = (harness.manager_groups[GROUP].members[each].group_instance_id for each in ids)
    answer = leave(
        harness,
        LeavingMember(ids[0], second),
        LeavingMember("", first),
        LeavingMember("", "nowhere"),
        LeavingMember("", None),
        LeavingMember("invented"),
        LeavingMember(ids[1], second),
    )
    assert answer == (
        Errors.NONE,
        (
            Errors.FENCED_INSTANCE_ID,
            Errors.NONE,
            Errors.UNKNOWN_MEMBER_ID,
            Errors.UNKNOWN_MEMBER_ID,
            Errors.UNKNOWN_MEMBER_ID,
            Errors.NONE,
        ),
    )
    assert harness.state == "Empty"


def test_leaving_an_unknown_group(harness: CoordinatorHarness) -> None:
    assert leave(harness, LeavingMember("m")) == (Errors.NONE, (Errors.UNKNOWN_MEMBER_ID,))
    assert leave(harness, LeavingMember("m"), group="") == (Errors.INVALID_GROUP_ID, ())
    assert harness.manager_groups == {}


# ------------------------------------------------------------------ the event log


def test_the_event_log_has_each_state_and_each_assignment(harness: CoordinatorHarness) -> None:
    leader, follower = harness.stable(2)
    leave(harness, LeavingMember(leader), LeavingMember(follower))
    fields = ("source", "target", "generation", "members")
    written = [tuple(each[field] for field in fields) for each in harness.recorder.of("GroupTransition")]
    assert written == [
        ("Empty", "PreparingRebalance", 0, 1),
        ("PreparingRebalance", "CompletingRebalance", 1, 2),
        ("CompletingRebalance", "Stable", 1, 2),
        ("Stable", "PreparingRebalance", 1, 1),
        ("PreparingRebalance", "Empty", 2, 0),
    ]
    [assigned] = harness.recorder.of("GroupAssigned")
    assert (assigned["group"], assigned["generation"], assigned["leader"]) == (GROUP, 1, leader)
    assert assigned["members"] == [
        [leader, "", "client", [["orders", 0]]],
        [follower, "", "client", [["orders", 1]]],
    ]
