"""What a node's own records say about the node itself; a part of `tests.understudy.page.folding.fold`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeAlias

from tests.understudy.page.folding.fold_clients import with_client
from tests.understudy.page.folding.fold_state import (
    ControllerEvent,
    Life,
    LogCut,
    NodePicture,
    PartitionLog,
    PointPicture,
    Topics,
    ZooKeeperSession,
    changed,
    value_of,
)
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    ClientConnection,
    ClientRequestBegan,
    ClientRequestEnded,
    ContextLoaded,
    ControllerReady,
    Envelope,
    EventEnded,
    EventPreempted,
    EventQueued,
    EventStarted,
    HighWatermarkChanged,
    LeaderAndIsrApplied,
    Leadership,
    LeaderStarted,
    LoggedBatch,
    LogOpened,
    LogTruncated,
    MemberTransition,
    MetadataUpdated,
    PartitionsMoved,
    PointReached,
    ProcessStarted,
    RecordsAppended,
    ReplicasMoved,
    SessionExpiredRecord,
    SessionOpened,
    SessionResumedRecord,
    SessionSuspendedRecord,
    StopReplicaApplied,
)
from understudy.page.recorded.exact import session_text

_DELETED_LEADER: Final = -2
"""The leader, in `MetadataUpdated`, of a partition of a deleted topic."""
_NON_EXISTENT: Final = "NonExistent"
"""How Kafka's names of the states begin in which a partition or replica is forgotten."""

_LogRecord: TypeAlias = LogOpened | LeaderStarted | RecordsAppended | HighWatermarkChanged | LogTruncated


def node_after(node: NodePicture, record: Envelope, us: int) -> NodePicture:
    """Return the picture of a node after one of its own records."""
    match record.data:
        case ProcessStarted() as started:
            return replace(node, role=started.role, broker_id=started.broker_id, pid=started.pid)
        case BrokerRegistered() as registered:
            return replace(node, broker_id=registered.broker_id, broker_epoch=registered.broker_epoch)
        case ControllerReady(epoch=epoch) if node.term is not None and node.term.epoch == epoch:
            return replace(node, term=replace(node.term, is_ready=True))
        case PointReached(point=point, action=action):
            return replace(node, point=PointPicture(point=point, action=action, us=us))
        case SessionOpened() | SessionSuspendedRecord() | SessionResumedRecord() | SessionExpiredRecord():
            return _session(node, record, us)
        case EventQueued() | EventStarted() | EventEnded() | EventPreempted():
            return _event(node, record, us)
        case ContextLoaded() | PartitionsMoved() | ReplicasMoved():
            return _states(node, record)
        case LeaderAndIsrApplied() | StopReplicaApplied() | MetadataUpdated():
            return _control_request(node, record)
        case ClientConnection() | ClientRequestBegan() | ClientRequestEnded() | MemberTransition() as of_client:
            return with_client(node, of_client, us)
        case LogOpened() | LeaderStarted() | RecordsAppended() | HighWatermarkChanged() | LogTruncated() as data:
            return _log(node, data, us)
        case _:
            return node


def without_session(node: NodePicture) -> NodePicture:
    """Return a node whose session has ended."""
    return replace(node, session=None, broker_epoch=None, silent_since_us=None)


def _session(node: NodePicture, record: Envelope, us: int) -> NodePicture:
    known_timeout = None if node.session is None else node.session.timeout_ms
    match record.data:
        case SessionOpened(session_id=session_id, timeout_ms=timeout):
            session = ZooKeeperSession(id=session_text(session_id), timeout_ms=timeout, is_connected=True)
            return replace(node, session=session, silent_since_us=None)
        case SessionResumedRecord(session_id=session_id):
            session = ZooKeeperSession(id=session_text(session_id), timeout_ms=known_timeout, is_connected=True)
            return replace(node, session=session, silent_since_us=None)
        case SessionSuspendedRecord(session_id=session_id):
            session = ZooKeeperSession(id=session_text(session_id), timeout_ms=known_timeout, is_connected=False)
            return silent(replace(node, session=session), us)
        case _:
            return without_session(node)


def silent(node: NodePicture, us: int) -> NodePicture:
    """Return a node whose heartbeats do not reach ZooKeeper from `us` on."""
    return node if node.silent_since_us is not None else replace(node, silent_since_us=us)


def heartbeats_arrive(node: NodePicture) -> NodePicture:
    """Return a node whose heartbeats reach ZooKeeper again, unless the node itself knows better."""
    if node.session is not None and not node.session.is_connected:
        return node
    return replace(node, silent_since_us=None)


def with_life(node: NodePicture, life: Life, us: int) -> NodePicture:
    """Return a node whose process is in another state from `us` on."""
    return node if node.life is life else replace(node, life=life, life_since_us=us)


def runs(node: NodePicture, us: int) -> NodePicture:
    """Return a node whose process runs."""
    return heartbeats_arrive(replace(with_life(node, Life.RUNNING, us), point=None))


# ------------------------------------------------------------------ the controller's inside


def _event(node: NodePicture, record: Envelope, us: int) -> NodePicture:
    match record.data:
        case EventQueued(event_id=number, event=name):
            event = ControllerEvent(id=number, event=name, since_us=us)
            if all(each.id != number for each in node.queue):
                return replace(node, queue=(*node.queue, event))
            return replace(node, queue=tuple(event if each.id == number else each for each in node.queue))
        case EventStarted(event_id=number, event=name):
            event = ControllerEvent(id=number, event=name, since_us=us)
            return replace(node, event=event, queue=_out_of(node.queue, number))
        case EventPreempted(event_id=number):
            current = None if node.event is not None and node.event.id == number else node.event
            return replace(node, event=current, queue=_out_of(node.queue, number))
        case _:
            return replace(node, event=None)


def _out_of(queue: tuple[ControllerEvent, ...], number: int) -> tuple[ControllerEvent, ...]:
    return tuple(each for each in queue if each.id != number)


def _states(node: NodePicture, record: Envelope) -> NodePicture:
    match record.data:
        case ContextLoaded() as loaded:
            return _initial_states(node, loaded)
        case PartitionsMoved(target=target, partitions=partitions):
            state = None if target.startswith(_NON_EXISTENT) else target
            moves = ((each.topic, each.partition, state) for each in partitions)
            return replace(node, partition_states=changed(node.partition_states, moves))
        case ReplicasMoved() as moved:
            return replace(node, replica_states=_replica_states(node.replica_states, moved))
        case _:
            return node


def _initial_states(node: NodePicture, loaded: ContextLoaded) -> NodePicture:
    """Derive the states that no record says, as Kafka's `initializePartitionState` and `initializeReplicaState` do.

    The assignment is not in the record, so replicas outside the ISR have no state until they are moved.
    """
    live = {broker for broker, _ in loaded.live_brokers}
    partitions = [
        (each.topic, each.partition, "OnlinePartition" if each.leader in live else "OfflinePartition")
        for each in loaded.partitions
    ]
    replicas = [
        (each.topic, each.partition, dict.fromkeys((broker for broker in each.isr if broker in live), "OnlineReplica"))
        for each in loaded.partitions
    ]
    return replace(
        node,
        partition_states=changed(MappingProxyType({}), partitions),
        replica_states=changed(
            MappingProxyType({}),
            ((topic, partition, MappingProxyType(states) or None) for topic, partition, states in replicas),
        ),
    )


def _replica_states(known: Topics[Mapping[int, str]], moved: ReplicasMoved) -> Topics[Mapping[int, str]]:
    states: dict[tuple[str, int], dict[int, str]] = {}
    for each in moved.replicas:
        key = (each.topic, each.partition)
        if key not in states:
            states[key] = dict(value_of(known, *key) or {})
        if moved.target.startswith(_NON_EXISTENT):
            states[key].pop(each.replica, None)
        else:
            states[key][each.replica] = moved.target
    return changed(known, ((*key, MappingProxyType(found) or None) for key, found in states.items()))


# ------------------------------------------------------------------ the broker's view


def _control_request(node: NodePicture, record: Envelope) -> NodePicture:
    match record.data:
        case LeaderAndIsrApplied(leaders=leaders, followers=followers):
            return replace(
                node,
                believes=changed(node.believes, _known(*leaders, *followers)),
                logs=changed(node.logs, _followed(node.logs, followers)),
            )
        case StopReplicaApplied(partitions=partitions):
            stopped = [(topic, partition, None) for topic, partition, _, _ in partitions]
            deleted = [(topic, partition, None) for topic, partition, _, is_deleted in partitions if is_deleted]
            return replace(node, believes=changed(node.believes, stopped), logs=changed(node.logs, deleted))
        case MetadataUpdated() as update:
            return replace(
                node,
                metadata=changed(node.metadata, _known(*update.partitions)),
                metadata_controller=update.controller_id,
                metadata_epoch=update.request_controller_epoch,
                metadata_brokers=update.live_brokers,
            )
        case _:
            return node


def _known(*states: Leadership) -> Iterator[tuple[str, int, Leadership | None]]:
    for state in states:
        yield state.topic, state.partition, None if state.leader == _DELETED_LEADER else state


def _followed(
    logs: Topics[PartitionLog], followers: Iterable[Leadership]
) -> Iterator[tuple[str, int, PartitionLog | None]]:
    for state in followers:
        log = value_of(logs, state.topic, state.partition)
        if log is not None:
            yield state.topic, state.partition, replace(log, role="follower", leader_epoch=state.leader_epoch)


# ------------------------------------------------------------------ logs of partitions


def _log(node: NodePicture, data: _LogRecord, us: int) -> NodePicture:
    known = value_of(node.logs, data.topic, data.partition)
    if known is None or known.topic_id != data.topic_id:
        known = PartitionLog(topic_id=data.topic_id)
    return replace(node, logs=changed(node.logs, ((data.topic, data.partition, _log_after(known, data, us)),)))


def _log_after(log: PartitionLog, data: _LogRecord, us: int) -> PartitionLog:
    match data:
        case LogOpened():
            return PartitionLog(
                topic_id=data.topic_id,
                start=data.log_start_offset,
                end=data.log_end_offset,
                high_watermark=data.high_watermark,
                epochs=data.epochs,
            )
        case LeaderStarted():
            return replace(
                log,
                role="leader",
                leader_epoch=data.leader_epoch,
                end=data.log_end_offset,
                high_watermark=data.high_watermark,
                epochs=data.epochs,
            )
        case RecordsAppended():
            log = replace(log, role=data.role, leader_epoch=data.leader_epoch)
            if not data.batches:
                return log
            return replace(log, end=data.batches[-1].next_offset, epochs=_with_epochs(log.epochs, data.batches))
        case HighWatermarkChanged():
            return replace(
                log,
                role=data.role,
                leader_epoch=data.leader_epoch,
                end=data.log_end_offset,
                high_watermark=data.high_watermark,
            )
        case LogTruncated():
            return replace(
                log,
                role="follower",
                leader_epoch=data.leader_epoch,
                start=data.to_offset if data.is_full else log.start,
                end=data.to_offset,
                high_watermark=min(data.to_offset, data.high_watermark),
                epochs=data.epochs,
                cut=_cut(log, data.to_offset, us),
            )


def _cut(log: PartitionLog, offset: int, us: int) -> LogCut | None:
    return log.cut if log.end is None or log.end <= offset else LogCut(from_=offset, end=log.end, us=us)


def _with_epochs(epochs: tuple[tuple[int, int], ...], batches: Iterable[LoggedBatch]) -> tuple[tuple[int, int], ...]:
    for batch in batches:
        if not epochs or epochs[-1][0] < batch.leader_epoch:
            epochs = (*epochs, (batch.leader_epoch, batch.base_offset))
    return epochs
