"""The arguments and results of assignors, and the order of the members of a group."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from understudy.foundation.cluster.identifiers import TopicPartition

NO_GENERATION = -1
"""The generation of a member that was not in the group yet. Mirrors `AbstractStickyAssignor.DEFAULT_GENERATION`."""


class Subscription(NamedTuple):
    """The subscription that a member sends to its group's leader. Mirrors `ConsumerPartitionAssignor.Subscription`.

    Attributes:
        owned: the partitions that the member had last, for the sticky assignors.
        generation: the generation in which it had them.
        instance_id: the instance id of a static member.
        rack: the rack of the member's host; None or empty if it has none.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    instance_id: str | None = None
    rack: str | None = None


PartitionCounts: TypeAlias = Mapping[str, int]
"""Number of partitions of each topic; a topic that does not exist is missing."""
Subscriptions: TypeAlias = Mapping[str, Subscription]
"""The subscription of each member id, in the order in which the coordinator lists the members."""
ReplicaRacks: TypeAlias = Mapping[TopicPartition, frozenset[str]]
"""The racks of each partition's replicas; a partition whose replicas have no rack may be missing."""
Assignment: TypeAlias = dict[str, tuple[TopicPartition, ...]]
"""The partitions of each member, in order of topic and number. Every member has an entry."""


class Assignor(Protocol):
    """Assigns each partition of the subscribed topics to one member. Mirrors `ConsumerPartitionAssignor.assign`."""

    def __call__(
        self, partitions: PartitionCounts, subscriptions: Subscriptions, racks: ReplicaRacks, /
    ) -> Assignment: ...


def in_member_order(subscriptions: Subscriptions) -> list[str]:
    """Return the member ids: static members by instance id, then the others by member id. Mirrors `MemberInfo`."""
    return sorted(subscriptions, key=lambda member: _member_order(member, subscriptions[member].instance_id))


def partitions_of(topic: str, partitions: PartitionCounts) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(partitions.get(topic, 0))]


def in_order(assigned: Mapping[str, Iterable[TopicPartition]], members: Iterable[str]) -> Assignment:
    """Return an assignment that has its members in the given order and their partitions sorted."""
    return {member: tuple(sorted(assigned[member])) for member in members}


def use_racks(consumer_racks: Collection[str], partition_racks: Collection[frozenset[str]]) -> bool:
    """Return whether racks matter: members and replicas share a rack, and some partition is not in all replicas' racks.

    Mirrors `AbstractPartitionAssignor.useRackAwareAssignment`.
    """
    everywhere: frozenset[str] = frozenset().union(*partition_racks)
    return not everywhere.isdisjoint(consumer_racks) and any(racks != everywhere for racks in partition_racks)


def _member_order(member: str, instance_id: str | None) -> tuple[bool, str]:
    return (True, member) if instance_id is None else (False, instance_id)
