"""Tests of SyncGroup, heartbeats, sessions and LeaveGroup: what members of a generation are answered."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.brokers.coordinator.group.parts import (
    GROUP,
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    CoordinatorInVirtualTime,
    assignment,
)
from tests.brokers.parts import ME, OTHER
from understudy.brokers.coordinator.group.group_coordinator import LeavingMember
from understudy.foundation.cluster.errors import Errors

It = CoordinatorInVirtualTime


def joined(it: It, count: int = 2) -> list[str]:
    """The ids of members whose generation has begun, the leader's first."""
    joins = [it.join() for _ in range(count)]
    it.advance(2 * INITIAL_DELAY_MS)
    ids = [join.result().member_id for join in joins]
    return sorted(ids, key=lambda each: each != joins[0].result().leader_id)


# ------------------------------------------------------------------ SyncGroup


def test_followers_wait_for_the_assignment_of_the_leader(it: It) -> None:
    leader, follower = joined(it)
    waiting = it.sync(follower, 1)
    assert not waiting.done()
    mine = it.sync(leader, 1, {leader: assignment(0), follower: assignment(1)}).result()
    assert (mine.error, mine.assignment, mine.protocol_type, mine.protocol_name) == (
        Errors.NONE,
        assignment(0),
        "consumer",
        "range",
    )
    assert waiting.result().assignment == assignment(1)
    assert it.state == "Stable"


def test_a_follower_that_comes_late_is_given_its_assignment(it: It) -> None:
    leader, follower = joined(it)
    it.sync(leader, 1, {leader: assignment(0), follower: assignment(1)})
    assert it.sync(follower, 1).result().assignment == assignment(1)
    assert it.sync(follower, 1).result().assignment == assignment(1)


def test_members_that_the_leader_has_left_out_get_an_empty_assignment(it: It) -> None:
    leader, follower = joined(it)
    it.sync(leader, 1, {leader: assignment(0), "invented": b"x"})
    assert it.sync(follower, 1).result() == (Errors.NONE, "consumer", "range", b"")


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
def test_a_member_that_lies_is_refused(it: It, wrong: dict[str, object], error: Errors) -> None:
    leader, follower = joined(it)
    asked: dict[str, object] = {"member_id": leader, "generation": 1, "assigned": {}} | wrong
    assert it.sync(**asked).result().error is error  # type: ignore[arg-type]  # any argument of `sync`
    it.complete([leader, follower], 1)


def test_old_members_name_no_protocol(it: It) -> None:
    [leader] = joined(it, 1)
    assert it.sync(leader, 1, protocol_type=None, protocol_name=None).result().error is Errors.NONE


def test_a_sync_during_a_rebalance_is_answered_with_it(it: It) -> None:
    leader, follower = it.stable(2)
    it.join(leader)
    assert it.sync(follower, 1).result().error is Errors.REBALANCE_IN_PROGRESS


def test_a_new_member_ends_the_wait_for_an_assignment(it: It) -> None:
    _, follower = joined(it)
    waiting = it.sync(follower, 1)
    it.join()
    assert waiting.result().error is Errors.REBALANCE_IN_PROGRESS
    assert it.state == "PreparingRebalance"


def test_a_sync_that_is_sent_again_supersedes_the_one_that_waits(it: It) -> None:
    leader, follower = joined(it)
    first = it.sync(follower, 1)
    second = it.sync(follower, 1)
    assert first.result().error is Errors.REBALANCE_IN_PROGRESS
    it.sync(leader, 1, {follower: b"x"})
    assert second.result().assignment == b"x"


def test_members_that_never_sync_are_removed_after_the_rebalance_timeout(it: It) -> None:
    leader, silent = joined(it)
    it.sync(leader, 1, {})
    for _ in range(int(REBALANCE_MS / 5_000)):
        assert "NONE" in (it.heartbeat(leader, 1), it.heartbeat(silent, 1))
        it.advance(5_000)
    assert it.state == "PreparingRebalance"
    assert list(it.manager_groups[GROUP].members) == [leader]


def test_a_leader_that_never_syncs_is_removed_and_another_leads(it: It) -> None:
    leader, follower = joined(it)
    waiting = it.sync(follower, 1)
    for _ in range(int(REBALANCE_MS / 5_000)):
        it.heartbeat(leader, 1)
        it.advance(5_000)
    assert waiting.result().error is Errors.REBALANCE_IN_PROGRESS
    assert it.join(follower).result().leader_id == follower


# ------------------------------------------------------------------ storing the assignment


def test_members_are_answered_when_the_assignment_is_replicated(replicated: It) -> None:
    it = replicated
    leader, follower = joined(it)
    waiting = [it.sync(follower, 1), it.sync(leader, 1, {leader: assignment(0)})]
    assert [task.done() for task in waiting] == [False, False]
    assert it.state == "CompletingRebalance"
    it.replicate()
    assert [task.result().error for task in waiting] == [Errors.NONE, Errors.NONE]
    assert it.state == "Stable"


def test_an_assignment_that_is_not_replicated_in_time_begins_a_rebalance(replicated: It) -> None:
    it = replicated
    leader, follower = joined(it)
    waiting = [it.sync(follower, 1), it.sync(leader, 1, {})]
    it.advance(5_000)
    assert [task.result().error for task in waiting] == [Errors.REBALANCE_IN_PROGRESS] * 2
    assert it.state == "PreparingRebalance"


def test_an_assignment_of_an_earlier_generation_changes_nothing(replicated: It) -> None:
    it = replicated
    [leader] = joined(it, 1)
    stale = it.sync(leader, 1, {leader: b"old"})
    new = it.join()
    again = it.join(leader)
    assert stale.result().error is Errors.REBALANCE_IN_PROGRESS
    assert (again.result().generation_id, new.result().generation_id) == (2, 2)
    it.replicate()
    assert it.state == "CompletingRebalance"
    assert it.manager_groups[GROUP].members[leader].assignment == b""


def test_a_group_too_large_to_be_stored_is_answered_with_an_unknown_error(it: It) -> None:
    [leader] = joined(it, 1)
    waiting = it.sync(leader, 1, {leader: b"x" * 2_000_000})
    assert waiting.result().error is Errors.UNKNOWN_SERVER_ERROR
    assert it.state == "PreparingRebalance"


def test_too_few_in_sync_replicas_make_the_coordinator_unavailable(it: It) -> None:
    leader, _ = joined(it)
    it.partition().state = replace(it.partition().state, isr=(), replicas=(ME, OTHER))
    assert it.sync(leader, 1, {}).result().error is Errors.COORDINATOR_NOT_AVAILABLE


# ------------------------------------------------------------------ heartbeats and sessions


def test_heartbeats_keep_a_session(it: It) -> None:
    [only] = it.stable(1)
    for _ in range(5):
        it.advance(SESSION_MS - 1)
        assert it.heartbeat(only, 1) == "NONE"
    it.advance(SESSION_MS)
    assert it.heartbeat(only, 1) == "UNKNOWN_MEMBER_ID"
    assert it.state == "Empty"


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
def test_a_heartbeat_of_no_member_is_refused_and_keeps_no_session(it: It, wrong: dict[str, str], error: str) -> None:
    [only] = it.stable(1)
    it.advance(SESSION_MS - 1)
    asked: dict[str, object] = {"member_id": only, "generation": 1} | wrong
    assert it.heartbeat(**asked) == error  # type: ignore[arg-type]  # any argument of `heartbeat`
    it.advance(1)
    assert it.state == "Empty"


def test_heartbeats_count_while_the_leader_assigns(it: It) -> None:
    leader, follower = joined(it)
    for _ in range(2):
        it.advance(SESSION_MS - 1)
        assert (it.heartbeat(leader, 1), it.heartbeat(follower, 1)) == ("NONE", "NONE")


def test_members_that_wait_need_no_heartbeats(it: It) -> None:
    leader, follower = joined(it)
    waiting = it.sync(follower, 1)
    it.heartbeat(leader, 1)
    it.advance(SESSION_MS - 1)
    it.heartbeat(leader, 1)
    it.advance(SESSION_MS - 1)
    it.sync(leader, 1, {follower: b"x"})
    assert waiting.result().assignment == b"x"
    it.advance(SESSION_MS)
    assert it.state == "Empty", "its session begins with the answer"


def test_a_member_that_fails_causes_a_rebalance(it: It) -> None:
    leader, follower = it.stable(2)
    it.advance(SESSION_MS - 1)
    it.heartbeat(leader, 1)
    it.advance(1)
    assert it.state == "PreparingRebalance"
    assert it.heartbeat(follower, 1) == "UNKNOWN_MEMBER_ID"
    assert it.join(leader).result().generation_id == 2


def test_a_rebalance_ends_where_no_member_joins_again(it: It) -> None:
    leader, follower = it.stable(2)
    gone = it.join(leader)
    leave(it, LeavingMember(leader))
    assert gone.result().error is Errors.UNKNOWN_MEMBER_ID
    it.advance(SESSION_MS)
    assert it.state == "Empty"
    assert it.heartbeat(follower, 1) == "UNKNOWN_MEMBER_ID"


# ------------------------------------------------------------------ leaving


def leave(it: It, *leaving: LeavingMember, group: str = GROUP) -> tuple[Errors, tuple[Errors, ...]]:
    answer = it.groups.leave_group(group, leaving)
    it.settle()
    return answer


def test_the_last_member_that_leaves_empties_the_group_at_once(it: It) -> None:
    [only] = it.stable(1)
    assert leave(it, LeavingMember(only)) == (Errors.NONE, (Errors.NONE,))
    assert (it.state, it.manager_groups[GROUP].generation_id) == ("Empty", 2)


def test_a_member_that_leaves_causes_a_rebalance(it: It) -> None:
    leader, follower = it.stable(2)
    leave(it, LeavingMember(leader))
    assert it.heartbeat(follower, 1) == "REBALANCE_IN_PROGRESS"
    assert it.join(follower).result().leader_id == follower


def test_a_member_that_leaves_while_it_waits_is_answered(it: It) -> None:
    leader, follower = joined(it)
    waiting = it.sync(follower, 1)
    leave(it, LeavingMember(follower))
    assert waiting.result().error is Errors.UNKNOWN_MEMBER_ID
    assert it.join(leader).result().generation_id == 2


def test_each_of_several_leaving_members_is_answered_by_itself(it: It) -> None:
    ids = it.stable(instances=["a", "b"])
    first, second = (it.manager_groups[GROUP].members[each].group_instance_id for each in ids)
    answer = leave(
        it,
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
    assert it.state == "Empty"


def test_leaving_an_unknown_group(it: It) -> None:
    assert leave(it, LeavingMember("m")) == (Errors.NONE, (Errors.UNKNOWN_MEMBER_ID,))
    assert leave(it, LeavingMember("m"), group="") == (Errors.INVALID_GROUP_ID, ())
    assert it.manager_groups == {}


# ------------------------------------------------------------------ the event log


def test_the_event_log_has_each_state_and_each_assignment(it: It) -> None:
    leader, follower = it.stable(2)
    leave(it, LeavingMember(leader), LeavingMember(follower))
    fields = ("source", "target", "generation", "members")
    written = [tuple(each[field] for field in fields) for each in it.recorder.of("GroupTransition")]
    assert written == [
        ("Empty", "PreparingRebalance", 0, 1),
        ("PreparingRebalance", "CompletingRebalance", 1, 2),
        ("CompletingRebalance", "Stable", 1, 2),
        ("Stable", "PreparingRebalance", 1, 1),
        ("PreparingRebalance", "Empty", 2, 0),
    ]
    [assigned] = it.recorder.of("GroupAssigned")
    assert (assigned["group"], assigned["generation"], assigned["leader"]) == (GROUP, 1, leader)
    assert assigned["members"] == [
        [leader, "", "client", [["orders", 0]]],
        [follower, "", "client", [["orders", 1]]],
    ]
