"""Records of the controller: its events, its election, and the states it writes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TypeAlias

from understudy.foundation.eventlog.record_types.base import Leadership, RecordPayload, Refused, Transition


class _EventRecord(RecordPayload, frozen=True, kw_only=True, gc=False):
    """The base class of the records of controller events."""

    event_id: int
    """Numbers the events of this incarnation, from 1."""
    event: str
    """Kafka's name of the event, for example `BrokerChange`."""


class EventQueued(_EventRecord, frozen=True, kw_only=True, gc=False):
    """Written by the controller's event manager when an event enters its queue."""


class EventStarted(_EventRecord, frozen=True, kw_only=True, gc=False):
    """Written by the controller's event manager when it begins to process an event; `cause` is the `EventQueued`."""

    queued_ms: float
    """How long the event waited in the queue, in milliseconds."""


class EventEnded(_EventRecord, frozen=True, kw_only=True, gc=False):
    """Written by the controller's event manager when it has processed an event; `cause` is the `EventStarted`."""

    took_ms: float
    """How long processing took, in milliseconds."""
    outcome: str = "done"
    """`done`; `inactive`: this broker is not the controller; `moved`: it lost that role to another; or the class of the
    exception."""


class EventPreempted(_EventRecord, frozen=True, kw_only=True, gc=False):
    """Written by the controller's event manager when it discards an event, waiting or in progress; `cause` is the
    `EventQueued`."""


class ControllerElected(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a broker when it has won the controller election, before it reads the cluster's state. In the import
    of a KRaft cluster: at the LeaderChange record with which a leader of the quorum begins its epoch."""

    broker_id: int
    """The broker that is now the controller: the writer."""
    epoch: int
    """Its controller epoch."""
    epoch_zk_version: int
    """The version of `/controller_epoch` that its writes check; −1 in a KRaft cluster."""
    session_id: int
    """The ZooKeeper session that owns `/controller`; 0 if an imported log does not name it, and in a KRaft cluster."""


class ElectionLost(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a broker when another broker won the controller election."""

    winner: int
    """Broker id of the controller; −1 when `/controller` was already gone again."""


class ControllerReady(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a new controller when its failover is complete: every request of it is in a channel. In the import of
    a KRaft cluster: at the first batch of its epoch that it wrote as the controller, so it was active by then."""

    epoch: int
    """Its controller epoch."""
    brokers: tuple[int, ...]
    """Ids of the live brokers, those shutting down included."""
    topics: int
    """How many topics the cluster has."""
    partitions: int
    """How many partitions the cluster has; −1 if an imported log does not state it."""
    took_ms: float
    """How long the failover took from the election on, in milliseconds."""


class ControllerResigned(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a controller when it gives up the role."""

    epoch: int
    """The controller epoch that ends."""
    why: str
    """The reason, in words; empty if an imported log does not state it."""


def leadership_digest(states: Iterable[tuple[str, int, int, int, Iterable[int], int]]) -> str:
    """Return the CRC-32, in hexadecimal, of partition states ordered by topic and partition.

    It belongs to the format of `ContextAtIdle`: a comparison has to compute it in the same way.

    Args:
        states: (topic, partition, leader, leader epoch, ISR, partition epoch) of each partition.
    """
    checksum = 0
    for topic, partition, leader, leader_epoch, isr, partition_epoch in sorted(states, key=lambda state: state[:2]):
        line = f"{topic} {partition} {leader} {leader_epoch} {','.join(map(str, isr))} {partition_epoch}\n"
        checksum = zlib.crc32(line.encode(), checksum)
    return f"{checksum:08x}"


class ContextAtIdle(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the controller when its event queue is empty and its context has changed, unless the cluster is large.

    Checkers compare it with ZooKeeper (C6).
    """

    epoch: int
    """The controller epoch."""
    live_brokers: tuple[tuple[int, int], ...]
    """(broker id, broker epoch) of every live broker, sorted."""
    leadership_digest: str
    """CRC-32, in hexadecimal, of the leader and ISR of every partition in the context; see `leadership_digest`."""


class BrokersChanged(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the controller when the registrations in `/brokers/ids` differ from its live brokers. In the import of
    a KRaft cluster: when it fences or unfences brokers; those that are not fenced are live."""

    new: tuple[int, ...]
    """Ids of brokers that registered."""
    dead: tuple[int, ...]
    """Ids of brokers whose registration is gone, or that are fenced."""
    bounced: tuple[int, ...]
    """Ids of brokers that registered again, with a new broker epoch, before the controller saw them gone."""
    live: tuple[int, ...]
    """Ids of all registered brokers."""


class TopicsChanged(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the controller when topics appear in or disappear from `/brokers/topics`, or from the metadata of a
    KRaft cluster."""

    new: tuple[str, ...]
    """Names of the topics that appeared."""
    deleted: tuple[str, ...]
    """Names of the topics that disappeared."""


class PartitionsMoved(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the controller's partition state machine when partitions enter a state."""

    target: str
    """Kafka's name of the state entered, for example `OnlinePartition`."""
    partitions: tuple[Transition, ...]
    """The partitions, each with the state it left."""


class ReplicasMoved(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the controller's replica state machine when replicas enter a state."""

    target: str
    """Kafka's name of the state entered, for example `OfflineReplica`."""
    replicas: tuple[Transition, ...]
    """The replicas, each with the state it left."""


class InvalidTransition(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a state machine of the controller when it refuses a state change that Kafka's tables do not allow."""

    target: str
    """Kafka's name of the state that was to be entered."""
    source: str
    """Kafka's name of the state that is kept."""
    topic: str
    """The topic's name."""
    partition: int
    """The partition's number in the topic, from 0."""
    replica: int = -1
    """Broker id of the replica; −1 if the state is the partition's."""


class LeadershipWritten(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the controller when ZooKeeper, or the quorum of a KRaft cluster, has accepted new partition states."""

    why: str
    """`initialise`, `offline`, `unclean`, `preferred`, `reassignment`, `controlled-shutdown`, `isr-removal` or
    `alter-partition`; empty if an imported log does not state it."""
    partitions: tuple[Leadership, ...]
    """The states as ZooKeeper or the quorum now holds them."""


class LeadershipNotWritten(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the controller for partitions whose state stays as it was: no leader was found, or ZooKeeper refused
    the write.

    Version 0.1.0 wrote this record as `LeaderElectionFailed`.
    """

    why: str
    """As in `LeadershipWritten`."""
    partitions: tuple[Refused, ...]
    """The partitions, each with its error."""


class ContextLoaded(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a new controller when it has read the cluster's state from ZooKeeper. In the import of a KRaft
    cluster: for the snapshot with which the log begins."""

    epoch: int
    """Its controller epoch."""
    live_brokers: tuple[tuple[int, int], ...]
    """(broker id, broker epoch) of every live broker, sorted."""
    partitions: tuple[Leadership, ...]
    """The leader and ISR of every partition that has a state znode; in an imported log, as far as it has named them."""
    took_ms: float
    """How long reading took, in milliseconds."""


ControllerRecord: TypeAlias = (
    EventQueued
    | EventStarted
    | EventEnded
    | EventPreempted
    | ControllerElected
    | ElectionLost
    | ControllerReady
    | ControllerResigned
    | ContextAtIdle
    | BrokersChanged
    | TopicsChanged
    | PartitionsMoved
    | ReplicasMoved
    | InvalidTransition
    | LeadershipWritten
    | LeadershipNotWritten
    | ContextLoaded
)
