"""The states of a group, and from which states each may be entered. Mirrors `kafka.coordinator.group.GroupState`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class GroupState(Enum):
    """A group's state; the value is Kafka's name, as ListGroups and DescribeGroups show it."""

    EMPTY = "Empty"
    """No members. The group stays while it has offsets; clients that only store offsets leave it so."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are to join again; JoinGroup waits for all of them, or for the rebalance timeout."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation is fixed; SyncGroup waits for the leader's assignment."""
    STABLE = "Stable"
    """Every member can have its assignment."""
    DEAD = "Dead"
    """Deleted, expired or unloaded; requests that still hold the group are sent away."""


VALID_PREVIOUS_STATES: Mapping[GroupState, tuple[GroupState, ...]] = {
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE,),
    GroupState.PREPARING_REBALANCE: (GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING_REBALANCE),
    GroupState.COMPLETING_REBALANCE: (GroupState.PREPARING_REBALANCE,),
    GroupState.STABLE: (GroupState.COMPLETING_REBALANCE,),
    GroupState.DEAD: tuple(GroupState),
}
"""Valid previous states of each state."""


class InvalidGroupTransition(Exception):
    """A group was to enter a state that cannot follow its present one: a mistake in the coordinator."""


def check_transition(group_id: str, source: GroupState, target: GroupState) -> None:
    """Check that `target` may follow `source`.

    Raises:
        InvalidTransition: it may not.
    """
    if source not in VALID_PREVIOUS_STATES[target]:
        allowed = ", ".join(state.value for state in VALID_PREVIOUS_STATES[target])
        raise InvalidGroupTransition(
            f"group {group_id} cannot go from {source.value} to {target.value}, which follows {allowed} only"
        )
