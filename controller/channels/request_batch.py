"""Builds the control requests of one transition, grouped by broker. Mirrors `ControllerBrokerRequestBatch`.

Pure: a batch reads the context and returns requests as values. It is made for one transition and then dropped, so that
a failed one leaves nothing behind for the next (Kafka's shared batch does, BUG-9).

The order is Kafka's: every LeaderAndIsr, then every UpdateMetadata, then every StopReplica (RB-2). They carry what the
context holds when `requests` is called, except for the leader epoch of a StopReplica, which is taken when it is added:
a replica is stopped at the epoch from before it left the ISR (RB-4).

A takeover sends every partition to every broker. So each partition's state is built once and shared by all requests
that carry it; the list in UpdateMetadata is one object for all brokers, and so is that in LeaderAndIsr for brokers with
equal lists. They also share their encoded bytes (`shared_body`).

`inter.broker.protocol.version` decides the version of each request; the form of an older version is made last
(`request_shapes`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec.structs import replace

from understudy.controller.channels.request_shapes import ControlMessage, split_by_deletion
from understudy.controller.channels.shared_body import SharedBody
from understudy.controller.context import ControllerContext
from understudy.foundation.cluster.assignment import NO_ASSIGNMENT, those_not_in
from understudy.foundation.cluster.broker import Broker
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from understudy.foundation.cluster.leadership import LEADER_DURING_DELETE, LeaderRecoveryState
from understudy.foundation.cluster.metadata_version import LATEST_PRODUCTION, MetadataVersion
from understudy.foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from understudy.foundation.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

State = TypeVar("State")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequest:
    """One request for one registration of one broker."""

    broker_id: BrokerId
    broker_epoch: int
    message: ControlMessage
    """In the form of the newest version, whatever `version` is."""
    version: int
    partitions: int
    body: SharedBody | None = field(default=None, compare=False, repr=False)
    """The bytes of `message` without the broker epoch, if other brokers are sent the same; None otherwise."""


class LastUpdateMetadata:
    """The UpdateMetadata request that was built last, for a transition of the same event that needs an equal one.

    A broker that returns is sent every partition twice: before its replicas are online, so that it knows their leaders,
    and afterwards, with all other brokers. If nothing has changed in between, the request is built and encoded once.
    """

    def __init__(self) -> None:
        self._made_from: tuple[object, ...] | None = None
        self._built: tuple[UpdateMetadataRequest, SharedBody] | None = None

    def get(
        self, made_from: tuple[object, ...], build: Callable[[], tuple[UpdateMetadataRequest, SharedBody]]
    ) -> tuple[UpdateMetadataRequest, SharedBody]:
        """Return the last request if it was made from equal input; otherwise build one and keep it."""
        if self._built is None or made_from != self._made_from:
            self._made_from, self._built = made_from, build()
        return self._built

    def forget(self) -> None:
        """Drop the request; call it at the end of each event, because it may take many megabytes."""
        self._made_from = self._built = None


@dataclass(slots=True)
class RequestBatch:
    """The requests of one transition: add to it, then call `requests` once.

    Args:
        controller_id: the sender.
        listener: the listener of connections between brokers: LeaderAndIsr carries its endpoint of each leader.
        metadata_version: the controller's `inter.broker.protocol.version`.
        last_update_metadata: shared by the batches of one event.
    """

    context: ControllerContext
    controller_id: BrokerId
    listener: str
    metadata_version: MetadataVersion = LATEST_PRODUCTION
    last_update_metadata: LastUpdateMetadata = field(default_factory=LastUpdateMetadata)
    _leader_and_isr: dict[BrokerId, dict[TopicPartition, bool]] = field(default_factory=dict)
    """By broker and partition, whether the partition is new there."""
    _update_metadata_brokers: set[BrokerId] = field(default_factory=set)
    _update_all_brokers: bool = False
    _update_metadata: dict[TopicPartition, None] = field(default_factory=dict)
    _stop_replica: dict[BrokerId, dict[TopicPartition, StopReplicaPartitionState]] = field(default_factory=dict)

    def add_leader_and_isr(
        self, brokers: Iterable[BrokerId], partition: TopicPartition, *, is_new: bool = False
    ) -> None:
        """Add LeaderAndIsr to `brokers`, and UpdateMetadata to all (RB-3). A partition added as new stays new for that
        broker."""
        for broker in brokers:
            if (news := self._leader_and_isr.get(broker)) is None:
                news = self._leader_and_isr[broker] = {}
            if is_new:
                news[partition] = True
            else:
                news.setdefault(partition, False)
        self._update_metadata[partition] = None
        self._update_all_brokers = True

    def add_all_leader_and_isr(self, broker: BrokerId, partitions: Sequence[TopicPartition]) -> None:
        """Add LeaderAndIsr of many partitions, new on none of them, to one broker: faster than `add_leader_and_isr` for
        each."""
        news = dict.fromkeys(partitions, False)
        if known := self._leader_and_isr.get(broker):
            news = known | {partition: False for partition in news if partition not in known}
        self._leader_and_isr[broker] = news
        self._update_metadata.update(dict.fromkeys(partitions))
        self._update_all_brokers = True

    def add_update_metadata(self, brokers: Iterable[BrokerId], partitions: Iterable[TopicPartition] = ()) -> None:
        """Add UpdateMetadata to `brokers` (RB-5). Each receives all partitions of the batch; without any, the live
        brokers."""
        self._update_metadata_brokers.update(brokers)
        self._update_metadata.update(dict.fromkeys(partitions))

    def add_stop_replica(self, broker: BrokerId, partitions: Iterable[TopicPartition], *, delete: bool) -> None:
        """Add StopReplica to a registered broker (RB-6). A replica added with deletion stays so (RB-4)."""
        if self.context.broker_epoch(broker) is None:
            return
        states, leader_epoch = self._stop_replica.setdefault(broker, {}), self.context.leader_epoch
        for partition in partitions:
            known = states.get(partition)
            states[partition] = StopReplicaPartitionState(
                partition_index=partition.partition,
                leader_epoch=leader_epoch(partition),
                delete_partition=delete or (known is not None and known.delete_partition),
            )

    def requests(self) -> list[ControlRequest]:
        """Return all requests in the order in which they must be queued. Brokers that are not registered get none
        (RB-6)."""
        return [*self._leader_and_isr_requests(), *self._update_metadata_requests(), *self._stop_replica_requests()]

    # -- LeaderAndIsr

    def _leader_and_isr_requests(self) -> Iterable[ControlRequest]:
        version = self.metadata_version.leader_and_isr_version
        built: dict[bool, dict[TopicPartition, LeaderAndIsrPartitionState]] = {True: {}, False: {}}
        shared: list[tuple[dict[TopicPartition, bool], LeaderAndIsrRequest, SharedBody]] = []
        for broker in sorted(self._leader_and_isr):
            if (broker_epoch := self.context.broker_epoch(broker)) is None:
                continue
            news = self._leader_and_isr[broker]
            same = next((known for known in shared if known[0] == news), None)
            if same is None:
                topic_states = self._leader_and_isr_topics(news, built)
                message = LeaderAndIsrRequest(
                    controller_id=self.controller_id,
                    controller_epoch=self.context.epoch,
                    broker_epoch=broker_epoch,
                    topic_states=topic_states,
                    live_leaders=self._live_leaders(topic_states),
                )
                same = (news, message, SharedBody(message, version))
                shared.append(same)
            yield ControlRequest(
                broker_id=broker,
                broker_epoch=broker_epoch,
                message=replace(same[1], broker_epoch=broker_epoch),
                version=version,
                partitions=len(news),
                body=same[2],
            )

    def _leader_and_isr_topics(
        self,
        news: Mapping[TopicPartition, bool],
        built: Mapping[bool, dict[TopicPartition, LeaderAndIsrPartitionState]],
    ) -> tuple[LeaderAndIsrTopicState, ...]:
        """Return the states for one broker, by topic.

        Args:
            built: the states built for earlier brokers, by whether they are new. New ones are added: each is built
                once.
        """
        recovers = self.metadata_version.is_leader_recovery_supported
        new, known_before = built[True], built[False]
        by_topic: defaultdict[str, list[LeaderAndIsrPartitionState]] = defaultdict(list)
        for partition, is_new in news.items():
            of_kind = new if is_new else known_before
            state = of_kind.get(partition)
            if state is None:
                state = of_kind[partition] = self._leader_and_isr_state(partition, is_new, recovers)
            by_topic[partition.topic].append(state)
        return tuple(
            LeaderAndIsrTopicState(topic_name=topic, topic_id=self._topic_id(topic), partition_states=tuple(states))
            for topic, states in by_topic.items()
        )

    def _leader_and_isr_state(
        self, partition: TopicPartition, is_new: bool, recovers: bool
    ) -> LeaderAndIsrPartitionState:
        context = self.context
        known, assignment = context.leadership[partition], context.assignments.get(partition, NO_ASSIGNMENT)
        state = known.leader_and_isr
        return LeaderAndIsrPartitionState(
            partition_index=partition.partition,
            controller_epoch=known.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            partition_epoch=state.partition_epoch,
            replicas=assignment.replicas,
            adding_replicas=assignment.adding_replicas,
            removing_replicas=assignment.removing_replicas,
            is_new=is_new,
            leader_recovery_state=state.leader_recovery_state if recovers else LeaderRecoveryState.RECOVERED,
        )

    def _live_leaders(self, topic_states: Iterable[LeaderAndIsrTopicState]) -> tuple[LeaderAndIsrLiveLeader, ...]:
        leaders = {state.leader for topic in topic_states for state in topic.partition_states}
        addressed = (
            (broker, broker.endpoint(self.listener))
            for broker in self.context.live_or_shutting_down_brokers
            if broker.id in leaders
        )
        # Followers cannot reach a leader without the listener; Kafka throws here and never sends another batch.
        return tuple(
            LeaderAndIsrLiveLeader(broker_id=broker.id, host_name=endpoint.host, port=endpoint.port)
            for broker, endpoint in addressed
            if endpoint is not None
        )

    # -- UpdateMetadata

    def _update_metadata_requests(self) -> Iterable[ControlRequest]:
        targets = [
            (broker, broker_epoch)
            for broker, broker_epoch in self.context.live_broker_epochs.items()
            if self._update_all_brokers or broker in self._update_metadata_brokers
        ]
        if not targets:
            return
        version = self.metadata_version.update_metadata_version
        for_all, body = self._update_metadata_for_all(version)
        partitions = sum(len(topic.partition_states) for topic in for_all.topic_states)
        for broker, broker_epoch in targets:
            yield ControlRequest(
                broker_id=broker,
                broker_epoch=broker_epoch,
                message=replace(for_all, broker_epoch=broker_epoch),
                version=version,
                partitions=partitions,
                body=body,
            )

    def _update_metadata_for_all(self, version: int) -> tuple[UpdateMetadataRequest, SharedBody]:
        """Return the request that every broker is sent, but for the broker epoch, and its bytes."""
        context = self.context
        brokers = context.live_or_shutting_down_brokers

        def build() -> tuple[UpdateMetadataRequest, SharedBody]:
            message = UpdateMetadataRequest(
                controller_id=self.controller_id,
                controller_epoch=context.epoch,
                topic_states=self._update_metadata_topics(),
                live_brokers=tuple(_update_metadata_broker(broker) for broker in brokers),
            )
            return message, SharedBody(message, version)

        made_from = (
            context.changes,
            brokers,
            context.live_broker_ids,
            {broker: frozenset(offline) for broker, offline in context.replicas_on_offline_dirs.items()},
            frozenset(context.topics_to_be_deleted),
            version,
            self._update_metadata,
        )
        return self.last_update_metadata.get(made_from, build)

    def _update_metadata_topics(self) -> tuple[UpdateMetadataTopicState, ...]:
        """Return the states for UpdateMetadata, by topic. A partition that has had no leader is left out."""
        context, online = self.context, self.context.online_brokers()
        leadership, assignments, queued = context.leadership, context.assignments, context.topics_to_be_deleted
        by_topic: defaultdict[str, list[UpdateMetadataPartitionState]] = defaultdict(list)
        for partition in self._update_metadata:
            known = leadership.get(partition)
            if known is None:
                continue
            topic, index = partition
            state, replicas = known.leader_and_isr, assignments.get(partition, NO_ASSIGNMENT).replicas
            is_deleted = topic in queued
            by_topic[topic].append(
                UpdateMetadataPartitionState(
                    partition_index=index,
                    controller_epoch=known.controller_epoch,
                    leader=LEADER_DURING_DELETE if is_deleted else state.leader,
                    leader_epoch=0 if is_deleted else state.leader_epoch,
                    isr=state.isr,
                    zk_version=0 if is_deleted else state.partition_epoch,
                    replicas=replicas,
                    offline_replicas=those_not_in(replicas, online.of(partition)),
                )
            )
        return tuple(
            UpdateMetadataTopicState(topic_name=topic, topic_id=self._topic_id(topic), partition_states=tuple(states))
            for topic, states in by_topic.items()
        )

    # -- StopReplica

    def _stop_replica_requests(self) -> Iterable[ControlRequest]:
        version = self.metadata_version.stop_replica_version
        for broker in sorted(self._stop_replica):
            if (broker_epoch := self.context.broker_epoch(broker)) is None:
                continue
            states = self._stop_replica[broker]
            message = StopReplicaRequest(
                controller_id=self.controller_id,
                controller_epoch=self.context.epoch,
                broker_epoch=broker_epoch,
                topic_states=tuple(
                    StopReplicaTopicState(topic_name=topic, partition_states=of_topic)
                    for topic, of_topic in grouped((at.topic, state) for at, state in states.items()).items()
                ),
            )
            for part in split_by_deletion(message, version):
                yield ControlRequest(
                    broker_id=broker,
                    broker_epoch=broker_epoch,
                    message=part,
                    version=version,
                    partitions=sum(len(topic.partition_states) for topic in part.topic_states),
                )

    def _topic_id(self, topic: str) -> TopicId:
        return self.context.topic_ids.get(topic, NO_TOPIC_ID)


def _update_metadata_broker(broker: Broker) -> UpdateMetadataBroker:
    endpoints = tuple(
        UpdateMetadataEndpoint(
            port=endpoint.port,
            host=endpoint.host,
            listener=endpoint.listener,
            security_protocol=endpoint.security_protocol,
        )
        for endpoint in broker.endpoints
    )
    return UpdateMetadataBroker(id=broker.id, endpoints=endpoints, rack=broker.rack)
