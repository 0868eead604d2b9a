"""Adds records, one at a time, to a picture of the cluster: `fold(picture, record) -> picture`.

The picture has what the records contain and nothing else: the state of each broker, the partition states written to
ZooKeeper, the controller, and the requests without an answer. Its parts may contradict each other, as the brokers do.
`fold` is a pure function and accepts any record in any order, so that a page can show a run at any moment. Pass records
in the order of `foundation.eventlog.order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from foundation.cluster.identifiers import TopicPartition
from foundation.eventlog.records import (
    BrokerRegistered,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    ControllerResigned,
    Envelope,
    EventEnded,
    EventStarted,
    FaultInjected,
    FenceHit,
    LeaderAndIsrApplied,
    Leadership,
    LeadershipWritten,
    MetadataUpdated,
    PointReached,
    ProcessExiting,
    ProcessStarted,
    RequestFailed,
    RequestSent,
    ResponseReceived,
    SessionExpiredRecord,
    SessionOpened,
    StepReached,
    StopReplicaApplied,
    TopicsChanged,
    WatchFiredRecord,
)
from foundation.eventlog.reigns import CONTROLLER
from foundation.eventlog.run_records import broker_node

K = TypeVar("K")
V = TypeVar("V")

_DELETED_LEADER = -2
"""The leader, in `MetadataUpdated`, of a partition of a deleted topic."""


def _nothing() -> Mapping[Any, Any]:
    return MappingProxyType({})


class Life(Enum):
    """The state of a node's process."""

    UNKNOWN = "unknown"
    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"
    """Killed, or ended by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePicture:
    """One node, by its own records and the faults injected into it."""

    life: Life = Life.UNKNOWN
    incarnation: int = 0
    broker_id: int = -1
    """−1 where it is no broker or has not recorded it yet."""
    pid: int = 0
    session_id: int | None = None
    """Of its ZooKeeper session; None while it has none."""
    broker_epoch: int | None = None
    """Of its registration; None while it has none."""
    controller_epoch: int = 0
    """The newest that it has received or won."""
    zxid: int = 0
    believes: Mapping[TopicPartition, Leadership] = field(default_factory=_nothing)
    """The partitions that it leads or follows, by the LeaderAndIsr requests it has accepted."""
    metadata: Mapping[TopicPartition, Leadership] = field(default_factory=_nothing)
    """Its metadata cache, by the UpdateMetadata requests it has accepted."""
    metadata_controller: int = -1
    metadata_brokers: tuple[int, ...] = ()
    event: str = ""
    """The controller event that it is processing."""
    last_seq: int = 0
    last_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPicture:
    """The controller elected last, even if it has lost the role: see `has_resigned` and `controller_gone`."""

    broker_id: int
    epoch: int
    node: str
    incarnation: int
    is_ready: bool = False
    has_resigned: bool = False


class RequestName(NamedTuple):
    """The sender's node and incarnation, and the sequence number of its `RequestSent`."""

    node: str
    incarnation: int
    seq: int


class InFlight(NamedTuple):
    """A request without an answer so far."""

    sent_ms: float
    request: RequestSent


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLogPicture:
    """Everything the records have said so far."""

    run: str = ""
    at_ms: float = 0.0
    """The monotonic clock of the latest record."""
    records: int = 0
    nodes: Mapping[str, NodePicture] = field(default_factory=_nothing)
    controller: ControllerPicture | None = None
    controller_gone: bool = False
    """A node has received since the last election that `/controller` is deleted."""
    partitions: Mapping[TopicPartition, Leadership] = field(default_factory=_nothing)
    """The states in ZooKeeper: of each partition that of the newest controller epoch."""
    in_flight: Mapping[RequestName, InFlight] = field(default_factory=_nothing)
    fence_hits: Mapping[str, int] = field(default_factory=_nothing)
    step: str = ""
    """The step that the scenario has reached."""
    last_fault: str = ""
    """The last fault, for example `kill broker-1`."""

    def node(self, name: str) -> NodePicture:
        return self.nodes.get(name, NodePicture())

    def broker(self, broker_id: int) -> NodePicture:
        return self.node(broker_node(broker_id))


EMPTY = EventLogPicture()


def fold_all(records: Iterable[Envelope], picture: EventLogPicture = EMPTY) -> EventLogPicture:
    for record in records:
        picture = fold(picture, record)
    return picture


def fold(picture: EventLogPicture, record: Envelope) -> EventLogPicture:
    """Return the picture after `record`."""
    node = picture.node(record.node)
    if record.incarnation < node.incarnation:
        return replace(picture, records=picture.records + 1)  # a late record of an earlier process
    node = _seen(node if record.incarnation == node.incarnation else NodePicture(), record)
    picture = replace(
        picture,
        run=record.run,
        at_ms=max(picture.at_ms, record.mono_ms),
        records=picture.records + 1,
        nodes=_with(picture.nodes, record.node, _node_after(node, record)),
    )
    return _cluster_after(picture, record)


def _seen(node: NodePicture, record: Envelope) -> NodePicture:
    return replace(
        node,
        # A node that writes is running; that it is paused or killed is recorded by others.
        life=Life.RUNNING,
        incarnation=record.incarnation,
        zxid=max(node.zxid, record.zxid),
        controller_epoch=max(node.controller_epoch, record.controller_epoch),
        last_seq=record.seq,
        last_ms=record.mono_ms,
    )


def _node_after(node: NodePicture, record: Envelope) -> NodePicture:
    match record.data:
        case ProcessStarted() as started:
            return replace(node, broker_id=started.broker_id, pid=started.pid)
        case ProcessExiting():
            return replace(node, life=Life.DEAD)
        case SessionOpened() as opened:
            return replace(node, session_id=opened.session_id)
        case SessionExpiredRecord():
            return replace(node, session_id=None, broker_epoch=None)
        case BrokerRegistered() as registered:
            return replace(node, broker_id=registered.broker_id, broker_epoch=registered.broker_epoch)
        case EventStarted() as event:
            return replace(node, event=event.event)
        case EventEnded():
            return replace(node, event="")
        case LeaderAndIsrApplied() as applied:
            return replace(node, believes=_states(node.believes, (*applied.leaders, *applied.followers)))
        case StopReplicaApplied() as stopped:
            gone = {TopicPartition(topic, partition) for topic, partition, _, _ in stopped.partitions}
            return replace(node, believes=_without(node.believes, gone))
        case MetadataUpdated() as update:
            return replace(
                node,
                metadata=_states(node.metadata, update.partitions),
                metadata_controller=update.controller_id,
                metadata_brokers=update.live_brokers,
            )
        case _:
            return node


def _cluster_after(picture: EventLogPicture, record: Envelope) -> EventLogPicture:
    match record.data:
        case ControllerElected() | ControllerReady() | ControllerResigned() | WatchFiredRecord():
            return _controller_after(picture, record)
        case LeadershipWritten() as written:
            return replace(picture, partitions=_newer(picture.partitions, written.partitions))
        case ContextLoaded() as loaded:
            return replace(picture, partitions=_newer(picture.partitions, loaded.partitions))
        case TopicsChanged() as changed:
            gone = {partition for partition in picture.partitions if partition.topic in changed.deleted}
            return replace(picture, partitions=_without(picture.partitions, gone))
        case RequestSent() as request:
            name = RequestName(record.node, record.incarnation, record.seq)
            return replace(picture, in_flight=_with(picture.in_flight, name, InFlight(record.mono_ms, request)))
        case ResponseReceived() | RequestFailed():
            name = RequestName(record.node, record.incarnation, record.cause or 0)
            return replace(picture, in_flight=_without(picture.in_flight, {name}))
        case FenceHit() as hit:
            return replace(
                picture, fence_hits=_with(picture.fence_hits, hit.fence, picture.fence_hits.get(hit.fence, 0) + 1)
            )
        case StepReached() as step:
            return replace(picture, step=step.step)
        case FaultInjected() as injected:
            return _with_fault(picture, injected.target, injected.fault)
        case PointReached() as point:
            return _with_fault(picture, record.node, point.action)
        case _:
            return picture


def _controller_after(picture: EventLogPicture, record: Envelope) -> EventLogPicture:
    controller = picture.controller
    match record.data:
        case ControllerElected() as elected if controller is None or elected.epoch > controller.epoch:
            new = ControllerPicture(
                broker_id=elected.broker_id, epoch=elected.epoch, node=record.node, incarnation=record.incarnation
            )
            return replace(picture, controller=new, controller_gone=False)
        case ControllerReady() as ready if controller is not None and ready.epoch == controller.epoch:
            return replace(picture, controller=replace(controller, is_ready=True))
        case ControllerResigned() as resigned if controller is not None and resigned.epoch == controller.epoch:
            return replace(picture, controller=replace(controller, has_resigned=True))
        case WatchFiredRecord(path=path, kind="deleted") if path == CONTROLLER:
            return replace(picture, controller_gone=True)
        case _:
            return picture


_LIFE_AFTER = {
    "kill": Life.DEAD,
    "power_loss": Life.DEAD,
    "crash": Life.DEAD,
    "pause": Life.PAUSED,
    "continue": Life.RUNNING,
}


def _with_fault(picture: EventLogPicture, target: str, fault: str) -> EventLogPicture:
    picture = replace(picture, last_fault=f"{fault} {target}")
    if fault not in _LIFE_AFTER or target not in picture.nodes:
        return picture
    life = _LIFE_AFTER[fault]
    node = replace(picture.nodes[target], life=life)
    # The requests of a dead process get no answer.
    orphans = {name for name in picture.in_flight if name.node == target} if life is Life.DEAD else set()
    return replace(picture, nodes=_with(picture.nodes, target, node), in_flight=_without(picture.in_flight, orphans))


# ------------------------------------------------------------------ mappings that are never changed


def _with(mapping: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    return MappingProxyType({**mapping, key: value})


def _without(mapping: Mapping[K, V], keys: set[K]) -> Mapping[K, V]:
    if keys.isdisjoint(mapping):
        return mapping
    return MappingProxyType({key: value for key, value in mapping.items() if key not in keys})


def _states(
    known: Mapping[TopicPartition, Leadership], told: Iterable[Leadership]
) -> Mapping[TopicPartition, Leadership]:
    new = {TopicPartition(state.topic, state.partition): state for state in told}
    gone = {partition for partition, state in new.items() if state.leader == _DELETED_LEADER}
    return _without(MappingProxyType({**known, **new}), gone) if new else known


def _newer(
    known: Mapping[TopicPartition, Leadership], told: Iterable[Leadership]
) -> Mapping[TopicPartition, Leadership]:
    """Replace states by newer ones: the records of a paused controller may come late."""
    new = {
        partition: state
        for state in told
        if (partition := TopicPartition(state.topic, state.partition)) not in known
        or _age(state) >= _age(known[partition])
    }
    return MappingProxyType({**known, **new}) if new else known


def _age(state: Leadership) -> tuple[int, int, int]:
    return (state.controller_epoch, state.leader_epoch, state.partition_epoch)
