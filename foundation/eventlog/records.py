"""Record types of the event log, version 1: what a node says about itself.

A line is an `Envelope` around one payload. The envelope is the same for all: which run, node and incarnation; `seq`,
gap-free from 1 within an incarnation; both clocks in milliseconds; the `seq` of the record that caused this one, if it
was on this node; the newest zxid and controller epoch the node had seen. A cause on another node is found by matching
`RequestReceived` (`client_id`, `correlation_id`) with that node's `RequestSent`.

A released record type never changes its meaning: fields are only added, with a default. Partitions travel as arrays
(one record for a whole batch), because a takeover of 10,000 partitions is one decision, not 10,000.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

RECORD_VERSION = 1


class _Record(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    pass


class Leadership(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One partition's leadership, as an array of eight."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    controller_epoch: int
    leader_recovery_state: int = 0


class Transition(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A partition (replica −1) or replica that left state `source` for the record's target."""

    topic: str
    partition: int
    replica: int
    source: str


class Refused(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A partition with the name of the error it was answered with."""

    topic: str
    partition: int
    error: str


# ------------------------------------------------------------------ the process and its session


class ProcessStarted(_Record, frozen=True, kw_only=True, gc=False):
    role: str
    """`broker`, `testbed`, `simulator` or `client`."""
    broker_id: int = -1
    pid: int = 0
    software: str = ""


class ProcessExiting(_Record, frozen=True, kw_only=True, gc=False):
    reason: str


class TaskFailed(_Record, frozen=True, kw_only=True, gc=False):
    """Something that must not fail did: the broker stops, or gives up the connection it happened on."""

    task: str
    error: str
    """Class and message of the exception, and where it was raised."""


class ConnectionRefused(_Record, frozen=True, kw_only=True, gc=False):
    """A connection was closed for what came over it, or for being one too many."""

    peer: str
    reason: str


class SessionOpened(_Record, frozen=True, kw_only=True, gc=False):
    session_id: int
    timeout_ms: int


class SessionSuspendedRecord(_Record, frozen=True, kw_only=True, gc=False):
    session_id: int


class SessionResumedRecord(_Record, frozen=True, kw_only=True, gc=False):
    session_id: int


class SessionExpiredRecord(_Record, frozen=True, kw_only=True, gc=False):
    session_id: int


class BrokerRegistered(_Record, frozen=True, kw_only=True, gc=False):
    broker_id: int
    broker_epoch: int
    session_id: int


class WatchFiredRecord(_Record, frozen=True, kw_only=True, gc=False):
    path: str
    kind: str


class ZkWrite(_Record, frozen=True, kw_only=True, gc=False):
    """One transaction was sent for; written before it is sent."""

    purpose: str
    """`election`, `registration`, `leader-and-isr`, `create-partitions`, `topic`, `delete` …"""
    paths: tuple[str, ...]
    """The first few paths it changes."""
    operations: int
    fenced: bool
    epoch_zk_version: int = -1


class ZkWriteDone(_Record, frozen=True, kw_only=True, gc=False):
    """Its outcome; `cause` is the `ZkWrite`."""

    outcome: str
    """`Ok`, or the name of a `foundation.zk.client.Failure`."""
    zxid: int = -1


# ------------------------------------------------------------------ the controller


class EventQueued(_Record, frozen=True, kw_only=True, gc=False):
    event_id: int
    event: str


class EventStarted(_Record, frozen=True, kw_only=True, gc=False):
    event_id: int
    event: str
    queued_ms: float


class EventEnded(_Record, frozen=True, kw_only=True, gc=False):
    event_id: int
    event: str
    took_ms: float
    outcome: str = "done"
    """`done`, `inactive`, `moved` (lost the role) or the class of the exception."""


class EventPreempted(_Record, frozen=True, kw_only=True, gc=False):
    event_id: int
    event: str


class ControllerElected(_Record, frozen=True, kw_only=True, gc=False):
    broker_id: int
    epoch: int
    epoch_zk_version: int
    session_id: int


class ElectionLost(_Record, frozen=True, kw_only=True, gc=False):
    winner: int
    """−1 when the winner is gone already."""


class ControllerReady(_Record, frozen=True, kw_only=True, gc=False):
    """Failover is complete: every request of it is in a channel."""

    epoch: int
    brokers: tuple[int, ...]
    topics: int
    partitions: int
    took_ms: float


class ControllerResigned(_Record, frozen=True, kw_only=True, gc=False):
    epoch: int
    why: str


def leadership_digest(states: Iterable[tuple[str, int, int, int, Iterable[int], int]]) -> str:
    """CRC-32 in hex over (topic, partition, leader, leader epoch, ISR, partition epoch) in order of topic and
    partition.

    Half of the format of `ContextAtIdle`: whoever wants to compare has to digest in the same way.
    """
    checksum = 0
    for topic, partition, leader, leader_epoch, isr, partition_epoch in sorted(states, key=lambda state: state[:2]):
        line = f"{topic} {partition} {leader} {leader_epoch} {','.join(map(str, isr))} {partition_epoch}\n"
        checksum = zlib.crc32(line.encode(), checksum)
    return f"{checksum:08x}"


class ContextAtIdle(_Record, frozen=True, kw_only=True, gc=False):
    """What the controller believes when its queue is empty, for C6."""

    epoch: int
    live_brokers: tuple[tuple[int, int], ...]
    """(broker, broker epoch), sorted."""
    leadership_digest: str
    """`leadership_digest` of everything it knows a leadership of."""


class BrokersChanged(_Record, frozen=True, kw_only=True, gc=False):
    new: tuple[int, ...]
    dead: tuple[int, ...]
    bounced: tuple[int, ...]
    live: tuple[int, ...]


class TopicsChanged(_Record, frozen=True, kw_only=True, gc=False):
    new: tuple[str, ...]
    deleted: tuple[str, ...]


class PartitionsMoved(_Record, frozen=True, kw_only=True, gc=False):
    """Partitions entered `target` (`OnlinePartition` …)."""

    target: str
    partitions: tuple[Transition, ...]


class ReplicasMoved(_Record, frozen=True, kw_only=True, gc=False):
    """Replicas entered `target` (`OfflineReplica` …)."""

    target: str
    replicas: tuple[Transition, ...]


class InvalidTransition(_Record, frozen=True, kw_only=True, gc=False):
    target: str
    source: str
    topic: str
    partition: int
    replica: int = -1


class LeadershipWritten(_Record, frozen=True, kw_only=True, gc=False):
    """ZooKeeper accepted these states."""

    why: str
    """`initialise`, `offline`, `unclean`, `preferred`, `reassignment`, `controlled-shutdown`, `isr-removal` or
    `alter-partition`."""
    partitions: tuple[Leadership, ...]


class LeadershipNotWritten(_Record, frozen=True, kw_only=True, gc=False):
    """State changes of partitions that did not reach ZooKeeper: no leader was found, or the write was refused.

    `why` is as in `LeadershipWritten`; version 0.1.0 wrote this record as `LeadershipNotWritten`.
    """

    why: str
    partitions: tuple[Refused, ...]


class ContextLoaded(_Record, frozen=True, kw_only=True, gc=False):
    """A new controller has read the cluster's state."""

    epoch: int
    live_brokers: tuple[tuple[int, int], ...]
    partitions: tuple[Leadership, ...]
    took_ms: float


# ------------------------------------------------------------------ requests between nodes


class RequestSent(_Record, frozen=True, kw_only=True, gc=False):
    to: int
    api: str
    api_version: int
    client_id: str
    correlation_id: int
    controller_epoch: int = -1
    broker_epoch: int = -1
    partitions: int = 0
    event: str = ""
    """The controller event it belongs to."""
    attempt: int = 1


class ResponseReceived(_Record, frozen=True, kw_only=True, gc=False):
    """The answer to a `RequestSent` (its `cause`)."""

    sender: int
    api: str
    client_id: str
    correlation_id: int
    error: str = "NONE"
    refused: tuple[Refused, ...] = ()
    """The first of them, where there are many."""
    took_ms: float = 0.0
    refused_count: int = 0
    """All of them."""


class RequestFailed(_Record, frozen=True, kw_only=True, gc=False):
    """No answer: the connection could not be made, broke or timed out. The request is sent again while the broker
    lives."""

    to: int
    api: str
    client_id: str
    correlation_id: int
    why: str


class ChannelOpened(_Record, frozen=True, kw_only=True, gc=False):
    to: int
    broker_epoch: int


class ChannelClosed(_Record, frozen=True, kw_only=True, gc=False):
    to: int
    broker_epoch: int
    dropped: int
    """Requests that were still queued."""


class RequestReceived(_Record, frozen=True, kw_only=True, gc=False):
    """A control request or an AlterPartition, ControlledShutdown, CreateTopics, ElectLeaders … has been decoded."""

    api: str
    api_version: int
    client_id: str
    correlation_id: int
    controller_epoch: int = -1
    broker_epoch: int = -1


class ResponseSent(_Record, frozen=True, kw_only=True, gc=False):
    api: str
    client_id: str
    correlation_id: int
    error: str = "NONE"


class RequestDetail(_Record, frozen=True, kw_only=True, gc=False):
    """DETAIL: a whole request and its answer, as Kafka's request log shows them."""

    api: str
    api_version: int
    client_id: str
    correlation_id: int
    request: dict[str, object]
    response: dict[str, object]


# ------------------------------------------------------------------ the broker's side


class LeaderAndIsrApplied(_Record, frozen=True, kw_only=True, gc=False):
    """This broker now leads or follows these; only partitions whose epoch was accepted."""

    controller_id: int
    request_controller_epoch: int
    request_broker_epoch: int
    leaders: tuple[Leadership, ...]
    followers: tuple[Leadership, ...]
    live_leaders: tuple[int, ...] = ()
    """The leaders the request gave an address for: those its controller believed alive."""
    leaderless: tuple[tuple[str, int], ...] = ()
    """(topic, partition) it was told to follow, from a leader its metadata cache has not heard of: nothing was
    applied."""


class StopReplicaApplied(_Record, frozen=True, kw_only=True, gc=False):
    controller_id: int
    request_controller_epoch: int
    request_broker_epoch: int
    partitions: tuple[tuple[str, int, int, bool], ...]
    """(topic, partition, leader epoch, delete)."""


class MetadataUpdated(_Record, frozen=True, kw_only=True, gc=False):
    """The metadata cache was replaced. `partitions` holds what this request brought; leader −2 means deleted."""

    controller_id: int
    request_controller_epoch: int
    request_broker_epoch: int
    live_brokers: tuple[int, ...]
    partitions: tuple[Leadership, ...]


class IsrProposed(_Record, frozen=True, kw_only=True, gc=False):
    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    joining: tuple[int, ...]
    leaving: tuple[int, ...]
    leader_end_offset: int
    follower_end_offsets: tuple[tuple[int, int], ...]
    """(replica, log end offset) of those joining."""
    high_watermark: int = 0
    epoch_start_offset: int = 0
    follower_leader_epochs: tuple[tuple[int, int], ...] = ()
    """(replica, leader epoch it fetched at) of those joining; −1 where its Fetch named none."""


class IsrResult(_Record, frozen=True, kw_only=True, gc=False):
    topic: str
    partition: int
    error: str
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


# ------------------------------------------------------------------ fences, points, faults


class FenceHit(_Record, frozen=True, kw_only=True, gc=False):
    fence: str
    what: str
    offered: int
    known: int
    switched_off: bool = False


class PointReached(_Record, frozen=True, kw_only=True, gc=False):
    """An armed point was reached; written before the action strikes."""

    point: str
    action: str
    """`pause` or `crash`."""


class FaultInjected(_Record, frozen=True, kw_only=True, gc=False):
    """The testbed or simulator injected a fault into `target`. Version 0.1.0 wrote this record as `FaultInjected`."""

    fault: str
    """`kill`, `pause`, `continue`, `stop`, `start`, `cut`, `heal`, `expire` …"""
    target: str
    """The node, for example `broker-1`, or a link `broker-1 -> broker-2`."""
    role: str = ""
    """The role it was aimed at, for example `controller`."""


class StepReached(_Record, frozen=True, kw_only=True, gc=False):
    """A scenario came this far; `step` names the story's scene."""

    step: str
    note: str = ""


Payload: TypeAlias = (
    ProcessStarted
    | ProcessExiting
    | TaskFailed
    | ConnectionRefused
    | SessionOpened
    | SessionSuspendedRecord
    | SessionResumedRecord
    | SessionExpiredRecord
    | BrokerRegistered
    | WatchFiredRecord
    | ZkWrite
    | ZkWriteDone
    | EventQueued
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
    | RequestSent
    | ResponseReceived
    | RequestFailed
    | ChannelOpened
    | ChannelClosed
    | RequestReceived
    | ResponseSent
    | RequestDetail
    | LeaderAndIsrApplied
    | StopReplicaApplied
    | MetadataUpdated
    | IsrProposed
    | IsrResult
    | FenceHit
    | PointReached
    | FaultInjected
    | StepReached
)


def _name_of(payload_type: type[Payload]) -> str:
    return payload_type.__name__.removesuffix("Record")


PAYLOAD_BY_TYPE: dict[str, type[Payload]] = {_name_of(payload_type): payload_type for payload_type in Payload.__args__}
"""By the name in the `type` field of a line: the class's name, without the suffix `Record` that tells some of these
classes from the ZooKeeper client's notifications."""

FORMER_TYPE_NAMES: dict[str, str] = {"FaultStruck": "FaultInjected", "LeaderElectionFailed": "LeadershipNotWritten"}
"""Names that version 0.1.0 wrote into the `type` field, with the names that replaced them. Readers accept both."""

_TYPE_NAMES = {payload_type: name for name, payload_type in PAYLOAD_BY_TYPE.items()}


def type_name(payload: Payload) -> str:
    """Return the name of the record type, as written into the `type` field of a line."""
    return _TYPE_NAMES[type(payload)]


class Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of the log, as written."""

    version: int
    run: str
    node: str
    incarnation: int
    seq: int
    mono_ms: float
    wall_ms: float
    type: str
    cause: int | None
    zxid: int
    controller_epoch: int
    data: Payload
