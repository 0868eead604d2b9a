"""The partitions this broker hosts, and how control requests change them. Mirrors `kafka.server.ReplicaManager`.

`leader_and_isr_step` and `stop_replica_step` decide: hosted partitions and a request go in, and what changes and what
is answered comes out; they change nothing. `ReplicaManager` owns the partitions and applies a step as a whole, without
waiting, so that two control requests never interleave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from brokers.log.partition_log import EMPTY_LOG, PartitionLog
from brokers.replication.delayed_operations import DelayedOperationPurgatory
from brokers.replication.partition import (
    LocalPartitionState,
    Partition,
    Role,
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

RefusesStaleEpoch = Callable[[TopicPartition, int, int], bool]
"""Whether an older leader epoch is refused: takes the partition, the epoch offered and the epoch known."""

HostedPartitions = Mapping[TopicPartition, Partition]


class LeaderAndIsrStep(NamedTuple):
    """What a LeaderAndIsr request changes, and its answer.

    Attributes:
        changed: the states of partitions afterwards.
        errors: the answer per partition, in the order of the request.
        leaders, followers: what was applied, for the event log.
        follow: the partitions to fetch from now on, at a new leader epoch or with a new topic id.
        leaderless: partitions to follow whose leader is not alive; they keep their old leader epoch (BK-9).
    """

    changed: dict[TopicPartition, LocalPartitionState]
    errors: dict[TopicPartition, Errors]
    leaders: tuple[Leadership, ...]
    followers: tuple[Leadership, ...]
    follow: tuple[TopicPartition, ...]
    leaderless: tuple[TopicPartition, ...]


_Requested: TypeAlias = tuple[LocalPartitionState, LeaderAndIsrPartitionState, TopicId]
"""The state of a partition so far, and the one that a LeaderAndIsr request has for it, with the topic's id."""


class _Verdict(NamedTuple):
    """The answer for one partition, and what is done with it."""

    error: Errors
    is_newer: bool = False
    """The leader epoch is newer: the whole state is to be applied."""
    changes_topic_id: bool = False
    """The leader epoch is known; only the topic id is to be applied."""


_NEWER = _Verdict(Errors.NONE, is_newer=True)
_NEW_TOPIC_ID = _Verdict(Errors.NONE, changes_topic_id=True)
_STALE = _Verdict(Errors.STALE_CONTROLLER_EPOCH)
_OTHER_TOPIC_ID = _Verdict(Errors.INCONSISTENT_TOPIC_ID)
_NOT_ASSIGNED = _Verdict(Errors.UNKNOWN_TOPIC_OR_PARTITION)


def leader_and_isr_step(
    hosted: HostedPartitions,
    request: LeaderAndIsrRequest,
    *,
    broker_id: int,
    is_alive: Callable[[int], bool],
    now_ms: float,
    refuses: RefusesStaleEpoch,
) -> LeaderAndIsrStep:
    """Judge every partition in the order of the request; then become leader, then follower (BK-4 to BK-9)."""
    changed: dict[TopicPartition, LocalPartitionState] = {}
    errors: dict[TopicPartition, Errors] = {}
    to_lead: list[_Requested] = []
    to_follow: list[_Requested] = []
    follow: list[TopicPartition] = []
    for topic, topic_id, states in leader_and_isr_topics(request):
        for state in states:
            topic_partition = TopicPartition(topic, state.partition_index)
            known = hosted.get(topic_partition)
            if known is None:
                before = changed[topic_partition] = LocalPartitionState(topic_partition=topic_partition)
            else:
                before = known.state
            verdict = _judge(before, state, topic_id, broker_id, refuses)
            errors[topic_partition] = verdict.error
            if verdict.is_newer:
                (to_lead if state.leader == broker_id else to_follow).append((before, state, topic_id))
            elif verdict.changes_topic_id:
                # A follower fetches by topic id, or by name, from now on.
                changed[topic_partition] = msgspec.structs.replace(before, topic_id=topic_id)
                if before.role is Role.FOLLOWER:
                    follow.append(topic_partition)

    leaders = tuple(_make_leaders(to_lead, changed, now_ms))
    followers, started, leaderless = _make_followers(to_follow, changed, is_alive)
    return LeaderAndIsrStep(changed, errors, leaders, followers, (*follow, *started), leaderless)


def _judge(
    before: LocalPartitionState,
    state: LeaderAndIsrPartitionState,
    topic_id: TopicId,
    broker_id: int,
    refuses: RefusesStaleEpoch,
) -> _Verdict:
    """Compare topic id and leader epoch of one partition with what is known (BK-5, BK-6)."""
    id_known, id_given = before.topic_id != NO_TOPIC_ID, topic_id != NO_TOPIC_ID
    if id_known and id_given and topic_id != before.topic_id:
        return _OTHER_TOPIC_ID
    if state.leader_epoch == before.leader_epoch:
        gains_id = id_given and not id_known
        loses_id = id_known and not id_given and state.leader != broker_id
        return _NEW_TOPIC_ID if gains_id or loses_id else _STALE
    # An equal epoch is no hit of the fence: every new controller repeats what is known.
    is_older = state.leader_epoch < before.leader_epoch
    if is_older and refuses(before.topic_partition, state.leader_epoch, before.leader_epoch):
        return _STALE
    if broker_id not in state.replicas:
        return _NOT_ASSIGNED
    return _NEWER


def _make_leaders(
    to_lead: Iterable[_Requested], changed: dict[TopicPartition, LocalPartitionState], now_ms: float
) -> Iterator[Leadership]:
    for before, state, topic_id in to_lead:
        if state.partition_epoch < before.partition_epoch:
            continue  # an AlterPartition answer has brought a newer ISR already
        topic_partition = before.topic_partition
        changed[topic_partition] = made_leader(before, state, topic_id, now_ms)
        yield leadership_of(state, topic_partition)


def _make_followers(
    to_follow: Iterable[_Requested],
    changed: dict[TopicPartition, LocalPartitionState],
    is_alive: Callable[[int], bool],
) -> tuple[tuple[Leadership, ...], tuple[TopicPartition, ...], tuple[TopicPartition, ...]]:
    """The entries of those that follow now, those to fetch, and those whose leader is not alive."""
    applied: list[Leadership] = []
    started: list[TopicPartition] = []
    leaderless: list[TopicPartition] = []
    for before, state, topic_id in to_follow:
        topic_partition = before.topic_partition
        if not is_alive(state.leader):
            leaderless.append(topic_partition)
        elif state.partition_epoch >= before.partition_epoch:
            changed[topic_partition] = made_follower(before, state, topic_id)
            started.append(topic_partition)
            applied.append(leadership_of(state, topic_partition))
    return tuple(applied), tuple(started), tuple(leaderless)


class StoppedReplica(NamedTuple):
    """One partition of a StopReplica request."""

    topic_partition: TopicPartition
    leader_epoch: int
    delete: bool


class StopReplicaStep(NamedTuple):
    """The answer to a StopReplica request, and the replicas to stop, hosted or not."""

    errors: dict[TopicPartition, Errors]
    accepted: tuple[StoppedReplica, ...]


def stop_replica_step(
    hosted: HostedPartitions, request: StopReplicaRequest, *, refuses: RefusesStaleEpoch
) -> StopReplicaStep:
    """Accept a leader epoch that is not older than the known one, none, or the one that deletions carry (BK-14).

    Of a partition that the request names twice, the last entry counts.
    """
    errors: dict[TopicPartition, Errors] = {}
    accepted: list[StoppedReplica] = []
    requested = {stopped.topic_partition: stopped for stopped in stopped_replicas(request)}
    for topic_partition, stopped in requested.items():
        known = hosted.get(topic_partition)
        bypasses = stopped.leader_epoch in (EPOCH_DURING_DELETE, NO_LEADER_EPOCH)
        if known is None or bypasses or stopped.leader_epoch >= known.leader_epoch:
            is_current = True
        else:
            is_current = not refuses(topic_partition, stopped.leader_epoch, known.leader_epoch)
        errors[topic_partition] = Errors.NONE if is_current else Errors.FENCED_LEADER_EPOCH
        if is_current:
            accepted.append(stopped)
    return StopReplicaStep(errors, tuple(accepted))


def leader_and_isr_topics(
    request: LeaderAndIsrRequest,
) -> Iterator[tuple[str, TopicId, tuple[LeaderAndIsrPartitionState, ...]]]:
    """The topics of a request of any version, with their partitions. Versions 0 and 1 name the topic per partition."""
    for topic in request.topic_states:
        yield topic.topic_name, topic.topic_id, topic.partition_states
    for state in request.ungrouped_partition_states:
        yield state.topic_name, NO_TOPIC_ID, (state,)


def stopped_replicas(request: StopReplicaRequest) -> Iterator[StoppedReplica]:
    """The partitions of a request of any version. Before version 3 there are no leader epochs, and one flag for all."""
    for state in request.topic_states:
        for partition in state.partition_states:
            topic_partition = TopicPartition(state.topic_name, partition.partition_index)
            yield StoppedReplica(topic_partition, partition.leader_epoch, partition.delete_partition)
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield StoppedReplica(TopicPartition(topic.name, index), NO_LEADER_EPOCH, request.delete_partitions)
    for ungrouped in request.ungrouped_partitions:
        topic_partition = TopicPartition(ungrouped.topic_name, ungrouped.partition_index)
        yield StoppedReplica(topic_partition, NO_LEADER_EPOCH, request.delete_partitions)


class FetcherManager(Protocol):
    """What the replica manager needs of `ReplicaFetcherManager`."""

    def follow(self, partitions: Iterable[Partition]) -> None:
        """Fetch `partitions` from their leaders."""

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch `partitions` no more."""


def _empty_log(_: TopicPartition) -> PartitionLog:
    return EMPTY_LOG


class ReplicaManager:
    """Owns the partitions this broker hosts. They change only within a call of a method, never across a wait.

    Args:
        open_log: this broker's log of a partition that it has just been assigned.

    Attributes:
        controller_epoch: the highest epoch of a controller that this broker has accepted a request from.
        delayed_fetches: the Fetch requests that wait for their partitions.
    """

    def __init__(
        self,
        broker_id: int,
        *,
        fences: Fences,
        fetchers: FetcherManager,
        open_log: Callable[[TopicPartition], PartitionLog] = _empty_log,
    ) -> None:
        self.broker_id = broker_id
        self.controller_epoch = 0
        self.delayed_fetches = DelayedOperationPurgatory()
        self._partitions: dict[TopicPartition, Partition] = {}
        self._fences = fences
        self._fetchers = fetchers
        self._open_log = open_log

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        return self._partitions

    def become_leader_or_follower(
        self, request: LeaderAndIsrRequest, *, is_alive: Callable[[int], bool], now_ms: float
    ) -> LeaderAndIsrStep:
        """Apply a LeaderAndIsr request: its states, then fetching, then the requests that wait for its partitions."""
        step = leader_and_isr_step(
            self._partitions,
            request,
            broker_id=self.broker_id,
            is_alive=is_alive,
            now_ms=now_ms,
            refuses=self._leader_epoch_fence("LeaderAndIsr"),
        )
        self._fetchers.stop(step.changed)
        for topic_partition, state in step.changed.items():
            partition = self._partitions.get(topic_partition)
            if partition is None:
                log = self._open_log(topic_partition)
                self._partitions[topic_partition] = Partition(state, log, log.log_end_offset)
            else:
                partition.apply(state, now_ms)
        self._fetchers.follow(self._partitions[topic_partition] for topic_partition in step.follow)
        self.delayed_fetches.check_and_complete(step.changed)
        return step

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaStep:
        """Apply a StopReplica request: fetching ends, and with `delete` the partition is hosted no more (BK-15)."""
        step = stop_replica_step(self._partitions, request, refuses=self._leader_epoch_fence("StopReplica"))
        self._fetchers.stop(stopped.topic_partition for stopped in step.accepted)
        for stopped in step.accepted:
            if stopped.delete:
                self._partitions.pop(stopped.topic_partition, None)
        self.delayed_fetches.check_and_complete(stopped.topic_partition for stopped in step.accepted)
        return step

    def _leader_epoch_fence(self, api: str) -> RefusesStaleEpoch:
        def refuses(topic_partition: TopicPartition, offered: int, known: int) -> bool:
            return self._fences.record_hit(
                Fence.BROKER_LEADER_EPOCH, what=f"{api} {topic_partition}", offered=offered, known=known
            )

        return refuses
