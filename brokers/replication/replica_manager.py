"""Which partitions this broker hosts, and how control requests change them. Mirrors `kafka.server.ReplicaManager`.

`leader_and_isr_step` and `stop_replica_step` are steps: hosted partitions × request → what changes, what to answer,
what to do. They touch nothing. `ReplicaManager` owns the map, applies what they return, and hands the effects on:
followers to the fetcher manager, records to the event log. Both requests are handled to the end without waiting, so
that they never interleave.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

import msgspec

from brokers.replication.partition import (
    FollowerState,
    Partition,
    Role,
    followers_after_election,
    leadership_of,
    made_follower,
    made_leader,
)
from foundation.cluster.errors import Errors
from foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from foundation.cluster.leadership import EPOCH_DURING_DELETE, NO_LEADER_EPOCH
from foundation.eventlog.fences import Fence, Fences
from foundation.eventlog.records import Leadership
from foundation.wire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from foundation.wire.messages.stop_replica import StopReplicaRequest

Admits = Callable[[TopicPartition, int, int], bool]
"""The leader-epoch fence: partition, epoch offered, epoch known → whether to let an older epoch through all the
same."""

HostedPartitions = Mapping[TopicPartition, Partition]


class LeaderAndIsrStep(NamedTuple):
    """What a LeaderAndIsr changes.

    Attributes:
        changed: partitions as they are afterwards.
        errors: the answer per partition, in the order of the request.
        leaders, followers: what was applied, for the record.
        follow: partitions to begin fetching, at a new leader epoch or with a new topic id.
        leaderless: would-be followers whose leader nobody has heard of; they keep their old epoch (BK-9).
    """

    changed: dict[TopicPartition, Partition]
    errors: dict[TopicPartition, Errors]
    leaders: tuple[Leadership, ...]
    followers: tuple[Leadership, ...]
    follow: tuple[Partition, ...]
    leaderless: tuple[TopicPartition, ...]


def leader_and_isr_step(
    hosted: HostedPartitions,
    request: LeaderAndIsrRequest,
    *,
    broker_id: int,
    is_alive: Callable[[int], bool],
    now_ms: float,
    admits: Admits,
) -> LeaderAndIsrStep:
    """BK-4 to BK-9: judge every partition in the order of the request, then lead, then follow."""
    changed: dict[TopicPartition, Partition] = {}
    errors: dict[TopicPartition, Errors] = {}
    to_lead: list[tuple[Partition, LeaderAndIsrPartitionState, TopicId]] = []
    to_follow: list[tuple[Partition, LeaderAndIsrPartitionState, TopicId]] = []
    follow: list[Partition] = []
    for topic, topic_id, states in leader_and_isr_topics(request):
        for state in states:
            topic_partition = TopicPartition(topic, state.partition_index)
            known = hosted.get(topic_partition)
            partition = Partition(topic_partition=topic_partition) if known is None else known
            if known is None:
                changed[topic_partition] = partition
            error, newer = _judge(partition, state, topic_id, broker_id, admits)
            errors[topic_partition] = error
            if newer:
                (to_lead if state.leader == broker_id else to_follow).append((partition, state, topic_id))
            elif error is Errors.NONE:
                # The epoch is known, the topic id is new or gone: a follower fetches by id or by name from now on.
                renamed = _with_topic_id(partition, topic_id)
                changed[topic_partition] = renamed
                if renamed.role is Role.FOLLOWER:
                    follow.append(renamed)

    leaders = tuple(_lead(to_lead, changed, now_ms))
    followers, started, leaderless = _follow(to_follow, changed, is_alive)
    return LeaderAndIsrStep(changed, errors, leaders, followers, (*follow, *started), leaderless)


def _judge(
    partition: Partition, state: LeaderAndIsrPartitionState, topic_id: TopicId, broker_id: int, admits: Admits
) -> tuple[Errors, bool]:
    """The answer for one partition, and whether its state is to be applied (BK-5, BK-6)."""
    id_known, id_given = partition.topic_id != NO_TOPIC_ID, topic_id != NO_TOPIC_ID
    if id_known and id_given and topic_id != partition.topic_id:
        return Errors.INCONSISTENT_TOPIC_ID, False
    if state.leader_epoch == partition.leader_epoch:
        changes_id = (id_given and not id_known) or (id_known and not id_given and state.leader != broker_id)
        return (Errors.NONE if changes_id else Errors.STALE_CONTROLLER_EPOCH), False
    # Only what is older is stale. The same epoch once more is a repetition, and every new controller repeats them all.
    older = state.leader_epoch < partition.leader_epoch
    if older and not admits(partition.topic_partition, state.leader_epoch, partition.leader_epoch):
        return Errors.STALE_CONTROLLER_EPOCH, False
    if broker_id not in state.replicas:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION, False
    return Errors.NONE, True


def _with_topic_id(partition: Partition, topic_id: TopicId) -> Partition:
    return msgspec.structs.replace(partition, topic_id=topic_id)


def _lead(
    to_lead: Iterable[tuple[Partition, LeaderAndIsrPartitionState, TopicId]],
    changed: dict[TopicPartition, Partition],
    now_ms: float,
) -> Iterable[Leadership]:
    for partition, state, topic_id in to_lead:
        if state.partition_epoch < partition.partition_epoch:
            continue  # an AlterPartition answer has told us something newer already
        changed[partition.topic_partition] = made_leader(partition, state, topic_id, now_ms)
        yield leadership_of(partition, state)


def _follow(
    to_follow: Iterable[tuple[Partition, LeaderAndIsrPartitionState, TopicId]],
    changed: dict[TopicPartition, Partition],
    is_alive: Callable[[int], bool],
) -> tuple[tuple[Leadership, ...], tuple[Partition, ...], tuple[TopicPartition, ...]]:
    applied: list[Leadership] = []
    started: list[Partition] = []
    leaderless: list[TopicPartition] = []
    for partition, state, topic_id in to_follow:
        if not is_alive(state.leader):
            leaderless.append(partition.topic_partition)
        elif state.partition_epoch >= partition.partition_epoch:
            follower = made_follower(partition, state, topic_id)
            changed[partition.topic_partition] = follower
            started.append(follower)
            applied.append(leadership_of(partition, state))
    return tuple(applied), tuple(started), tuple(leaderless)


class StopReplicaStep(NamedTuple):
    """What a StopReplica changes: `accepted` are (partition, leader epoch, delete), hosted or not."""

    errors: dict[TopicPartition, Errors]
    accepted: tuple[tuple[TopicPartition, int, bool], ...]


def stop_replica_step(hosted: HostedPartitions, request: StopReplicaRequest, *, admits: Admits) -> StopReplicaStep:
    """BK-14: an epoch that is not older, or none, or the one of a deletion. Of a partition named twice, the last
    counts."""
    errors: dict[TopicPartition, Errors] = {}
    accepted: list[tuple[TopicPartition, int, bool]] = []
    asked = {partition: (leader_epoch, delete) for partition, leader_epoch, delete in stopped_replicas(request)}
    for topic_partition, (leader_epoch, delete) in asked.items():
        known = hosted.get(topic_partition)
        bypasses = leader_epoch in (EPOCH_DURING_DELETE, NO_LEADER_EPOCH)
        if known is None or bypasses or leader_epoch >= known.leader_epoch:
            current = True
        else:
            current = admits(topic_partition, leader_epoch, known.leader_epoch)
        errors[topic_partition] = Errors.NONE if current else Errors.FENCED_LEADER_EPOCH
        if current:
            accepted.append((topic_partition, leader_epoch, delete))
    return StopReplicaStep(errors, tuple(accepted))


def leader_and_isr_topics(
    request: LeaderAndIsrRequest,
) -> Iterable[tuple[str, TopicId, tuple[LeaderAndIsrPartitionState, ...]]]:
    """Topics with their partitions, of any version: 0 and 1 name the topic in each partition."""
    for topic in request.topic_states:
        yield topic.topic_name, topic.topic_id, topic.partition_states
    for state in request.ungrouped_partition_states:
        yield state.topic_name, NO_TOPIC_ID, (state,)


def stopped_replicas(request: StopReplicaRequest) -> Iterable[tuple[TopicPartition, int, bool]]:
    """(partition, leader epoch, delete) of any version: before 3 one flag held for the whole request, without
    epochs."""
    for state in request.topic_states:
        for partition in state.partition_states:
            yield (
                TopicPartition(state.topic_name, partition.partition_index),
                partition.leader_epoch,
                partition.delete_partition,
            )
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield TopicPartition(topic.name, index), NO_LEADER_EPOCH, request.delete_partitions
    for ungrouped in request.ungrouped_partitions:
        topic_partition = TopicPartition(ungrouped.topic_name, ungrouped.partition_index)
        yield topic_partition, NO_LEADER_EPOCH, request.delete_partitions


class FetcherManager(Protocol):
    """What the replica manager asks of the fetchers."""

    def follow(self, partitions: Iterable[Partition]) -> None: ...

    def stop(self, partitions: Iterable[TopicPartition]) -> None: ...


class ReplicaManager:
    """The partitions this broker hosts; one owner, changed only by the running step."""

    def __init__(self, broker_id: int, *, fences: Fences, fetchers: FetcherManager) -> None:
        self.broker_id = broker_id
        self.controller_epoch = 0
        self.partitions: dict[TopicPartition, Partition] = {}
        self.followers: dict[TopicPartition, dict[int, FollowerState]] = {}
        self._fences = fences
        self._fetchers = fetchers
        self._changed = asyncio.Event()

    def become_leader_or_follower(
        self, request: LeaderAndIsrRequest, *, is_alive: Callable[[int], bool], now_ms: float
    ) -> LeaderAndIsrStep:
        step = leader_and_isr_step(
            self.partitions,
            request,
            broker_id=self.broker_id,
            is_alive=is_alive,
            now_ms=now_ms,
            admits=self._leader_epoch_fence("LeaderAndIsr"),
        )
        self._fetchers.stop(step.changed)
        for topic_partition, partition in step.changed.items():
            self._forget_or_keep_followers(topic_partition, partition, now_ms)
            self.partitions[topic_partition] = partition
        self._fetchers.follow(step.follow)
        self._tell_waiting()
        return step

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaStep:
        """BK-15: fetching ends; with `delete` the partition is forgotten, and there is no log to remove."""
        step = stop_replica_step(self.partitions, request, admits=self._leader_epoch_fence("StopReplica"))
        self._fetchers.stop(topic_partition for topic_partition, _, _ in step.accepted)
        for topic_partition, _, delete in step.accepted:
            if delete:
                self.partitions.pop(topic_partition, None)
                self.followers.pop(topic_partition, None)
        self._tell_waiting()
        return step

    def replace(self, partition: Partition) -> None:
        """Put a partition whose ISR has moved in place of its former self."""
        self.partitions[partition.topic_partition] = partition

    async def wait_for_change(self) -> None:
        """Until a control request has changed something here; callers bound the wait."""
        await self._changed.wait()

    def _forget_or_keep_followers(self, topic_partition: TopicPartition, partition: Partition, now_ms: float) -> None:
        followers = self.followers.get(topic_partition)
        before = self.partitions.get(topic_partition)
        if followers is None:
            return
        if partition.is_leader and before is not None and before.is_leader:
            self.followers[topic_partition] = followers_after_election(followers, partition, now_ms)
        else:
            del self.followers[topic_partition]

    def _tell_waiting(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _leader_epoch_fence(self, api: str) -> Admits:
        def admits(topic_partition: TopicPartition, offered: int, known: int) -> bool:
            return not self._fences.record_hit(
                Fence.BROKER_LEADER_EPOCH, what=f"{api} {topic_partition}", offered=offered, known=known
            )

        return admits
