"""Tests of the metrics of groups."""

from __future__ import annotations

from brokers.coordinator.group.group_metrics import GROUP_MBEANS, group_readings
from brokers.coordinator.group.group_offsets import CommittedOffset, OffsetAndMetadata
from brokers.coordinator.group.group_state import GroupState
from tests.brokers.coordinator.group.parts import ORDERS_0, ORDERS_1, group, member


def test_groups_are_counted_by_state_with_their_offsets() -> None:
    empty, stable = group(), group(member("a"), in_state=GroupState.STABLE)
    empty.offsets.load(
        {ORDERS_0: CommittedOffset(1, OffsetAndMetadata(5)), ORDERS_1: CommittedOffset(2, OffsetAndMetadata(6))}
    )
    readings = list(group_readings([empty, stable]))
    assert tuple(reading.mbean for reading in readings) == GROUP_MBEANS
    assert {reading.mbean.name: reading.value for reading in readings} == {
        "NumOffsets": 2,
        "NumGroups": 2,
        "NumGroupsPreparingRebalance": 0,
        "NumGroupsCompletingRebalance": 0,
        "NumGroupsStable": 1,
        "NumGroupsDead": 0,
        "NumGroupsEmpty": 1,
    }
