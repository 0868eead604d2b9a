"""Tests of `fold` on consumer groups: their coordinators, members and committed offsets."""

from __future__ import annotations

import pytest

from tests.foundation.eventlog.lines import Logs
from tests.understudy.page.folding.fold import EventLogPicture, fold_all
from tests.understudy.page.folding.fold_state import GroupPicture
from understudy.foundation.eventlog.records import (
    AssignedMember,
    GroupAssigned,
    GroupOffset,
    GroupsLoaded,
    GroupsUnloaded,
    GroupTransition,
    OffsetsCommitted,
    OffsetsRemoved,
)
from understudy.history.reading.reader import read_lines

ALICE = AssignedMember("alice-1", "", "alice", (("orders", 0),))


def loaded(leader_epoch: int, groups: int) -> GroupsLoaded:
    return GroupsLoaded(partition=7, leader_epoch=leader_epoch, groups=groups, offsets=0, unreadable=0)


def transition(target: str, generation: int, members: int) -> GroupTransition:
    return GroupTransition(
        group="readers", partition=7, source="Empty", target=target, generation=generation, members=members, reason="x"
    )


@pytest.fixture
def logs() -> Logs:
    """The group `readers` is stable at broker 1, and has committed an offset."""
    logs = Logs()
    logs.at(1000, "broker-1", loaded(0, 0))
    logs.at(1001, "broker-1", transition("PreparingRebalance", 0, 1))
    logs.at(1002, "broker-1", transition("Stable", 1, 1))
    assigned = GroupAssigned(
        group="readers",
        partition=7,
        generation=1,
        protocol_type="consumer",
        protocol="range",
        leader="alice-1",
        members=(ALICE,),
    )
    logs.at(1003, "broker-1", assigned)
    offsets = (GroupOffset("orders", 0, 5), GroupOffset("orders", 1, 6))
    logs.at(
        1004, "broker-1", OffsetsCommitted(group="readers", partition=7, generation=1, appended_at=1, offsets=offsets)
    )
    return logs


def folded(logs: Logs) -> EventLogPicture:
    return fold_all(read_lines(logs.lines).records)


def group(logs: Logs) -> GroupPicture:
    return folded(logs).groups["readers"]


def test_a_group_has_its_members_and_committed_offsets(logs: Logs) -> None:
    found = group(logs)
    assert (found.coordinator, found.state, found.generation, found.members) == ("broker-1", "Stable", 1, 1)
    assert (found.leader, found.assigned, found.offsets["orders"]) == ("alice-1", (ALICE,), {0: 5, 1: 6})
    removed = OffsetsRemoved(group="readers", partition=7, offsets=(GroupOffset("orders", 1, 6),), reason="expired")
    logs.at(1005, "broker-1", removed)
    assert group(logs).offsets["orders"] == {0: 5}
    logs.at(1006, "broker-1", transition("Empty", 2, 0))
    assert (group(logs).state, group(logs).assigned, group(logs).assigned_generation) == ("Empty", (), 2)


def test_the_next_coordinator_has_a_group_as_it_was_stored(logs: Logs) -> None:
    logs.at(1005, "broker-1", transition("PreparingRebalance", 1, 2))
    logs.at(2000, "broker-2", loaded(1, 1))
    found = group(logs)
    assert (found.coordinator, found.state, found.generation, found.members) == ("broker-2", "Stable", 1, 1)
    assert folded(logs).broker(2).coordinates == {7: 1}
    logs.at(2001, "broker-1", transition("Dead", 1, 2))
    logs.at(2002, "broker-1", GroupsUnloaded(partition=7, leader_epoch=1, groups=1, offsets=2))
    assert group(logs) == found, "records of the coordinator before change nothing"
    assert folded(logs).broker(1).coordinates == {}
    logs.at(2003, "broker-2", GroupsUnloaded(partition=7, leader_epoch=2, groups=1, offsets=2))
    assert group(logs).coordinator == ""


def test_a_group_that_the_next_coordinator_does_not_find_is_gone(logs: Logs) -> None:
    logs.at(2000, "broker-2", loaded(1, 0))
    assert folded(logs).groups == {}
