"""The assignors that let members keep their partitions: `assign_sticky` and `assign_cooperative_sticky`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.clusters.clients.assignors.previous_owners import Racks, previous_owners, subscribe_to_the_same
from understudy.clusters.clients.assignors.sticky_equal import EqualAssignment
from understudy.clusters.clients.assignors.sticky_general import GeneralAssignment
from understudy.clusters.clients.assignors.subscriptions import (
    Assignment,
    PartitionCounts,
    ReplicaRacks,
    Subscriptions,
    in_order,
)
from understudy.foundation.cluster.identifiers import TopicPartition


def assign_sticky(partitions: PartitionCounts, subscriptions: Subscriptions, racks: ReplicaRacks, /) -> Assignment:
    """Balance the partitions over the members, and move as few as possible (KIP-54, KIP-341).

    If racks matter, a partition moves to a member that has a replica in its rack. Mirrors `StickyAssignor`.
    """
    return _assign(partitions, subscriptions, racks)[0]


def assign_cooperative_sticky(
    partitions: PartitionCounts, subscriptions: Subscriptions, racks: ReplicaRacks, /
) -> Assignment:
    """Assign as `assign_sticky`, without the partitions that another member still has to give up (KIP-429).

    The members that give up partitions join again; the rebalance after that assigns them. Mirrors
    `CooperativeStickyAssignor`.
    """
    wanted, changing_hands = _assign(partitions, subscriptions, racks)
    return {
        member: tuple(partition for partition in assigned if partition not in changing_hands)
        for member, assigned in wanted.items()
    }


def _assign(
    partitions: PartitionCounts, subscriptions: Subscriptions, racks: ReplicaRacks
) -> tuple[Assignment, frozenset[TopicPartition]]:
    """Return the assignment, and the partitions that their last owner must give up before the new one gets them."""
    if not subscriptions:
        return {}, frozenset()
    subscribed = {topic for each in subscriptions.values() for topic in each.topics}
    existing = {topic: partitions[topic] for topic in sorted(subscribed) if partitions.get(topic)}
    owners = previous_owners(existing, subscriptions)
    known = Racks(existing, subscriptions, racks)
    assigned: Mapping[str, Sequence[TopicPartition]]
    if subscribe_to_the_same(subscriptions):
        equal = EqualAssignment(existing, known, owners)
        assigned = equal.build()
        changing_hands = frozenset(equal.changing_hands)
    else:
        assigned = GeneralAssignment(existing, known, owners.owned, subscriptions).build()
        changing_hands = _changing_hands(assigned, subscriptions)
    return in_order(assigned, subscriptions), changing_hands


def _changing_hands(
    assigned: Mapping[str, Sequence[TopicPartition]], subscriptions: Subscriptions
) -> frozenset[TopicPartition]:
    """Return the assigned partitions that another member owns, and the new one does not."""
    owned = {partition for each in subscriptions.values() for partition in each.owned}
    return frozenset(
        partition
        for member, given in assigned.items()
        for partition in given
        if partition in owned and partition not in subscriptions[member].owned
    )
