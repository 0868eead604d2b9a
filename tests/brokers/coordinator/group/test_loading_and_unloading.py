"""Tests of the move of groups with their partition's leader (CO-4): loading, unloading, and what comes in between."""

from __future__ import annotations

import asyncio

import pytest

from tests.brokers.coordinator.group.parts import (
    GROUP,
    INITIAL_DELAY_MS,
    NOW_MS,
    OFFSETS_0,
    ORDERS_0,
    REBALANCE_MS,
    SESSION_MS,
    CoordinatorHarness,
    assignment,
)
from understudy.brokers.coordinator.group import group_metadata_manager
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.records.record import Record, encode_records


def move(harness: CoordinatorHarness, *, leader_epoch: int = 1) -> None:
    """Lose the partition and lead it again."""
    harness.follow(leader_epoch=leader_epoch)
    harness.lead(leader_epoch=leader_epoch + 1)
    harness.settle()


@pytest.mark.spec("CO-4")
def test_groups_and_offsets_are_there_after_a_move(harness: CoordinatorHarness) -> None:
    leader, follower = harness.stable(2)
    harness.commit(5, member_id=leader, generation=1)
    harness.commit(6, group="simple")
    move(harness)
    assert (harness.state, harness.fetched(), harness.fetched(group="simple")) == ("Stable", 5, 6)
    assert harness.heartbeat(leader, 1) == "NONE"
    assert harness.sync(follower, 1).result().assignment == assignment(1)
    assert harness.recorder.of("GroupsUnloaded") == [{"partition": 0, "leader_epoch": 1, "groups": 2, "offsets": 2}]
    assert harness.recorder.of("GroupsLoaded")[-1] == {
        "partition": 0,
        "leader_epoch": 2,
        "groups": 2,
        "offsets": 2,
        "unreadable": 0,
    }


def test_members_that_were_lost_with_their_coordinator_fail_at_the_next_one(harness: CoordinatorHarness) -> None:
    harness.stable(1)
    move(harness)
    harness.advance(SESSION_MS)
    assert harness.state == "Empty"


@pytest.mark.spec("CO-4")
def test_requests_are_refused_while_a_partition_is_loaded(harness: CoordinatorHarness) -> None:
    [only] = harness.stable(1)
    harness.commit(5, member_id=only, generation=1)
    harness.follow(leader_epoch=1)
    harness.groups.manager._one_load = _held(harness)
    harness.lead(leader_epoch=2)
    harness.settle()
    assert harness.fetched() == "COORDINATOR_LOAD_IN_PROGRESS"
    assert harness.join(only).result().error is Errors.COORDINATOR_LOAD_IN_PROGRESS
    assert harness.commit(6).result() == {ORDERS_0: Errors.COORDINATOR_LOAD_IN_PROGRESS}
    assert harness.sync(only, 1).result().error is Errors.REBALANCE_IN_PROGRESS
    assert harness.heartbeat(only, 1) == "NONE", "its session begins when the group is loaded"
    assert harness.groups.administration.list_groups((), ())[0] is Errors.COORDINATOR_LOAD_IN_PROGRESS
    assert harness.groups.administration.delete_groups([GROUP]) == {GROUP: Errors.COORDINATOR_LOAD_IN_PROGRESS}
    harness.groups.manager._one_load.release()
    harness.settle()
    assert harness.fetched() == 5


def _held(harness: CoordinatorHarness) -> asyncio.Semaphore:
    """A semaphore that another load holds."""

    async def held() -> asyncio.Semaphore:
        made = asyncio.Semaphore(1)
        await made.acquire()
        return made

    return harness.run(held())


def test_a_load_that_was_overtaken_by_an_unload_changes_nothing(harness: CoordinatorHarness) -> None:
    harness.commit(5)
    harness.follow(leader_epoch=1)
    held = harness.groups.manager._one_load = _held(harness)
    harness.lead(leader_epoch=2)
    harness.settle()
    harness.follow(leader_epoch=3)
    held.release()
    harness.settle()
    assert (harness.manager_groups, harness.fetched()) == ({}, "NOT_COORDINATOR")
    harness.lead(leader_epoch=4)
    harness.settle()
    assert harness.fetched() == 5


@pytest.mark.spec("CO-4")
def test_older_leader_epochs_change_nothing(harness: CoordinatorHarness) -> None:
    harness.commit(5)
    move(harness, leader_epoch=5)
    harness.run(harness._called(lambda: harness.groups.resigned(0, 4)))
    assert harness.fetched() == 5
    harness.run(harness._called(lambda: harness.groups.elected(0, 3)))
    assert harness.fetched() == 5
    harness.run(harness._called(lambda: harness.groups.resigned(0, 6)))
    assert harness.fetched() == "NOT_COORDINATOR", "an equal or newer epoch counts"
    harness.run(harness._called(lambda: harness.groups.elected(0, 5)))
    harness.settle()
    assert harness.fetched() == "NOT_COORDINATOR"


def test_a_new_epoch_of_the_same_leader_keeps_what_is_loaded(harness: CoordinatorHarness) -> None:
    leader, _ = harness.stable(2)
    joining = harness.join(leader)
    harness.lead(leader_epoch=1)
    harness.settle()
    assert harness.state == "PreparingRebalance"
    assert not joining.done()


def test_a_topic_that_is_deleted_and_made_again_may_begin_with_epoch_0(harness: CoordinatorHarness) -> None:
    harness.commit(5)
    move(harness, leader_epoch=5)
    harness.run(harness._called(lambda: harness.groups.resigned(0, None)))
    assert harness.fetched() == "NOT_COORDINATOR"
    assert harness.recorder.of("GroupsUnloaded")[-1]["leader_epoch"] == -1
    harness.run(harness._called(lambda: harness.groups.elected(0, 0)))
    harness.settle()
    assert harness.fetched() == 5


def test_only_the_groups_of_the_partition_move() -> None:
    harness = CoordinatorHarness({"offsets.topic.num.partitions": "2"})
    for name in ("a", "b"):
        harness.commit(5, group=name)
    assert harness.groups.manager.partition_of("a") != harness.groups.manager.partition_of("b")
    harness.follow(leader_epoch=1, number=harness.groups.manager.partition_of("a"))
    assert (harness.fetched(group="a"), harness.fetched(group="b")) == ("NOT_COORDINATOR", 5)
    harness.close()


def test_a_coordinator_that_resigns_sends_waiting_members_to_the_next_one(harness: CoordinatorHarness) -> None:
    leader, follower = harness.stable(2)
    joining = harness.join(leader)
    harness.follow(leader_epoch=1)
    assert joining.result().error is Errors.NOT_COORDINATOR
    harness.lead(leader_epoch=2)
    harness.settle()
    joins = [harness.join(each, topics=["parcels"]) for each in (leader, follower)]
    harness.advance(INITIAL_DELAY_MS)
    ids = [join.result().member_id for join in joins]
    waiting = harness.sync(ids[1], 2)
    harness.follow(leader_epoch=3)
    assert waiting.result().error is Errors.NOT_COORDINATOR


def test_nothing_is_due_any_more_for_groups_that_have_moved(harness: CoordinatorHarness) -> None:
    harness.stable(2)
    harness.join(needs_id=True)
    harness.join()
    harness.follow(leader_epoch=1)
    assert len(harness.groups._expirations) == 0
    harness.advance(10 * REBALANCE_MS)
    assert harness.manager_groups == {}


def test_a_rebalance_that_was_under_way_begins_again_at_the_next_coordinator(harness: CoordinatorHarness) -> None:
    leader, follower = harness.stable(2)
    harness.join(leader)
    harness.follow(leader_epoch=1)
    harness.lead(leader_epoch=2)
    harness.settle()
    assert harness.state == "Stable", "the last generation that was stored"
    joins = [harness.join(leader), harness.join(follower)]
    assert joins[0].result().generation_id == 2


def test_an_unreadable_record_is_left_out_and_counted(harness: CoordinatorHarness) -> None:
    harness.commit(5)
    harness.append(encode_records([Record(0, NOW_MS, b"\0\1\0", b"damaged"), Record(1, NOW_MS, None, b"no key")]))
    harness.commit(6, group="simple")
    move(harness)
    assert (harness.fetched(), harness.fetched(group="simple")) == (5, 6)
    assert harness.recorder.of("GroupsLoaded")[-1]["unreadable"] == 2


def test_a_large_partition_is_read_in_parts(harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_metadata_manager, "LOADED_AT_ONCE_BYTES", 100)
    for number in range(50):
        harness.commit(number, group=f"group-{number}")
    move(harness)
    assert [harness.fetched(group=f"group-{number}") for number in range(50)] == list(range(50))


def test_a_partition_that_is_hosted_no_more_is_not_loaded(harness: CoordinatorHarness) -> None:
    harness.follow(leader_epoch=1)
    harness.replicas._partitions.pop(OFFSETS_0)
    harness.run(harness._called(lambda: harness.groups.elected(0, 2)))
    harness.settle()
    assert harness.fetched() == "NOT_COORDINATOR"
    assert not harness.groups.manager.is_loading


def test_records_before_the_log_start_offset_are_not_read(harness: CoordinatorHarness) -> None:
    harness.commit(5)
    harness.commit(6, group="simple")
    harness.partition().log.maybe_increment_log_start_offset(1)
    move(harness)
    assert harness.fetched(group="simple") == 6
