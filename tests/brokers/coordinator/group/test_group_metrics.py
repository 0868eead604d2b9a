"""Tests of the metrics of groups."""

from __future__ import annotations

from tests.brokers.coordinator.group.parts import (
    GROUP,
    ORDERS_0,
    ORDERS_1,
    CoordinatorHarness,
    assignment,
    group,
    member,
)
from tests.brokers.parts import StillClock
from understudy.brokers.coordinator.group.group_coordinator import LeavingMember
from understudy.brokers.coordinator.group.group_metrics import GROUP_MBEANS, GroupMeters, group_readings
from understudy.brokers.coordinator.group.group_offsets import CommittedOffset, OffsetAndMetadata
from understudy.brokers.coordinator.group.group_state import GroupState


def test_groups_are_counted_by_state_with_their_offsets() -> None:
    empty, stable = group(), group(member("a"), in_state=GroupState.STABLE)
    empty.offsets.load(
        {ORDERS_0: CommittedOffset(1, OffsetAndMetadata(5)), ORDERS_1: CommittedOffset(2, OffsetAndMetadata(6))}
    )
    readings = list(group_readings([empty, stable], GroupMeters(StillClock())))
    assert tuple(reading.mbean for reading in readings) == GROUP_MBEANS
    assert {reading.mbean.name: reading.value for reading in readings if reading.mbean.name.startswith("Num")} == {
        "NumOffsets": 2,
        "NumGroups": 2,
        "NumGroupsPreparingRebalance": 0,
        "NumGroupsCompletingRebalance": 0,
        "NumGroupsStable": 1,
        "NumGroupsDead": 0,
        "NumGroupsEmpty": 1,
    }


def counts(harness: CoordinatorHarness) -> dict[str, float]:
    """The attributes that are neither rates nor times, by name."""
    readings = {reading.mbean.name: reading.value for reading in harness.groups.manager.meters.readings()}
    return {name: value for name, value in readings.items() if name.endswith("-count") and isinstance(value, float)}


def test_what_the_coordinator_does_is_counted(harness: CoordinatorHarness) -> None:
    harness.commit(5)
    harness.commit(6, partition=ORDERS_1)
    harness.groups.administration.delete_offsets(GROUP, [ORDERS_1])
    assert harness.sync("invented", 1, {"invented": assignment(0)}).result().error.name == "UNKNOWN_MEMBER_ID"
    [only] = harness.stable(1)
    harness.groups.leave_group(GROUP, [LeavingMember(only)])
    harness.advance(8 * 24 * 3_600_000)
    assert harness.manager_groups == {}
    assert counts(harness) == {
        "offset-commit-count": 2,
        "offset-expiration-count": 1,
        "offset-deletion-count": 1,
        "group-completed-rebalance-count": 1,
    }


def test_a_commit_that_fails_is_not_counted(replicated: CoordinatorHarness) -> None:
    replicated.commit(5)
    replicated.advance(5_000)
    assert counts(replicated)["offset-commit-count"] == 0


def test_loading_a_partition_is_timed(harness: CoordinatorHarness) -> None:
    meters = harness.groups.manager.meters
    assert (meters.load_times.maximum(), meters.load_times.average()) == (0, 0), "it takes no virtual time"
