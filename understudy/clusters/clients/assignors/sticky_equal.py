"""The sticky assignment of a group whose members are all subscribed to the same topics: it needs no search."""

from __future__ import annotations

from understudy.clusters.clients.assignors.previous_owners import PreviousOwners, Racks
from understudy.clusters.clients.assignors.subscriptions import PartitionCounts, partitions_of
from understudy.foundation.cluster.identifiers import TopicPartition


class EqualAssignment:
    """Gives each member the least that a balanced share can be, or one more. Used once, by `build`.

    1. A member keeps what it owned up to its share: the least, or one more while that many members may have it.
       If racks matter, it keeps only partitions that have a replica in its rack.
    2. If racks matter, the rest goes round the members that have room and a replica in their rack.
    3. What remains goes round the members that have less than the least, and then to those that have just the least.

    Mirrors `AbstractStickyAssignor.ConstrainedAssignmentBuilder`.

    Attributes:
        changing_hands: assigned partitions that another member has to give up first.
    """

    def __init__(self, partitions: PartitionCounts, racks: Racks, owners: PreviousOwners) -> None:
        self._partitions = partitions
        self._racks = racks
        self._owners = owners
        self._least, self._may_have_more = divmod(sum(partitions.values()), len(owners.owned))
        self._most = self._least + (self._may_have_more > 0)
        self._have_more = 0
        self._assigned: dict[str, list[TopicPartition]] = {member: [] for member in owners.owned}
        self._given_up: dict[TopicPartition, str] = {}
        self._below: list[str] = []
        """The members with less than the least."""
        self._at_least: list[str] = []
        """The members with just the least, of which some may still get one more."""
        self.changing_hands: set[TopicPartition] = set()

    def build(self) -> dict[str, list[TopicPartition]]:
        for member, owned in self._owners.owned.items():
            self._keep(member, owned)
        self._below.sort()
        self._at_least.sort()
        kept = {partition for assigned in self._assigned.values() for partition in assigned}
        unassigned = self._racks.fewest_nearby_first(
            [
                partition
                for topic in sorted(self._partitions)
                for partition in partitions_of(topic, self._partitions)
                if partition not in kept
            ]
        )
        if self._racks.of_member:
            unassigned = self._assign_nearby(unassigned)
        self._go_round(unassigned)
        return self._assigned

    def _keep(self, member: str, owned: list[TopicPartition]) -> None:
        nearby = sorted(
            (partition for partition in owned if not self._racks.mismatch(member, partition)),
            key=lambda partition: (partition.partition, partition.topic),
        )
        self._given_up |= {partition: member for partition in owned if self._racks.mismatch(member, partition)}
        nearby = [partition for partition in nearby if partition not in self._owners.claimed_twice]
        if len(nearby) < self._least:
            share = len(nearby)
            self._below.append(member)
        elif len(nearby) >= self._most and self._have_more < self._may_have_more:
            share = self._most
            self._take_one_more()
        else:
            share = self._least
            if self._have_more < self._may_have_more:
                self._at_least.append(member)
        self._assigned[member].extend(nearby[:share])
        self._given_up |= dict.fromkeys(nearby[share:], member)

    def _take_one_more(self) -> None:
        self._have_more += 1
        if self._have_more == self._may_have_more:
            self._at_least.clear()

    def _assign_nearby(self, unassigned: list[TopicPartition]) -> list[TopicPartition]:
        """Assign the partitions that can be aligned on racks, round the members; return the rest."""
        rest = []
        turn = 0
        for partition in unassigned:
            place = self._racks.next_nearby(partition, self._below, turn)
            if place is not None:
                member = self._below[place]
                if self._give(partition, member) >= self._least:
                    self._below.remove(member)
                    if self._least < self._most and self._have_more < self._may_have_more:
                        self._at_least.append(member)
                else:
                    place += 1
                turn = place % len(self._below) if self._below else 0
                continue
            place = self._racks.next_nearby(partition, self._at_least, 0)
            if place is None:
                rest.append(partition)
                continue
            member = self._at_least[place]
            if self._give(partition, member) == self._most:
                del self._at_least[place]
                self._take_one_more()
        return rest

    def _go_round(self, unassigned: list[TopicPartition]) -> None:
        turn = 0
        for partition in unassigned:
            if self._below:
                turn = turn if turn < len(self._below) else 0
                member = self._below[turn]
                turn += 1
            else:
                member = self._at_least.pop(0)
            has = self._give(partition, member)
            if has == self._least:
                turn -= 1
                del self._below[turn]
                self._at_least.append(member)

    def _give(self, partition: TopicPartition, member: str) -> int:
        """Assign one partition, and return how many the member has then."""
        self._assigned[member].append(partition)
        last = self._given_up.get(partition, member)
        if last != member or partition in self._owners.claimed_twice:
            self.changing_hands.add(partition)
        return len(self._assigned[member])
