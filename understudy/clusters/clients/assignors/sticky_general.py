"""The sticky assignment of a group whose members are subscribed to different topics: it improves step by step."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping

from understudy.clusters.clients.assignors.previous_owners import Racks
from understudy.clusters.clients.assignors.subscriptions import PartitionCounts, Subscriptions, partitions_of
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.java_order import bucket, partition_hash
from understudy.foundation.cluster.java_order import strings as in_hash_order


class GeneralAssignment:
    """Keeps the partitions of members, gives the rest to those with the fewest, and moves partitions while that helps.

    Used once, by `build`. Mirrors `AbstractStickyAssignor.GeneralAssignmentBuilder`.
    """

    def __init__(
        self,
        partitions: PartitionCounts,
        racks: Racks,
        owned: Mapping[str, list[TopicPartition]],
        subscriptions: Subscriptions,
    ) -> None:
        self._counts = partitions
        self._racks = racks
        self._topics = {
            member: [topic for topic in subscriptions[member].topics if topic in partitions]
            for member in in_hash_order(subscriptions)
        }
        self._members = {
            topic: [member for member, topics in self._topics.items() if topic in topics] for topic in partitions
        }
        self._previous = _previous_owners(subscriptions)
        self._movements = _Movements()
        self._must_revoke = False
        self._assigned = {member: self._kept(member, owned[member]) for member in owned}
        self._owner = {partition: member for member, assigned in self._assigned.items() for partition in assigned}
        self._of_topic = {topic: Counter[str]() for topic in partitions}
        """Number of partitions of a topic that each member has."""
        for partition, member in self._owner.items():
            self._of_topic[partition.topic][member] += 1
        self._by_load = sorted((len(assigned), member) for member, assigned in self._assigned.items())

    def build(self) -> dict[str, list[TopicPartition]]:
        every = [
            partition
            for topic in sorted(self._counts, key=lambda topic: (len(self._members[topic]), topic))
            for partition in partitions_of(topic, self._counts)
        ]
        unassigned = [partition for partition in every if partition not in self._owner]
        is_first = self._by_load[-1][0] == 0
        rest = unassigned
        if self._racks.of_member:
            rest = [partition for partition in unassigned if not self._give(partition, nearby=True)]
        for partition in rest:
            self._give(partition, nearby=False)
        fixed = {member: self._assigned.pop(member) for member in self._topics if not self._can_change(member)}
        self._by_load = [(load, member) for load, member in self._by_load if member not in fixed]
        before = {member: list(assigned) for member, assigned in self._assigned.items()}
        if not self._must_revoke:
            self._improve(self._movable(unassigned))
        has_moved = self._improve(self._movable(every))
        if not is_first and has_moved and _imbalance(self._assigned) >= _imbalance(before):
            self._assigned = before
        return self._assigned | fixed

    def _kept(self, member: str, owned: Iterable[TopicPartition]) -> list[TopicPartition]:
        kept = []
        for partition in owned:
            if partition.topic in self._topics[member] and not self._racks.mismatch(member, partition):
                kept.append(partition)
            else:
                self._must_revoke = True
        return kept

    def _movable(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that more than one member can have."""
        return [partition for partition in partitions if len(self._members[partition.topic]) > 1]

    def _can_change(self, member: str) -> bool:
        """Return whether a member lacks a partition that it could have, or has one that another could have."""
        assigned = self._assigned[member]
        return len(assigned) < self._room(member) or bool(self._movable(assigned))

    def _room(self, member: str) -> int:
        return sum(self._counts[topic] for topic in self._topics[member])

    def _give(self, partition: TopicPartition, *, nearby: bool) -> bool:
        """Give a partition to the member with the fewest that can have it; return whether there is one."""
        for _, member in self._by_load:
            if partition.topic in self._topics[member] and not (nearby and self._racks.mismatch(member, partition)):
                self._change_load(member, add=partition)
                return True
        return False

    def _change_load(
        self, member: str, *, add: TopicPartition | None = None, remove: TopicPartition | None = None
    ) -> None:
        assigned = self._assigned[member]
        del self._by_load[bisect_left(self._by_load, (len(assigned), member))]
        if remove is not None:
            assigned.remove(remove)
            self._of_topic[remove.topic][member] -= 1
        if add is not None:
            assigned.append(add)
            self._owner[add] = member
            self._of_topic[add.topic][member] += 1
        insort(self._by_load, (len(assigned), member))

    def _improve(self, movable: list[TopicPartition]) -> bool:
        """Go through the partitions until none can move to a better place; return whether one has moved."""
        has_moved = False
        while True:
            modified = False
            for partition in movable:
                if self._is_balanced():
                    break
                modified = self._move_to_a_better(partition) or modified
            has_moved = has_moved or modified
            if not modified:
                return has_moved

    def _move_to_a_better(self, partition: TopicPartition) -> bool:
        """Move a partition to its previous owner, or to the member with the fewest; return whether one has moved."""
        load = len(self._assigned[self._owner[partition]])
        previous = self._previous.get(partition)
        if previous is not None and load > len(self._assigned[previous]) + 1:
            self._move(partition, previous)
            return True
        if any(load > len(self._assigned[member]) + 1 for member in self._members[partition.topic]):
            self._move(
                partition, next(member for _, member in self._by_load if partition.topic in self._topics[member])
            )
            return True
        return False

    def _move(self, partition: TopicPartition, member: str) -> None:
        """Move this partition of its topic, or the one whose move would otherwise be made and unmade."""
        moved = self._movements.instead_of(partition, self._owner[partition], member)
        last = self._owner[moved]
        self._movements.add(moved, last, member)
        self._change_load(last, remove=moved)
        self._change_load(member, add=moved)

    def _is_balanced(self) -> bool:
        fewest, most = self._by_load[0][0], self._by_load[-1][0]
        if fewest >= most - 1:
            return True
        return not any(
            count > 0 and len(self._assigned[other]) > load + 1
            for load, member in self._by_load
            for topic in self._topics[member]
            for other, count in self._of_topic[topic].items()
        )


def _previous_owners(subscriptions: Subscriptions) -> dict[TopicPartition, str]:
    """Return who had a partition in an older generation than the newest that a member names."""
    newest = max(each.generation for each in subscriptions.values())
    previous: dict[TopicPartition, str] = {}
    for member in in_hash_order(subscriptions):
        generation = subscriptions[member].generation
        if generation < newest:
            for partition in subscriptions[member].owned:
                # Kafka does not check whether the member is still subscribed.
                if partition.topic not in subscriptions[member].topics:
                    continue
                if partition not in previous or generation > subscriptions[previous[partition]].generation:
                    previous[partition] = member
    return previous


def _imbalance(assigned: Mapping[str, list[TopicPartition]]) -> int:
    """Return the sum of the differences in load between all pairs of members."""
    loads = sorted(map(len, assigned.values()))
    return sum(load * (2 * place - len(loads) + 1) for place, load in enumerate(loads))


class _Movements:
    """The moves between two members, so that two partitions of a topic are not exchanged.

    Mirrors `AbstractStickyAssignor.PartitionMovements`.
    """

    def __init__(self) -> None:
        self._by_partition: dict[TopicPartition, tuple[str, str]] = {}
        self._by_pair: dict[tuple[str, str, str], _HashSet] = {}

    def instead_of(self, partition: TopicPartition, owner: str, to: str) -> TopicPartition:
        """Return the partition that moves: one that came from `to` rather than another of the same topic."""
        origin = self._by_partition[partition][0] if partition in self._by_partition else owner
        came_back = self._by_pair.get((partition.topic, to, origin))
        return came_back.first() if came_back else partition

    def add(self, partition: TopicPartition, owner: str, to: str) -> None:
        origin = owner
        if partition in self._by_partition:
            pair = self._by_partition.pop(partition)
            origin = pair[0]
            moved = self._by_pair[partition.topic, *pair]
            moved.remove(partition)
            if not moved:
                del self._by_pair[partition.topic, *pair]
            if origin == to:
                return
        self._by_partition[partition] = origin, to
        self._by_pair.setdefault((partition.topic, origin, to), _HashSet()).add(partition)


class _HashSet:
    """Partitions, of which `first` is the one that a Java `HashSet` returns first."""

    def __init__(self) -> None:
        self._held: dict[TopicPartition, None] = {}
        self._most_held = 0

    def __bool__(self) -> bool:
        return bool(self._held)

    def add(self, partition: TopicPartition) -> None:
        self._held[partition] = None
        self._most_held = max(self._most_held, len(self._held))

    def remove(self, partition: TopicPartition) -> None:
        del self._held[partition]

    def first(self) -> TopicPartition:
        return min(self._held, key=lambda each: bucket(partition_hash(each), self._most_held))
