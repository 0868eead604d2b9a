"""Tests of static members (KIP-345, KIP-814): a process that starts again takes its place, and no one else does."""

from __future__ import annotations

import pytest

from tests.brokers.coordinator.group.parts import (
    GROUP,
    SESSION_MS,
    CoordinatorHarness,
    assignment,
)
from understudy.brokers.coordinator.group.group_records import GroupRecord, loaded_group, read_stored
from understudy.foundation.cluster.errors import Errors


def instance_of(harness: CoordinatorHarness, member_id: str) -> str:
    found = harness.manager_groups[GROUP].members[member_id].group_instance_id
    assert found is not None
    return found


@pytest.mark.parametrize("can_skip", [True, False])
def test_a_follower_that_starts_again_keeps_its_assignment_without_a_rebalance(
    harness: CoordinatorHarness, can_skip: bool
) -> None:
    leader, follower = harness.stable(instances=["a", "b"])
    instance = instance_of(harness, follower)
    again = harness.join(instance=instance, can_skip=can_skip).result()
    assert (again.error, again.generation_id, again.leader_id) == (Errors.NONE, 1, leader)
    assert (again.members, again.skip_assignment) == ((), False)
    assert again.member_id != follower
    assert harness.state == "Stable"
    assert harness.sync(again.member_id, 1, instance=instance).result().assignment == assignment(1)
    assert harness.heartbeat(follower, 1, instance=instance) == "FENCED_INSTANCE_ID"
    assert harness.heartbeat(follower, 1) == "UNKNOWN_MEMBER_ID"


def test_a_leader_that_starts_again_leads_and_skips_the_assignment(harness: CoordinatorHarness) -> None:
    leader, _ = harness.stable(instances=["a", "b"])
    again = harness.join(instance=instance_of(harness, leader), can_skip=True).result()
    assert (again.skip_assignment, again.leader_id, len(again.members)) == (True, again.member_id, 2)


def test_an_old_leader_that_starts_again_is_not_made_the_leader(harness: CoordinatorHarness) -> None:
    leader, _ = harness.stable(instances=["a", "b"])
    again = harness.join(instance=instance_of(harness, leader), can_skip=False).result()
    assert (again.skip_assignment, again.leader_id, again.members) == (False, leader, ())


def test_the_new_id_is_stored(harness: CoordinatorHarness) -> None:
    [only] = harness.stable(instances=["a"])
    again = harness.join(instance="a").result().member_id
    last = harness.stored()[-1]
    assert last.key is not None
    record = read_stored(last.key, last.value)
    assert isinstance(record, GroupRecord)
    stored = loaded_group(record, 0)
    assert list(stored.members) == [again] != [only]
    assert stored.members[again].assignment == assignment(0)


def test_an_id_that_cannot_be_stored_is_taken_back(replicated: CoordinatorHarness) -> None:
    harness = replicated
    joining = harness.join(instance="a")
    harness.advance(3_000)
    only = joining.result().member_id
    syncing = harness.sync(only, 1, {only: assignment(0)}, instance="a")
    harness.replicate()
    assert syncing.result().error is Errors.NONE
    again = harness.join(instance="a", session_ms=9_000, protocols=["range"], topics=["parcels"])
    assert not again.done()
    harness.advance(5_000)
    assert (again.result().error, again.result().member_id) == (Errors.REBALANCE_IN_PROGRESS, "")
    member = harness.manager_groups[GROUP].members[only]
    assert (member.member_id, member.session_timeout_ms) == (only, SESSION_MS)
    assert harness.heartbeat(only, 1, instance="a") == "NONE"


def test_a_change_of_the_protocol_causes_a_rebalance(harness: CoordinatorHarness) -> None:
    [only] = harness.stable(instances=["a"], protocols=["range", "sticky"])
    again = harness.join(instance="a", protocols=["sticky"]).result()
    assert (again.generation_id, again.protocol_name) == (2, "sticky")
    assert only not in harness.manager_groups[GROUP].members


def test_a_start_while_the_leader_assigns_begins_the_rebalance_again(harness: CoordinatorHarness) -> None:
    joins = [harness.join(instance=each) for each in ("a", "b")]
    harness.advance(6_000)
    leader, follower = (join.result().member_id for join in joins)
    waiting = harness.sync(follower, 1, instance="b")
    again = harness.join(instance="b")
    assert waiting.result().error is Errors.FENCED_INSTANCE_ID
    assert not again.done()
    assert harness.join(leader, instance="a").result().generation_id == 2
    assert again.result().generation_id == 2


def test_a_start_before_the_first_sync_keeps_the_place_when_the_wait_for_it_ends(harness: CoordinatorHarness) -> None:
    """As in Kafka, the wait continues under the former id, so that the group rebalances at its end."""
    joins = [harness.join(instance=each, session_ms=600_000) for each in ("a", "b")]
    harness.advance(6_000)
    leader, follower = (join.result().member_id for join in joins)
    harness.sync(leader, 1, {leader: assignment(0), follower: assignment(1)}, instance="a")
    again = harness.join(instance="b", session_ms=600_000).result().member_id
    assert harness.sync(again, 1, instance="b").result().assignment == assignment(1)
    assert harness.state == "Stable"
    harness.advance(harness.manager_groups[GROUP].rebalance_timeout_ms)
    assert harness.state == "PreparingRebalance"
    assert set(harness.manager_groups[GROUP].members) == {leader, again}


def test_a_start_while_members_join_again_fences_the_join_that_waits(harness: CoordinatorHarness) -> None:
    leader, follower = harness.stable(instances=["a", "b"])
    first = harness.join(leader, instance=instance_of(harness, leader))
    again = harness.join(instance=instance_of(harness, leader))
    assert first.result().error is Errors.FENCED_INSTANCE_ID
    harness.join(follower, instance=instance_of(harness, follower))
    assert again.result().generation_id == 2


def test_a_static_member_that_is_late_stays_in_the_group_until_its_session_ends(harness: CoordinatorHarness) -> None:
    leader, late = harness.stable(instances=["a", "b"], session_ms=60_000)
    joining = harness.join(leader, instance=instance_of(harness, leader), session_ms=60_000)
    harness.advance(30_000)
    assert joining.result().generation_id == 2
    assert late in harness.manager_groups[GROUP].members
    assert harness.heartbeat(late, 1, instance=instance_of(harness, late)) == "ILLEGAL_GENERATION"


def test_a_rebalance_without_any_member_waits_for_static_members(harness: CoordinatorHarness) -> None:
    [only] = harness.stable(instances=["a"], session_ms=100_000)
    harness.groups.rebalances.prepare_rebalance(harness.manager_groups[GROUP], "a test")
    harness.advance(60_000)
    assert harness.state == "PreparingRebalance"
    assert harness.join(only, instance="a").result().generation_id == 2


@pytest.mark.parametrize("operation", ["join", "sync", "heartbeat", "commit"])
def test_another_process_with_the_same_instance_id_is_fenced(harness: CoordinatorHarness, operation: str) -> None:
    first, second = harness.stable(instances=["a", "b"])
    instance = instance_of(harness, first)
    if operation == "join":
        error = harness.join(second, instance=instance).result().error.name
    elif operation == "sync":
        error = harness.sync(second, 1, instance=instance).result().error.name
    elif operation == "heartbeat":
        error = harness.heartbeat(second, 1, instance=instance)
    else:
        [found] = harness.commit(1, member_id=second, generation=1, instance=instance).result().values()
        error = found.name
    assert error == "FENCED_INSTANCE_ID"
