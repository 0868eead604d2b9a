"""Tests of static members (KIP-345, KIP-814): a process that starts again takes its place, and no one else does."""

from __future__ import annotations

import pytest

from tests.brokers.coordinator.group.parts import (
    GROUP,
    SESSION_MS,
    CoordinatorInVirtualTime,
    assignment,
)
from understudy.brokers.coordinator.group.group_records import GroupRecord, loaded_group, read_stored
from understudy.foundation.cluster.errors import Errors

It = CoordinatorInVirtualTime


def instance_of(it: It, member_id: str) -> str:
    found = it.manager_groups[GROUP].members[member_id].group_instance_id
    assert found is not None
    return found


@pytest.mark.parametrize("can_skip", [True, False])
def test_a_follower_that_starts_again_keeps_its_assignment_without_a_rebalance(it: It, can_skip: bool) -> None:
    leader, follower = it.stable(instances=["a", "b"])
    instance = instance_of(it, follower)
    again = it.join(instance=instance, can_skip=can_skip).result()
    assert (again.error, again.generation_id, again.leader_id) == (Errors.NONE, 1, leader)
    assert (again.members, again.skip_assignment) == ((), False)
    assert again.member_id != follower
    assert it.state == "Stable"
    assert it.sync(again.member_id, 1, instance=instance).result().assignment == assignment(1)
    assert it.heartbeat(follower, 1, instance=instance) == "FENCED_INSTANCE_ID"
    assert it.heartbeat(follower, 1) == "UNKNOWN_MEMBER_ID"


def test_a_leader_that_starts_again_leads_and_skips_the_assignment(it: It) -> None:
    leader, _ = it.stable(instances=["a", "b"])
    again = it.join(instance=instance_of(it, leader), can_skip=True).result()
    assert (again.skip_assignment, again.leader_id, len(again.members)) == (True, again.member_id, 2)


def test_an_old_leader_that_starts_again_is_not_made_the_leader(it: It) -> None:
    leader, _ = it.stable(instances=["a", "b"])
    again = it.join(instance=instance_of(it, leader), can_skip=False).result()
    assert (again.skip_assignment, again.leader_id, again.members) == (False, leader, ())


def test_the_new_id_is_stored(it: It) -> None:
    [only] = it.stable(instances=["a"])
    again = it.join(instance="a").result().member_id
    last = it.stored()[-1]
    assert last.key is not None
    record = read_stored(last.key, last.value)
    assert isinstance(record, GroupRecord)
    stored = loaded_group(record, 0)
    assert list(stored.members) == [again] != [only]
    assert stored.members[again].assignment == assignment(0)


def test_an_id_that_cannot_be_stored_is_taken_back(replicated: It) -> None:
    it = replicated
    joining = it.join(instance="a")
    it.advance(3_000)
    only = joining.result().member_id
    syncing = it.sync(only, 1, {only: assignment(0)}, instance="a")
    it.replicate()
    assert syncing.result().error is Errors.NONE
    again = it.join(instance="a", session_ms=9_000, protocols=["range"], topics=["parcels"])
    assert not again.done()
    it.advance(5_000)
    assert (again.result().error, again.result().member_id) == (Errors.REBALANCE_IN_PROGRESS, "")
    member = it.manager_groups[GROUP].members[only]
    assert (member.member_id, member.session_timeout_ms) == (only, SESSION_MS)
    assert it.heartbeat(only, 1, instance="a") == "NONE"


def test_a_change_of_the_protocol_causes_a_rebalance(it: It) -> None:
    [only] = it.stable(instances=["a"], protocols=["range", "sticky"])
    again = it.join(instance="a", protocols=["sticky"]).result()
    assert (again.generation_id, again.protocol_name) == (2, "sticky")
    assert only not in it.manager_groups[GROUP].members


def test_a_start_while_the_leader_assigns_begins_the_rebalance_again(it: It) -> None:
    joins = [it.join(instance=each) for each in ("a", "b")]
    it.advance(6_000)
    leader, follower = (join.result().member_id for join in joins)
    waiting = it.sync(follower, 1, instance="b")
    again = it.join(instance="b")
    assert waiting.result().error is Errors.FENCED_INSTANCE_ID
    assert not again.done()
    assert it.join(leader, instance="a").result().generation_id == 2
    assert again.result().generation_id == 2


def test_a_start_before_the_first_sync_keeps_the_place_when_the_wait_for_it_ends(it: It) -> None:
    """As in Kafka the wait goes on under the former id, so that the group rebalances at its end."""
    joins = [it.join(instance=each, session_ms=600_000) for each in ("a", "b")]
    it.advance(6_000)
    leader, follower = (join.result().member_id for join in joins)
    it.sync(leader, 1, {leader: assignment(0), follower: assignment(1)}, instance="a")
    again = it.join(instance="b", session_ms=600_000).result().member_id
    assert it.sync(again, 1, instance="b").result().assignment == assignment(1)
    assert it.state == "Stable"
    it.advance(it.manager_groups[GROUP].rebalance_timeout_ms)
    assert it.state == "PreparingRebalance"
    assert set(it.manager_groups[GROUP].members) == {leader, again}


def test_a_start_while_members_join_again_fences_the_join_that_waits(it: It) -> None:
    leader, follower = it.stable(instances=["a", "b"])
    first = it.join(leader, instance=instance_of(it, leader))
    again = it.join(instance=instance_of(it, leader))
    assert first.result().error is Errors.FENCED_INSTANCE_ID
    it.join(follower, instance=instance_of(it, follower))
    assert again.result().generation_id == 2


def test_a_static_member_that_is_late_stays_in_the_group_until_its_session_ends(it: It) -> None:
    leader, late = it.stable(instances=["a", "b"], session_ms=60_000)
    joining = it.join(leader, instance=instance_of(it, leader), session_ms=60_000)
    it.advance(30_000)
    assert joining.result().generation_id == 2
    assert late in it.manager_groups[GROUP].members
    assert it.heartbeat(late, 1, instance=instance_of(it, late)) == "ILLEGAL_GENERATION"


def test_a_rebalance_without_any_member_waits_for_static_members(it: It) -> None:
    [only] = it.stable(instances=["a"], session_ms=100_000)
    it.groups.rebalances.prepare_rebalance(it.manager_groups[GROUP], "a test")
    it.advance(60_000)
    assert it.state == "PreparingRebalance"
    assert it.join(only, instance="a").result().generation_id == 2


@pytest.mark.parametrize("operation", ["join", "sync", "heartbeat", "commit"])
def test_another_process_with_the_same_instance_id_is_fenced(it: It, operation: str) -> None:
    first, second = it.stable(instances=["a", "b"])
    instance = instance_of(it, first)
    if operation == "join":
        error = it.join(second, instance=instance).result().error.name
    elif operation == "sync":
        error = it.sync(second, 1, instance=instance).result().error.name
    elif operation == "heartbeat":
        error = it.heartbeat(second, 1, instance=instance)
    else:
        [found] = it.commit(1, member_id=second, generation=1, instance=instance).result().values()
        error = found.name
    assert error == "FENCED_INSTANCE_ID"
