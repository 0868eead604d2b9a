"""Tests of JoinGroup and of the first rebalance: ids, the initial delay, protocols, sizes, what is refused."""

from __future__ import annotations

import pytest

from tests.brokers.coordinator.group.parts import (
    GROUP,
    INITIAL_DELAY_MS,
    OFFSETS_0,
    REBALANCE_MS,
    SESSION_MS,
    CoordinatorInVirtualTime,
)
from understudy.brokers.coordinator.group import group_coordinator
from understudy.foundation.cluster.errors import Errors

It = CoordinatorInVirtualTime


def test_a_new_member_joins_twice_the_second_time_with_its_id(it: It) -> None:
    first = it.join(needs_id=True).result()
    assert first.error is Errors.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("client-")
    second = it.join(first.member_id, needs_id=True)
    it.advance(INITIAL_DELAY_MS)
    joined = second.result()
    assert (joined.error, joined.member_id, joined.leader_id) == (Errors.NONE, first.member_id, first.member_id)
    assert (joined.generation_id, joined.protocol_type, joined.protocol_name) == (1, "consumer", "range")
    assert [each.member_id for each in joined.members] == [first.member_id]


def test_member_ids_are_uuids_after_the_name_of_the_client_or_the_instance(it: It) -> None:
    dynamic, static = it.join(needs_id=True).result().member_id, it.join(instance="rack-1", needs_id=True)
    it.advance(INITIAL_DELAY_MS)
    it.advance(SESSION_MS)
    for member_id, name in ((dynamic, "client"), (static.result().member_id, "rack-1")):
        assert member_id.removeprefix(f"{name}-").count("-") == 4
        assert member_id[len(name) + 15] == "4", "a UUID of version 4"


def test_old_members_join_once(it: It) -> None:
    joining = it.join(needs_id=False)
    it.advance(INITIAL_DELAY_MS)
    assert joining.result().error is Errors.NONE


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"session_ms": 5_999}, Errors.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, Errors.INVALID_SESSION_TIMEOUT),
        ({"group": ""}, Errors.INVALID_GROUP_ID),
        ({"member_id": "invented"}, Errors.UNKNOWN_MEMBER_ID),
        ({"protocol_type": ""}, Errors.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, Errors.INCONSISTENT_GROUP_PROTOCOL),
        ({"topics": ["x" * 200] * 6_000}, Errors.MESSAGE_TOO_LARGE),
    ],
)
def test_a_refused_join_leaves_no_group_behind(it: It, wrong: dict[str, object], error: Errors) -> None:
    assert it.join(**wrong).result().error is error  # type: ignore[arg-type]  # any argument of `join`
    assert it.manager_groups == {}


def test_a_member_without_a_common_protocol_is_refused(it: It) -> None:
    it.join()
    assert it.join(protocols=["sticky"]).result().error is Errors.INCONSISTENT_GROUP_PROTOCOL
    assert it.join(protocol_type="connect").result().error is Errors.INCONSISTENT_GROUP_PROTOCOL
    both = it.join(protocols=["sticky", "range"])
    it.advance(2 * INITIAL_DELAY_MS)
    assert both.result().protocol_name == "range"


def test_an_unknown_member_of_a_group_is_refused_and_the_others_are_undisturbed(it: It) -> None:
    it.stable(2)
    assert it.join("invented").result().error is Errors.UNKNOWN_MEMBER_ID
    assert it.join("invented", instance="i").result().error is Errors.UNKNOWN_MEMBER_ID
    assert it.state == "Stable"


# ------------------------------------------------------------------ the initial delay


def test_the_first_rebalance_waits_for_more_members(it: It) -> None:
    first = it.join()
    it.advance(INITIAL_DELAY_MS - 1)
    second = it.join()
    assert not first.done()
    it.advance(INITIAL_DELAY_MS)
    assert not first.done(), "a new member begins the delay anew"
    it.advance(1)
    assert first.result().generation_id == second.result().generation_id == 1
    assert {len(each.result().members) for each in (first, second)} == {0, 2}, "the leader alone is given the members"


def test_the_first_rebalance_waits_no_longer_than_the_rebalance_timeout(it: It) -> None:
    joins = [it.join(rebalance_ms=7_000, session_ms=SESSION_MS)]
    for _ in range(6):
        it.advance(1_000)
        joins.append(it.join(rebalance_ms=7_000, session_ms=SESSION_MS))
    assert not joins[0].done()
    it.advance(1_000)
    assert {join.result().generation_id for join in joins} == {1}


def test_a_rebalance_timeout_below_the_delay_waits_for_the_delay_once(it: It) -> None:
    first = it.join(rebalance_ms=100)
    it.advance(INITIAL_DELAY_MS - 10)
    it.join(rebalance_ms=100)
    it.advance(10)
    assert first.done()


# ------------------------------------------------------------------ pending members


def test_the_rebalance_waits_for_a_member_that_was_given_an_id(it: It) -> None:
    [leader] = it.stable(1)
    pending = it.join(needs_id=True).result().member_id
    rejoined = it.join(leader)
    assert not rejoined.done(), "another member was promised a place"
    joined = it.join(pending, needs_id=True)
    assert (rejoined.result().generation_id, joined.result().generation_id) == (2, 2)


def test_a_member_that_does_not_come_back_with_its_id_is_waited_for_no_more(it: It) -> None:
    [leader] = it.stable(1)
    it.join(needs_id=True, session_ms=6_000)
    rejoined = it.join(leader)
    it.advance(5_999)
    assert not rejoined.done()
    it.advance(1)
    assert rejoined.result().generation_id == 2


def test_a_pending_member_that_leaves_is_waited_for_no_more(it: It) -> None:
    [leader] = it.stable(1)
    pending = it.join(needs_id=True).result().member_id
    rejoined = it.join(leader)
    leaving = group_coordinator.LeavingMember(pending)
    assert it.groups.leave_group(GROUP, [leaving]) == (Errors.NONE, (Errors.NONE,))
    it.settle()
    assert rejoined.done()
    assert it.join(pending).result().error is Errors.UNKNOWN_MEMBER_ID


def test_a_group_whose_only_member_never_came_back_is_forgotten(it: It) -> None:
    it.join(needs_id=True)
    assert list(it.manager_groups) == [GROUP]
    it.advance(SESSION_MS)
    assert it.manager_groups == {}


def test_the_number_of_pending_members_is_bounded(it: It, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_coordinator, "MOST_PENDING_MEMBERS", 2)
    errors = [it.join(needs_id=True).result().error for _ in range(3)]
    assert errors == [Errors.MEMBER_ID_REQUIRED, Errors.MEMBER_ID_REQUIRED, Errors.COORDINATOR_LOAD_IN_PROGRESS]
    it.advance(SESSION_MS)
    assert it.join(needs_id=True).result().error is Errors.MEMBER_ID_REQUIRED


# ------------------------------------------------------------------ group.max.size


def test_a_full_group_takes_no_further_member() -> None:
    it = CoordinatorInVirtualTime({"group.max.size": "2"})
    joins = [it.join() for _ in range(3)]
    assert joins[2].result().error is Errors.GROUP_MAX_SIZE_REACHED
    it.advance(2 * INITIAL_DELAY_MS)
    ids = [join.result().member_id for join in joins[:2]]
    assert it.join().result().error is Errors.GROUP_MAX_SIZE_REACHED
    it.complete(ids, 1)
    assert it.join().result().error is Errors.GROUP_MAX_SIZE_REACHED
    again = [it.join(each) for each in ids]
    assert {join.result().generation_id for join in again} == {2}, "members of a full group may join again"
    it.close()


def test_a_group_that_has_become_too_large_loses_the_members_that_join_again_last() -> None:
    it = CoordinatorInVirtualTime()
    ids = it.stable(3)
    it.config = it.config.reconfigured({**it.config.originals, "group.max.size": "2"}, ["group.max.size"])
    it.follow(leader_epoch=1)
    it.lead(leader_epoch=2)
    it.settle()
    assert it.state == "PreparingRebalance"
    joins = [it.join(each) for each in ids]
    assert joins[2].result().error is Errors.GROUP_MAX_SIZE_REACHED
    assert [join.result().generation_id for join in joins[:2]] == [2, 2]
    it.close()


# ------------------------------------------------------------------ joining again


def test_a_member_that_missed_the_answer_to_its_join_is_given_it_again(it: It) -> None:
    joining = it.join()
    it.advance(INITIAL_DELAY_MS)
    member_id = joining.result().member_id
    again = it.join(member_id).result()
    assert (again.generation_id, again.leader_id, len(again.members)) == (1, member_id, 1)
    assert it.state == "CompletingRebalance"


def test_a_follower_that_joins_again_unchanged_causes_no_rebalance(it: It) -> None:
    leader, follower = it.stable(2)
    again = it.join(follower).result()
    assert (again.generation_id, again.leader_id, again.members, again.skip_assignment) == (1, leader, (), False)
    assert it.state == "Stable"


@pytest.mark.parametrize("who", ["leader", "follower with other topics"])
def test_a_member_that_changes_something_causes_a_rebalance(it: It, who: str) -> None:
    leader, follower = it.stable(2)
    joining = it.join(leader) if who == "leader" else it.join(follower, topics=["parcels"])
    assert (it.state, joining.done()) == ("PreparingRebalance", False)
    assert it.heartbeat(leader, 1) == "REBALANCE_IN_PROGRESS"
    other = it.join(follower if who == "leader" else leader)
    assert (joining.result().generation_id, other.result().generation_id) == (2, 2)


def test_a_member_that_changes_its_metadata_while_the_leader_assigns_begins_again(it: It) -> None:
    joins = [it.join() for _ in range(2)]
    it.advance(2 * INITIAL_DELAY_MS)
    leader, follower = (join.result().member_id for join in joins)
    waiting = it.sync(follower, 1)
    changed = it.join(leader, topics=["parcels"])
    assert waiting.result().error is Errors.REBALANCE_IN_PROGRESS
    assert not changed.done()
    it.join(follower)
    assert changed.result().generation_id == 2


def test_members_that_do_not_join_again_in_time_are_removed(it: It) -> None:
    leader, follower = it.stable(2)
    joining = it.join(leader)
    for _ in range(4):
        it.advance(SESSION_MS - 100)
        it.heartbeat(follower, 1)
    assert joining.result().generation_id == 2
    assert list(it.manager_groups[GROUP].members) == [leader]
    assert it.heartbeat(follower, 1) == "UNKNOWN_MEMBER_ID"


def test_another_member_leads_where_the_leader_did_not_join_again(it: It) -> None:
    leader, follower = it.stable(2)
    joining = it.join(follower, topics=["parcels"])
    it.advance(REBALANCE_MS)
    assert (joining.result().leader_id, len(joining.result().members)) == (follower, 1)
    assert leader not in it.manager_groups[GROUP].members


def test_a_join_that_is_sent_again_supersedes_the_one_that_waits(it: It) -> None:
    leader, _ = it.stable(2)
    first = it.join(leader)
    second = it.join(leader)
    assert first.result().error is Errors.REBALANCE_IN_PROGRESS
    assert not second.done()


def test_the_wait_of_a_new_member_is_bounded(it: It) -> None:
    it.stable(1, rebalance_ms=1_800_000, session_ms=1_800_000)
    joining = it.join(rebalance_ms=1_800_000, session_ms=1_800_000)
    it.advance(5 * 60_000 - 1)
    assert not joining.done()
    it.advance(1)
    assert joining.result().error is Errors.UNKNOWN_MEMBER_ID


def test_a_connection_that_is_closed_does_not_disturb_the_group(it: It) -> None:
    leader, follower = it.stable(2)
    gone = it.join(leader)
    gone.cancel()
    it.settle()
    joined = it.join(follower)
    assert joined.result().generation_id == 2


# ------------------------------------------------------------------ who coordinates


def test_a_group_of_another_coordinator_is_refused() -> None:
    it = CoordinatorInVirtualTime()
    it.follow(leader_epoch=1)
    assert it.join().result().error is Errors.NOT_COORDINATOR
    assert it.sync("m", 1).result().error is Errors.NOT_COORDINATOR
    assert it.heartbeat("m", 1) == "NOT_COORDINATOR"
    assert it.commit(1).result() == {next(iter(it.commit(1).result())): Errors.NOT_COORDINATOR}
    assert it.fetched() == "NOT_COORDINATOR"
    assert OFFSETS_0 in it.replicas.partitions
    it.close()


def test_a_coordinator_that_shuts_down_is_not_available(it: It) -> None:
    it.shut_down()
    assert it.join().result().error is Errors.COORDINATOR_NOT_AVAILABLE
    assert it.heartbeat("m", 1) == "COORDINATOR_NOT_AVAILABLE"
    assert it.fetched() == "COORDINATOR_NOT_AVAILABLE"
