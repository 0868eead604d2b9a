"""Tests of JoinGroup and of the first rebalance: ids, the initial delay, protocols, sizes, refusals."""

from __future__ import annotations

import pytest

from tests.brokers.coordinator.group.parts import (
    GROUP,
    INITIAL_DELAY_MS,
    OFFSETS_0,
    REBALANCE_MS,
    SESSION_MS,
    CoordinatorHarness,
)
from understudy.brokers.config.reading import reconfigured
from understudy.brokers.coordinator.group import group_coordinator
from understudy.foundation.cluster.errors import Errors


def test_a_new_member_joins_twice_the_second_time_with_its_id(harness: CoordinatorHarness) -> None:
    first = harness.join(needs_id=True).result()
    assert first.error is Errors.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("client-")
    second = harness.join(first.member_id, needs_id=True)
    harness.advance(INITIAL_DELAY_MS)
    joined = second.result()
    assert (joined.error, joined.member_id, joined.leader_id) == (Errors.NONE, first.member_id, first.member_id)
    assert (joined.generation_id, joined.protocol_type, joined.protocol_name) == (1, "consumer", "range")
    assert [each.member_id for each in joined.members] == [first.member_id]


def test_member_ids_are_uuids_after_the_name_of_the_client_or_the_instance(harness: CoordinatorHarness) -> None:
    dynamic, static = harness.join(needs_id=True).result().member_id, harness.join(instance="rack-1", needs_id=True)
    harness.advance(INITIAL_DELAY_MS)
    harness.advance(SESSION_MS)
    for member_id, name in ((dynamic, "client"), (static.result().member_id, "rack-1")):
        assert member_id.removeprefix(f"{name}-").count("-") == 4
        assert member_id[len(name) + 15] == "4", "a UUID of version 4"


def test_old_members_join_once(harness: CoordinatorHarness) -> None:
    joining = harness.join(needs_id=False)
    harness.advance(INITIAL_DELAY_MS)
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
def test_a_refused_join_leaves_no_group_behind(
    harness: CoordinatorHarness, wrong: dict[str, object], error: Errors
) -> None:
    assert harness.join(**wrong).result().error is error  # type: ignore[arg-type]  # any argument of `join`
    assert harness.manager_groups == {}


def test_a_member_without_a_common_protocol_is_refused(harness: CoordinatorHarness) -> None:
    harness.join()
    assert harness.join(protocols=["sticky"]).result().error is Errors.INCONSISTENT_GROUP_PROTOCOL
    assert harness.join(protocol_type="connect").result().error is Errors.INCONSISTENT_GROUP_PROTOCOL
    both = harness.join(protocols=["sticky", "range"])
    harness.advance(2 * INITIAL_DELAY_MS)
    assert both.result().protocol_name == "range"


def test_an_unknown_member_of_a_group_is_refused_and_the_others_are_undisturbed(harness: CoordinatorHarness) -> None:
    harness.stable(2)
    assert harness.join("invented").result().error is Errors.UNKNOWN_MEMBER_ID
    assert harness.join("invented", instance="i").result().error is Errors.UNKNOWN_MEMBER_ID
    assert harness.state == "Stable"


# ------------------------------------------------------------------ the initial delay


def test_the_first_rebalance_waits_for_more_members(harness: CoordinatorHarness) -> None:
    first = harness.join()
    harness.advance(INITIAL_DELAY_MS - 1)
    second = harness.join()
    assert not first.done()
    harness.advance(INITIAL_DELAY_MS)
    assert not first.done(), "a new member begins the delay anew"
    harness.advance(1)
    assert first.result().generation_id == second.result().generation_id == 1
    assert {len(each.result().members) for each in (first, second)} == {0, 2}, "the leader alone is given the members"


def test_the_first_rebalance_waits_no_longer_than_the_rebalance_timeout(harness: CoordinatorHarness) -> None:
    joins = [harness.join(rebalance_ms=7_000, session_ms=SESSION_MS)]
    for _ in range(6):
        harness.advance(1_000)
        joins.append(harness.join(rebalance_ms=7_000, session_ms=SESSION_MS))
    assert not joins[0].done()
    harness.advance(1_000)
    assert {join.result().generation_id for join in joins} == {1}


def test_a_rebalance_timeout_below_the_delay_waits_for_the_delay_once(harness: CoordinatorHarness) -> None:
    first = harness.join(rebalance_ms=100)
    harness.advance(INITIAL_DELAY_MS - 10)
    harness.join(rebalance_ms=100)
    harness.advance(10)
    assert first.done()


# ------------------------------------------------------------------ pending members


def test_the_rebalance_waits_for_a_member_that_was_given_an_id(harness: CoordinatorHarness) -> None:
    [leader] = harness.stable(1)
    pending = harness.join(needs_id=True).result().member_id
    rejoined = harness.join(leader)
    assert not rejoined.done(), "another member was promised a place"
    joined = harness.join(pending, needs_id=True)
    assert (rejoined.result().generation_id, joined.result().generation_id) == (2, 2)


def test_a_member_that_does_not_come_back_with_its_id_is_waited_for_no_more(harness: CoordinatorHarness) -> None:
    [leader] = harness.stable(1)
    harness.join(needs_id=True, session_ms=6_000)
    rejoined = harness.join(leader)
    harness.advance(5_999)
    assert not rejoined.done()
    harness.advance(1)
    assert rejoined.result().generation_id == 2


def test_a_pending_member_that_leaves_is_waited_for_no_more(harness: CoordinatorHarness) -> None:
    [leader] = harness.stable(1)
    pending = harness.join(needs_id=True).result().member_id
    rejoined = harness.join(leader)
    leaving = group_coordinator.LeavingMember(pending)
    assert harness.groups.leave_group(GROUP, [leaving]) == (Errors.NONE, (Errors.NONE,))
    harness.settle()
    assert rejoined.done()
    assert harness.join(pending).result().error is Errors.UNKNOWN_MEMBER_ID


def test_a_group_whose_only_member_never_came_back_is_forgotten(harness: CoordinatorHarness) -> None:
    harness.join(needs_id=True)
    assert list(harness.manager_groups) == [GROUP]
    harness.advance(SESSION_MS)
    assert harness.manager_groups == {}


def test_the_number_of_pending_members_is_bounded(harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_coordinator, "MOST_PENDING_MEMBERS", 2)
    errors = [harness.join(needs_id=True).result().error for _ in range(3)]
    assert errors == [Errors.MEMBER_ID_REQUIRED, Errors.MEMBER_ID_REQUIRED, Errors.COORDINATOR_LOAD_IN_PROGRESS]
    harness.advance(SESSION_MS)
    assert harness.join(needs_id=True).result().error is Errors.MEMBER_ID_REQUIRED


# ------------------------------------------------------------------ group.max.size


def test_a_full_group_takes_no_further_member() -> None:
    harness = CoordinatorHarness({"group.max.size": "2"})
    joins = [harness.join() for _ in range(3)]
    assert joins[2].result().error is Errors.GROUP_MAX_SIZE_REACHED
    harness.advance(2 * INITIAL_DELAY_MS)
    ids = [join.result().member_id for join in joins[:2]]
    assert harness.join().result().error is Errors.GROUP_MAX_SIZE_REACHED
    harness.complete(ids, 1)
    assert harness.join().result().error is Errors.GROUP_MAX_SIZE_REACHED
    again = [harness.join(each) for each in ids]
    assert {join.result().generation_id for join in again} == {2}, "members of a full group may join again"
    harness.close()


def test_a_group_that_has_become_too_large_loses_the_members_that_join_again_last() -> None:
    harness = CoordinatorHarness()
    ids = harness.stable(3)
    harness.config = reconfigured(
        harness.config, {**harness.config.originals, "group.max.size": "2"}, ["group.max.size"]
    )
    harness.follow(leader_epoch=1)
    harness.lead(leader_epoch=2)
    harness.settle()
    assert harness.state == "PreparingRebalance"
    joins = [harness.join(each) for each in ids]
    assert joins[2].result().error is Errors.GROUP_MAX_SIZE_REACHED
    assert [join.result().generation_id for join in joins[:2]] == [2, 2]
    harness.close()


# ------------------------------------------------------------------ joining again


def test_a_member_that_missed_the_answer_to_its_join_is_given_it_again(harness: CoordinatorHarness) -> None:
    joining = harness.join()
    harness.advance(INITIAL_DELAY_MS)
    member_id = joining.result().member_id
    again = harness.join(member_id).result()
    assert (again.generation_id, again.leader_id, len(again.members)) == (1, member_id, 1)
    assert harness.state == "CompletingRebalance"


def test_a_follower_that_joins_again_unchanged_causes_no_rebalance(harness: CoordinatorHarness) -> None:
    leader, follower = harness.stable(2)
    again = harness.join(follower).result()
    assert (again.generation_id, again.leader_id, again.members, again.skip_assignment) == (1, leader, (), False)
    assert harness.state == "Stable"


@pytest.mark.parametrize("who", ["leader", "follower with other topics"])
def test_a_member_that_changes_something_causes_a_rebalance(harness: CoordinatorHarness, who: str) -> None:
    leader, follower = harness.stable(2)
    joining = harness.join(leader) if who == "leader" else harness.join(follower, topics=["parcels"])
    assert (harness.state, joining.done()) == ("PreparingRebalance", False)
    assert harness.heartbeat(leader, 1) == "REBALANCE_IN_PROGRESS"
    other = harness.join(follower if who == "leader" else leader)
    assert (joining.result().generation_id, other.result().generation_id) == (2, 2)


def test_a_member_that_changes_its_metadata_while_the_leader_assigns_begins_again(harness: CoordinatorHarness) -> None:
    joins = [harness.join() for _ in range(2)]
    harness.advance(2 * INITIAL_DELAY_MS)
    leader, follower = (join.result().member_id for join in joins)
    waiting = harness.sync(follower, 1)
    changed = harness.join(leader, topics=["parcels"])
    assert waiting.result().error is Errors.REBALANCE_IN_PROGRESS
    assert not changed.done()
    harness.join(follower)
    assert changed.result().generation_id == 2


def test_members_that_do_not_join_again_in_time_are_removed(harness: CoordinatorHarness) -> None:
    leader, follower = harness.stable(2)
    joining = harness.join(leader)
    for _ in range(4):
        harness.advance(SESSION_MS - 100)
        harness.heartbeat(follower, 1)
    assert joining.result().generation_id == 2
    assert list(harness.manager_groups[GROUP].members) == [leader]
    assert harness.heartbeat(follower, 1) == "UNKNOWN_MEMBER_ID"


def test_another_member_leads_where_the_leader_did_not_join_again(harness: CoordinatorHarness) -> None:
    leader, follower = harness.stable(2)
    joining = harness.join(follower, topics=["parcels"])
    harness.advance(REBALANCE_MS)
    assert (joining.result().leader_id, len(joining.result().members)) == (follower, 1)
    assert leader not in harness.manager_groups[GROUP].members


def test_a_join_that_is_sent_again_supersedes_the_one_that_waits(harness: CoordinatorHarness) -> None:
    leader, _ = harness.stable(2)
    first = harness.join(leader)
    second = harness.join(leader)
    assert first.result().error is Errors.REBALANCE_IN_PROGRESS
    assert not second.done()


def test_the_wait_of_a_new_member_is_bounded(harness: CoordinatorHarness) -> None:
    harness.stable(1, rebalance_ms=1_800_000, session_ms=1_800_000)
    joining = harness.join(rebalance_ms=1_800_000, session_ms=1_800_000)
    harness.advance(5 * 60_000 - 1)
    assert not joining.done()
    harness.advance(1)
    assert joining.result().error is Errors.UNKNOWN_MEMBER_ID


def test_a_connection_that_is_closed_does_not_disturb_the_group(harness: CoordinatorHarness) -> None:
    leader, follower = harness.stable(2)
    gone = harness.join(leader)
    gone.cancel()
    harness.settle()
    joined = harness.join(follower)
    assert joined.result().generation_id == 2


# ------------------------------------------------------------------ who coordinates


def test_a_group_of_another_coordinator_is_refused() -> None:
    harness = CoordinatorHarness()
    harness.follow(leader_epoch=1)
    assert harness.join().result().error is Errors.NOT_COORDINATOR
    assert harness.sync("m", 1).result().error is Errors.NOT_COORDINATOR
    assert harness.heartbeat("m", 1) == "NOT_COORDINATOR"
    assert harness.commit(1).result() == {next(iter(harness.commit(1).result())): Errors.NOT_COORDINATOR}
    assert harness.fetched() == "NOT_COORDINATOR"
    assert OFFSETS_0 in harness.replicas.partitions
    harness.close()


def test_a_coordinator_that_shuts_down_is_not_available(harness: CoordinatorHarness) -> None:
    harness.shut_down()
    assert harness.join().result().error is Errors.COORDINATOR_NOT_AVAILABLE
    assert harness.heartbeat("m", 1) == "COORDINATOR_NOT_AVAILABLE"
    assert harness.fetched() == "COORDINATOR_NOT_AVAILABLE"
