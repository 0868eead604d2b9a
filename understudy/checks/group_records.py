"""Adds to the history of a group what its coordinators have recorded in their event logs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from understudy.checks.check import Incarnation, broker_of, incarnation_of
from understudy.checks.groups import GroupHistory, OffsetFetch, StoredAssignment
from understudy.checks.log_checks import NO_LEADER, NO_LEADER_EPOCH
from understudy.checks.replica_logs import partitions_that_may_have_lost
from understudy.foundation.eventlog.records import (
    Envelope,
    GroupAssigned,
    GroupsLoaded,
    GroupsUnloaded,
    GroupTransition,
    LeaderAndIsrApplied,
    LeadershipWritten,
    OffsetsCommitted,
    OffsetsRemoved,
    StopReplicaApplied,
)

OFFSETS_TOPIC = "__consumer_offsets"
CLOCKS_MS = 500.0
"""Maximum difference between the times of brokers and of clients on one machine, without the duration of a request."""
_ALL_HAVE_JOINED = "CompletingRebalance"
_WITHOUT_MEMBERS = frozenset({"Empty", "Dead"})


class _Leader(NamedTuple):
    at_ms: float
    leader_epoch: int
    broker: int
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1


class _Leaders:
    """The brokers that have led and that have loaded the partitions of `__consumer_offsets`."""

    def __init__(self) -> None:
        self._written: defaultdict[int, list[_Leader]] = defaultdict(list)
        self._loaded: defaultdict[int, list[_Leader]] = defaultdict(list)
        self._newest: dict[int, Incarnation] = {}
        self._coordinated: dict[tuple[Incarnation, int], int] = {}
        self._with_members: defaultdict[tuple[Incarnation, int], set[str]] = defaultdict(set)

    def add(self, record: Envelope) -> None:
        broker, incarnation = broker_of(record), incarnation_of(record)
        self._newest[broker] = incarnation
        match record.data:
            case LeadershipWritten(partitions=partitions):
                for each in partitions:
                    if each.topic == OFFSETS_TOPIC and each.leader != NO_LEADER:
                        written = _Leader(
                            record.mono_ms, each.leader_epoch, each.leader, each.isr, each.partition_epoch
                        )
                        self._written[each.partition].append(written)
            case GroupsLoaded(partition=partition, leader_epoch=epoch):
                self._loaded[partition].append(_Leader(record.mono_ms, epoch, broker))
                self._coordinated[incarnation, partition] = epoch
            case GroupsUnloaded(partition=partition):
                self._stops(incarnation, partition)
            case LeaderAndIsrApplied(followers=followers):
                for each in followers:
                    if each.topic == OFFSETS_TOPIC:
                        self._stops(incarnation, each.partition)
            case StopReplicaApplied(partitions=stopped):
                for topic, partition, _, delete in stopped:
                    if topic == OFFSETS_TOPIC and delete:
                        self._stops(incarnation, partition)
            case GroupTransition(group=group, partition=partition, target=target):
                if target in _WITHOUT_MEMBERS:
                    self._with_members[incarnation, partition].discard(group)
                else:
                    self._with_members[incarnation, partition].add(group)
            case _:
                pass

    def _stops(self, incarnation: Incarnation, partition: int) -> None:
        self._coordinated.pop((incarnation, partition), None)
        self._with_members.pop((incarnation, partition), None)

    def groups_left_behind(self) -> set[str]:
        """Return the groups with members at a broker that should no longer coordinate them, and got no request to stop.

        Another broker has since become leader of the group's partition. The broker is no longer in sync, which at the
        end means that it has no replica by the assignment. It has got no request that ends its leadership: requests
        that wait for it are dropped when its registration or the controller goes away. A StopReplica that does not
        delete does not unload the groups, as in Kafka (KafkaApis.handleStopReplicaRequest).
        """
        return {
            group
            for broker, newest in self._newest.items()
            for (incarnation, partition), epoch in self._coordinated.items()
            if incarnation == newest
            and (last := max(self._written[partition], key=lambda each: each.partition_epoch, default=None)) is not None
            and last.leader_epoch > epoch
            and broker not in {last.broker, *last.isr}
            for group in self._with_members[incarnation, partition]
        }

    def is_past(self, fetch: OffsetFetch, partition: int, within_ms: float) -> bool:
        """Return whether another broker may have become leader since the answering broker loaded the partition.

        Args:
            within_ms: the times of records and of the fetch differ from one clock by at most this.
        """
        loaded = [
            each.leader_epoch
            for each in self._loaded[partition]
            if each.broker == fetch.coordinator and each.at_ms <= fetch.began_ms - within_ms
        ]
        since = max(loaded, default=NO_LEADER_EPOCH)
        return any(
            each.leader_epoch > since and each.broker != fetch.coordinator and each.at_ms <= fetch.ended_ms + within_ms
            for each in self._written[partition]
        )


def add_records(history: GroupHistory, records: Iterable[Envelope], within_ms: float = CLOCKS_MS) -> None:
    """Add the assignments that coordinators have stored, and excuse the groups that may have lost offsets.

    Those are the groups whose partition of `__consumer_offsets` had an unclean election, or a leader that a loss of
    power had left without records (`understudy.events.logs=true` shows it), and the groups whose offsets were deleted
    or had expired.

    Args:
        records: all records, each node's in the order in which it has written them, by the clock of the clients.
        within_ms: the times of records and clients are wrong by at most this: on several machines more than by default.
    """
    every = list(records)
    groups_of: defaultdict[int, set[str]] = defaultdict(set)
    without_end: Counter[tuple[str, int]] = Counter()
    leaders = _Leaders()
    for record in every:
        leaders.add(record)
        match record.data:
            case OffsetsCommitted(group=group, partition=partition):
                groups_of[partition].add(group)
            case GroupTransition(group=group, partition=partition):
                groups_of[partition].add(group)
                if record.data.target == _ALL_HAVE_JOINED:
                    without_end[group, record.data.generation] += 1
            case GroupAssigned() as assigned:
                groups_of[assigned.partition].add(assigned.group)
                without_end[assigned.group, assigned.generation] -= 1
                history.stored.append(
                    StoredAssignment(
                        assigned.group,
                        assigned.generation,
                        {
                            member.group_instance_id or member.member_id: frozenset(member.partitions)
                            for member in assigned.members
                        },
                        {each.group_instance_id: each.member_id for each in assigned.members if each.group_instance_id},
                        assigned.leader,
                    )
                )
            case OffsetsRemoved(group=group):
                history.may_have_lost.add(group)
            case _:
                pass
    partition_of = {group: partition for partition, groups in groups_of.items() for group in groups}
    history.of_the_past |= {
        number
        for number, fetch in enumerate(history.fetches)
        if fetch.group in partition_of
        and not fetch.is_final
        and leaders.is_past(fetch, partition_of[fetch.group], within_ms)
    }
    history.left_behind |= leaders.groups_left_behind()
    history.without_end |= {generation for generation, count in without_end.items() if count > 0}
    for topic, partition in partitions_that_may_have_lost(every):
        if topic == OFFSETS_TOPIC:
            history.may_have_lost |= groups_of[partition]
