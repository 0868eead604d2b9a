"""The assignors that ignore earlier assignments: `assign_range` and `assign_round_robin`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from understudy.clusters.clients.assignors.subscriptions import (
    Assignment,
    PartitionCounts,
    ReplicaRacks,
    Subscriptions,
    in_member_order,
    in_order,
    partitions_of,
    use_racks,
)
from understudy.foundation.cluster.identifiers import TopicPartition

_May: TypeAlias = Callable[[str, TopicPartition], bool]


def assign_round_robin(partitions: PartitionCounts, subscriptions: Subscriptions, racks: ReplicaRacks, /) -> Assignment:
    """Give one partition after the other to the next member that is subscribed to its topic; racks do not matter.

    Mirrors `RoundRobinAssignor`.
    """
    members = in_member_order(subscriptions)
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    turn = 0
    for topic in _subscribed(subscriptions):
        for partition in partitions_of(topic, partitions):
            while topic not in subscriptions[members[turn]].topics:
                turn = (turn + 1) % len(members)
            assigned[members[turn]].append(partition)
            turn = (turn + 1) % len(members)
    return in_order(assigned, subscriptions)


def assign_range(partitions: PartitionCounts, subscriptions: Subscriptions, racks: ReplicaRacks, /) -> Assignment:
    """Give each member that is subscribed to a topic neighbouring partitions of it, the first members one more.

    Topics with equal counts and subscribers are co-partitioned: a member gets the same numbers of each. If racks
    matter, a member gets partitions that have a replica in its rack as far as balance and co-partitioning allow
    (KIP-881). Mirrors `RangeAssignor`.
    """
    assigned: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    topics = [
        _Topic(topic, partitions_of(topic, partitions), subscriptions, racks, assigned)
        for topic in _subscribed(subscriptions)
        if partitions.get(topic)
    ]
    if any(topic.uses_racks for topic in topics):
        _match_racks(topics)
    for topic in topics:
        topic.assign_ranges(lambda member, partition: True)
    return in_order(assigned, subscriptions)


def _subscribed(subscriptions: Subscriptions) -> list[str]:
    return sorted({topic for subscription in subscriptions.values() for topic in subscription.topics})


class _Topic:
    """One topic while it is assigned in ranges. Mirrors `RangeAssignor.TopicAssignmentState`."""

    def __init__(
        self,
        name: str,
        partitions: list[TopicPartition],
        subscriptions: Subscriptions,
        racks: ReplicaRacks,
        assigned: dict[str, list[TopicPartition]],
    ) -> None:
        self.name = name
        self.members = [each for each in in_member_order(subscriptions) if name in subscriptions[each].topics]
        self.rack_of = {member: subscriptions[member].rack for member in self.members if subscriptions[member].rack}
        self._racks = {partition: racks.get(partition, frozenset()) for partition in partitions} if self.rack_of else {}
        self.uses_racks = use_racks(set(filter(None, self.rack_of.values())), tuple(self._racks.values()))
        self._unassigned = partitions
        self._assigned = assigned
        self._counts = dict.fromkeys(self.members, 0)
        self._each, self._with_one_more = divmod(len(partitions), len(self.members))

    @property
    def co_partitioned_with(self) -> tuple[tuple[str, ...], tuple[tuple[str, str | None], ...], int]:
        """The key that co-partitioned topics have in common: members, their racks, and the number of partitions."""
        return tuple(self.members), tuple(self.rack_of.items()), len(self._racks)

    def matches(self, member: str, partition: TopicPartition) -> bool:
        """Return whether a member has no rack, or one in which the partition has a replica."""
        rack = self.rack_of.get(member)
        return rack is None or rack in self._racks.get(partition, frozenset())

    def room(self, member: str) -> int:
        """Return how many more partitions of the topic a member may get."""
        return max(0, self._each + (self._with_one_more > 0) - self._counts[member])

    def assign(self, member: str, partitions: Sequence[TopicPartition]) -> None:
        self._assigned[member].extend(partitions)
        self._counts[member] += len(partitions)
        if self._counts[member] > self._each:
            self._with_one_more -= 1
        given = set(partitions)
        self._unassigned = [partition for partition in self._unassigned if partition not in given]

    def assign_ranges(self, may: _May) -> None:
        """Fill the room of each member with the first unassigned partitions that it may get."""
        for member in self.members:
            possible = [partition for partition in self._unassigned if may(member, partition)][: self.room(member)]
            if possible:
                self.assign(member, possible)


def _match_racks(topics: Sequence[_Topic]) -> None:
    """Assign the partitions that can be aligned on racks, and leave the rest."""
    groups: dict[object, list[_Topic]] = {}
    for topic in topics:
        groups.setdefault(topic.co_partitioned_with, []).append(topic)
    for (_, _, count), group in ((group[0].co_partitioned_with, group) for group in groups.values()):
        if len(group) > 1:
            _match_racks_of_all(group, count)
        elif group[0].uses_racks:
            group[0].assign_ranges(group[0].matches)


def _match_racks_of_all(topics: Sequence[_Topic], count: int) -> None:
    """Assign each partition number to the first member whose rack has a replica of it in every topic."""
    remaining = list(topics[0].members)
    for number in range(count):
        chosen = next((member for member in remaining if _can_take(member, number, topics)), None)
        if chosen is None:
            continue
        for topic in topics:
            topic.assign(chosen, [TopicPartition(topic.name, number)])
        if not any(topic.room(chosen) for topic in topics):
            remaining.remove(chosen)


def _can_take(member: str, number: int, topics: Sequence[_Topic]) -> bool:
    return all(topic.matches(member, TopicPartition(topic.name, number)) and topic.room(member) > 0 for topic in topics)
