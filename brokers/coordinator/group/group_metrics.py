"""The metrics of groups. Mirrors the gauges of `kafka.coordinator.group.GroupMetadataManager`.

Groups are counted at each scrape, in one pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from brokers.coordinator.group.group_metadata import GroupMetadata
from brokers.coordinator.group.group_state import GroupState
from foundation.metrics.mbeans import Kind, MBean, Reading


def _gauge(name: str, doc: str) -> MBean:
    return MBean("kafka.coordinator.group", "GroupMetadataManager", name, Kind.GAUGE, doc)


OFFSETS = _gauge("NumOffsets", "Committed offsets of the groups that this broker coordinates.")
GROUPS = _gauge("NumGroups", "Groups that this broker coordinates.")
BY_STATE: Mapping[GroupState, MBean] = {
    state: _gauge(f"NumGroups{state.value}", f"Those of them that are {state.value}.")
    for state in (
        GroupState.PREPARING_REBALANCE,
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
        GroupState.DEAD,
        GroupState.EMPTY,
    )
}

GROUP_MBEANS: tuple[MBean, ...] = (OFFSETS, GROUPS, *BY_STATE.values())
"""In the order of docs/metrics.md."""


def group_readings(groups: Collection[GroupMetadata]) -> Iterator[Reading]:
    """The gauges of the groups that a broker coordinates."""
    states = Counter(group.state for group in groups)
    yield Reading(OFFSETS, sum(len(group.offsets) for group in groups))
    yield Reading(GROUPS, len(groups))
    for state, mbean in BY_STATE.items():
        yield Reading(mbean, states[state])
