"""Finds the partitions that the members of a group had, and may keep. Shared by the sticky assignors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from understudy.clusters.clients.assignors.subscriptions import (
    NO_GENERATION,
    PartitionCounts,
    ReplicaRacks,
    Subscriptions,
    partitions_of,
    use_racks,
)
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.java_order import strings as in_hash_order


class PreviousOwners(NamedTuple):
    """The partitions that the members had, without those that no longer exist.

    Attributes:
        owned: the partitions by member, in the order of a Java hash map, in which the assignors consider the members.
        claimed_twice: partitions that two members claim for the same generation; neither may keep them.
    """

    owned: dict[str, list[TopicPartition]]
    claimed_twice: frozenset[TopicPartition]


def previous_owners(partitions: PartitionCounts, subscriptions: Subscriptions) -> PreviousOwners:
    """Return what each member owned last; of two members the one with the newer generation.

    Kafka keeps a partition that no longer exists with its owner, and may then assign others twice; here it is dropped.
    Mirrors `AbstractStickyAssignor.allSubscriptionsEqual`.
    """
    owned: dict[str, list[TopicPartition]] = {}
    owner_of: dict[TopicPartition, str] = {}
    claimed_twice: set[TopicPartition] = set()
    for member in in_hash_order(subscriptions):
        mine = owned[member] = []
        generation = subscriptions[member].generation
        for partition in subscriptions[member].owned:
            if not 0 <= partition.partition < partitions.get(partition.topic, 0):
                continue
            other = owner_of.get(partition)
            other_generation = subscriptions[other].generation if other is not None else NO_GENERATION
            if other is not None and generation < other_generation:
                continue
            owner_of[partition] = member
            if other is not None and partition in owned[other]:
                owned[other].remove(partition)
            if other is not None and generation == other_generation:
                claimed_twice.add(partition)
            else:
                mine.append(partition)
    return PreviousOwners(owned, frozenset(claimed_twice))


def subscribe_to_the_same(subscriptions: Subscriptions) -> bool:
    """Return whether all members are subscribed to the same topics."""
    topics: frozenset[str] = frozenset()
    for member in in_hash_order(subscriptions):
        if not topics:
            topics = frozenset(subscriptions[member].topics)
        elif topics != frozenset(subscriptions[member].topics):
            return False
    return True


class Racks:
    """The racks of members and partitions, as far as they matter. Mirrors `AbstractStickyAssignor.RackInfo`.

    Attributes:
        of_member: empty if racks do not matter, as is `of_partition`.
    """

    def __init__(self, partitions: PartitionCounts, subscriptions: Subscriptions, racks: ReplicaRacks) -> None:
        of_member = {member: each.rack for member, each in subscriptions.items() if each.rack}
        every = [partition for topic in partitions for partition in partitions_of(topic, partitions)]
        of_partition = {partition: racks.get(partition, frozenset()) for partition in every} if of_member else {}
        members_in = Counter(of_member.values())
        self._nearby = {partition: sum(members_in[rack] for rack in here) for partition, here in of_partition.items()}
        matter = use_racks(set(members_in), tuple(of_partition.values()))
        self.of_member: dict[str, str] = of_member if matter else {}
        self.of_partition = of_partition if matter else {}

    def mismatch(self, member: str, partition: TopicPartition) -> bool:
        """Return whether a member has a rack in which the partition has no replica."""
        rack = self.of_member.get(member)
        return rack is not None and rack not in self.of_partition.get(partition, frozenset())

    def fewest_nearby_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that few members have in their racks before those that many have."""
        return sorted(partitions, key=lambda partition: self._nearby.get(partition, 0))

    def next_nearby(self, partition: TopicPartition, members: Sequence[str], first: int) -> int | None:
        """Return the place of the next member from `first` on, round the list, whose rack has a replica."""
        here = self.of_partition.get(partition, frozenset())
        for turn in range(len(members)):
            place = (first + turn) % len(members)
            if self.of_member.get(members[place]) in here:
                return place
        return None
