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
    CoordinatorInVirtualTime,
    assignment,
)
from understudy.brokers.coordinator.group import group_metadata_manager
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.records.record import Record, encode_records

It = CoordinatorInVirtualTime


def move(it: It, *, leader_epoch: int = 1) -> None:
    """Lose the partition and lead it again."""
    it.follow(leader_epoch=leader_epoch)
    it.lead(leader_epoch=leader_epoch + 1)
    it.settle()


@pytest.mark.spec("CO-4")
def test_groups_and_offsets_are_there_after_a_move(it: It) -> None:
    leader, follower = it.stable(2)
    it.commit(5, member_id=leader, generation=1)
    it.commit(6, group="simple")
    move(it)
    assert (it.state, it.fetched(), it.fetched(group="simple")) == ("Stable", 5, 6)
    assert it.heartbeat(leader, 1) == "NONE"
    assert it.sync(follower, 1).result().assignment == assignment(1)
    assert it.recorder.of("GroupsUnloaded") == [{"partition": 0, "leader_epoch": 1, "groups": 2, "offsets": 2}]
    assert it.recorder.of("GroupsLoaded")[-1] == {
        "partition": 0,
        "leader_epoch": 2,
        "groups": 2,
        "offsets": 2,
        "unreadable": 0,
    }


def test_members_that_were_lost_with_their_coordinator_fail_at_the_next_one(it: It) -> None:
    it.stable(1)
    move(it)
    it.advance(SESSION_MS)
    assert it.state == "Empty"


@pytest.mark.spec("CO-4")
def test_requests_are_refused_while_a_partition_is_loaded(it: It) -> None:
    [only] = it.stable(1)
    it.commit(5, member_id=only, generation=1)
    it.follow(leader_epoch=1)
    it.groups.manager._one_load = _held(it)
    it.lead(leader_epoch=2)
    it.settle()
    assert it.fetched() == "COORDINATOR_LOAD_IN_PROGRESS"
    assert it.join(only).result().error is Errors.COORDINATOR_LOAD_IN_PROGRESS
    assert it.commit(6).result() == {ORDERS_0: Errors.COORDINATOR_LOAD_IN_PROGRESS}
    assert it.sync(only, 1).result().error is Errors.REBALANCE_IN_PROGRESS
    assert it.heartbeat(only, 1) == "NONE", "its session begins when the group is loaded"
    assert it.groups.administration.list_groups((), ())[0] is Errors.COORDINATOR_LOAD_IN_PROGRESS
    assert it.groups.administration.delete_groups([GROUP]) == {GROUP: Errors.COORDINATOR_LOAD_IN_PROGRESS}
    it.groups.manager._one_load.release()
    it.settle()
    assert it.fetched() == 5


def _held(it: It) -> asyncio.Semaphore:
    """A semaphore that another load holds."""

    async def held() -> asyncio.Semaphore:
        made = asyncio.Semaphore(1)
        await made.acquire()
        return made

    return it.run(held())


def test_a_load_that_was_overtaken_by_an_unload_changes_nothing(it: It) -> None:
    it.commit(5)
    it.follow(leader_epoch=1)
    held = it.groups.manager._one_load = _held(it)
    it.lead(leader_epoch=2)
    it.settle()
    it.follow(leader_epoch=3)
    held.release()
    it.settle()
    assert (it.manager_groups, it.fetched()) == ({}, "NOT_COORDINATOR")
    it.lead(leader_epoch=4)
    it.settle()
    assert it.fetched() == 5


@pytest.mark.spec("CO-4")
def test_older_leader_epochs_change_nothing(it: It) -> None:
    it.commit(5)
    move(it, leader_epoch=5)
    it.run(it._called(lambda: it.groups.resigned(0, 4)))
    assert it.fetched() == 5
    it.run(it._called(lambda: it.groups.elected(0, 3)))
    assert it.fetched() == 5
    it.run(it._called(lambda: it.groups.resigned(0, 6)))
    assert it.fetched() == "NOT_COORDINATOR", "an equal or newer epoch counts"
    it.run(it._called(lambda: it.groups.elected(0, 5)))
    it.settle()
    assert it.fetched() == "NOT_COORDINATOR"


def test_a_new_epoch_of_the_same_leader_keeps_what_is_loaded(it: It) -> None:
    leader, _ = it.stable(2)
    joining = it.join(leader)
    it.lead(leader_epoch=1)
    it.settle()
    assert it.state == "PreparingRebalance"
    assert not joining.done()


def test_a_topic_that_is_deleted_and_made_again_may_begin_with_epoch_0(it: It) -> None:
    it.commit(5)
    move(it, leader_epoch=5)
    it.run(it._called(lambda: it.groups.resigned(0, None)))
    assert it.fetched() == "NOT_COORDINATOR"
    assert it.recorder.of("GroupsUnloaded")[-1]["leader_epoch"] == -1
    it.run(it._called(lambda: it.groups.elected(0, 0)))
    it.settle()
    assert it.fetched() == 5


def test_only_the_groups_of_the_partition_move() -> None:
    it = CoordinatorInVirtualTime({"offsets.topic.num.partitions": "2"})
    for name in ("a", "b"):
        it.commit(5, group=name)
    assert it.groups.manager.partition_of("a") != it.groups.manager.partition_of("b")
    it.follow(leader_epoch=1, number=it.groups.manager.partition_of("a"))
    assert (it.fetched(group="a"), it.fetched(group="b")) == ("NOT_COORDINATOR", 5)
    it.close()


def test_a_coordinator_that_resigns_sends_waiting_members_to_the_next_one(it: It) -> None:
    leader, follower = it.stable(2)
    joining = it.join(leader)
    it.follow(leader_epoch=1)
    assert joining.result().error is Errors.NOT_COORDINATOR
    it.lead(leader_epoch=2)
    it.settle()
    joins = [it.join(each, topics=["parcels"]) for each in (leader, follower)]
    it.advance(INITIAL_DELAY_MS)
    ids = [join.result().member_id for join in joins]
    waiting = it.sync(ids[1], 2)
    it.follow(leader_epoch=3)
    assert waiting.result().error is Errors.NOT_COORDINATOR


def test_nothing_is_due_any_more_for_groups_that_have_moved(it: It) -> None:
    it.stable(2)
    it.join(needs_id=True)
    it.join()
    it.follow(leader_epoch=1)
    assert len(it.groups._expirations) == 0
    it.advance(10 * REBALANCE_MS)
    assert it.manager_groups == {}


def test_a_rebalance_that_was_under_way_begins_again_at_the_next_coordinator(it: It) -> None:
    leader, follower = it.stable(2)
    it.join(leader)
    it.follow(leader_epoch=1)
    it.lead(leader_epoch=2)
    it.settle()
    assert it.state == "Stable", "the last generation that was stored"
    joins = [it.join(leader), it.join(follower)]
    assert joins[0].result().generation_id == 2


def test_an_unreadable_record_is_left_out_and_counted(it: It) -> None:
    it.commit(5)
    it.append(encode_records([Record(0, NOW_MS, b"\0\1\0", b"damaged"), Record(1, NOW_MS, None, b"no key")]))
    it.commit(6, group="simple")
    move(it)
    assert (it.fetched(), it.fetched(group="simple")) == (5, 6)
    assert it.recorder.of("GroupsLoaded")[-1]["unreadable"] == 2


def test_a_large_partition_is_read_in_parts(it: It, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_metadata_manager, "LOADED_AT_ONCE_BYTES", 100)
    for number in range(50):
        it.commit(number, group=f"group-{number}")
    move(it)
    assert [it.fetched(group=f"group-{number}") for number in range(50)] == list(range(50))


def test_a_partition_that_is_hosted_no_more_is_not_loaded(it: It) -> None:
    it.follow(leader_epoch=1)
    it.replicas._partitions.pop(OFFSETS_0)
    it.run(it._called(lambda: it.groups.elected(0, 2)))
    it.settle()
    assert it.fetched() == "NOT_COORDINATOR"
    assert not it.groups.manager.is_loading


def test_records_before_the_log_start_offset_are_not_read(it: It) -> None:
    it.commit(5)
    it.commit(6, group="simple")
    it.partition().log.maybe_increment_log_start_offset(1)
    move(it)
    assert it.fetched(group="simple") == 6
