"""Adds records, one at a time, to a picture of the cluster: `fold(picture, record) -> picture`.

The picture has what the records contain and nothing else: the state of each node, the znodes that matter, the
controller, and the requests without an answer. Its parts may contradict each other, as the brokers do. `fold` is a pure
function and accepts any record in any order, so that a page can show a run at any moment. Pass records in the order of
`understudy.history.reading.order`.

The page's scripts have the same fold (`fold.js`): a change here is a change there, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tests.understudy.page.folding import fold_nodes
from tests.understudy.page.folding.fold_faults import fault_injected, requests_dropped, term_forgotten
from tests.understudy.page.folding.fold_groups import groups_after
from tests.understudy.page.folding.fold_nodes import node_after
from tests.understudy.page.folding.fold_paths import paths_after
from tests.understudy.page.folding.fold_requests import at_receiver, requests_after
from tests.understudy.page.folding.fold_state import (
    EMPTY,
    Acknowledged,
    ControllerPicture,
    ControllerZNode,
    EventLogPicture,
    Life,
    NodePicture,
    Registration,
    SettingsPicture,
    Term,
    Topics,
    changed,
    value_of,
    with_entry,
    without,
)
from tests.understudy.page.folding.fold_znodes import (
    broker_text,
    session_ended,
    with_deletions,
    with_live_brokers,
    with_new_registrations,
    without_registrations,
    zookeeper_runs,
)
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    BrokersChanged,
    ChannelClosed,
    ChannelOpened,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    ControllerResigned,
    Envelope,
    FaultInjected,
    FenceHit,
    GroupAssigned,
    GroupsLoaded,
    GroupsUnloaded,
    GroupTransition,
    Leadership,
    LeadershipWritten,
    OffsetsCommitted,
    OffsetsRemoved,
    PointReached,
    ProcessExiting,
    RecordsAcknowledged,
    RequestFailed,
    RequestQueued,
    RequestReceived,
    RequestSent,
    ResponseReceived,
    ResponseSent,
    RunDescribed,
    SessionExpiredRecord,
    SessionOpened,
    StepReached,
    TopicsChanged,
    WatchFiredRecord,
    ZkWrite,
    ZkWriteDone,
)
from understudy.page.recorded.exact import exact_micros, session_text

__all__ = ["EMPTY", "EventLogPicture", "Life", "NodePicture", "fold", "fold_all"]

_GRACE_US: Final = 1_000_000
"""How long after the record of a fault the node's own records do not show that it runs: a fault is recorded before it
is injected."""


def fold_all(records: Iterable[Envelope], picture: EventLogPicture = EMPTY) -> EventLogPicture:
    """Return the picture after all of `records`."""
    for record in records:
        picture = fold(picture, record)
    return picture


def fold(picture: EventLogPicture, record: Envelope) -> EventLogPicture:
    """Return the picture after `record`."""
    us = exact_micros(record.mono_ms)
    known = picture.nodes.get(record.node)
    picture = replace(picture, run=record.run, us=max(picture.us, us), records=picture.records + 1)
    if known is not None and record.incarnation < known.incarnation:
        return picture  # a late record of an earlier process
    if known is None or record.incarnation != known.incarnation:
        # Whatever an earlier process had in its memory is gone, and with it the requests that it waits for.
        picture = requests_dropped(picture, record.node)
        known = _new_process(picture.node(record.node), record, us)
    node = node_after(_seen(known, record, us), record, us)
    picture = replace(picture, nodes=with_entry(picture.nodes, record.node, node))
    before = picture.zookeeper
    picture = _cluster_after(picture, record, us)
    if picture.zookeeper is before:
        return picture
    return replace(picture, zookeeper=with_deletions(before, picture.zookeeper, picture.records))


def _new_process(before: NodePicture, record: Envelope, us: int) -> NodePicture:
    return NodePicture(
        life=Life.RUNNING,
        life_since_us=us,
        incarnation=record.incarnation,
        role=before.role,
        broker_id=before.broker_id,
    )


def _seen(node: NodePicture, record: Envelope, us: int) -> NodePicture:
    if node.life in (Life.DEAD, Life.PAUSED) and us - node.life_since_us > _GRACE_US:
        node = fold_nodes.runs(node, us)
    return replace(
        node,
        zxid=max(node.zxid, record.zxid),
        controller_epoch=max(node.controller_epoch, record.controller_epoch),
        last_seq=record.seq,
        last_us=us,
    )


def _cluster_after(picture: EventLogPicture, record: Envelope, us: int) -> EventLogPicture:
    match record.data:
        case ControllerElected() | ControllerReady() | ControllerResigned():
            return _controller_after(picture, record)
        case BrokerRegistered() | SessionOpened() | SessionExpiredRecord() | ProcessExiting():
            return _znodes_after(picture, record, us)
        case ZkWrite() | ZkWriteDone() | WatchFiredRecord():
            return paths_after(picture, record)
        case ContextLoaded() | BrokersChanged():
            return _brokers_after(picture, record)
        case LeadershipWritten(partitions=states):
            return _with_states(picture, states, picture.records)
        case TopicsChanged(deleted=topics):
            return replace(
                paths_after(picture, record),
                written=without(picture.written, topics),
                partitions=without(picture.partitions, topics),
                acknowledged=without(picture.acknowledged, topics),
            )
        case RecordsAcknowledged() as data:
            return replace(picture, acknowledged=_acknowledged(picture.acknowledged, data))
        case ChannelOpened() | ChannelClosed() | RequestQueued() | RequestSent() | ResponseReceived() | RequestFailed():
            return requests_after(picture, record, us)
        case RequestReceived() as received:
            return at_receiver(picture, record.node, received, None)
        case ResponseSent() as response:
            return at_receiver(picture, record.node, response, response.error)
        case FenceHit(fence=fence):
            return replace(picture, fences=with_entry(picture.fences, fence, picture.fences.get(fence, 0) + 1))
        case (
            GroupTransition()
            | GroupAssigned()
            | GroupsLoaded()
            | GroupsUnloaded()
            | OffsetsCommitted()
            | OffsetsRemoved()
        ):
            return groups_after(picture, record)
        case StepReached(step=step):
            return replace(picture, step=step)
        case FaultInjected(fault=fault, target=target):
            return fault_injected(picture, target, fault, us)
        case PointReached(action=action):
            return fault_injected(picture, record.node, action, us)
        case RunDescribed() as described:
            return replace(picture, settings=_settings(picture.settings, described))
        case _:
            return picture


def _acknowledged(known: Topics[Acknowledged], data: RecordsAcknowledged) -> Topics[Acknowledged]:
    before = value_of(known, data.topic, data.partition)
    is_same = before is not None and before.topic_id == data.topic_id
    offset = max(before.offset, data.last_offset) if before is not None and is_same else data.last_offset
    return changed(known, ((data.topic, data.partition, Acknowledged(topic_id=data.topic_id, offset=offset)),))


def _settings(known: SettingsPicture, described: RunDescribed) -> SettingsPicture:
    """Take each setting from the first record that has it."""
    names = [name for name in SettingsPicture.__dataclass_fields__ if getattr(known, name) in (None, "")]
    return replace(known, **{name: getattr(described, name) for name in names})


# ------------------------------------------------------------------ the controller


def _controller_after(picture: EventLogPicture, record: Envelope) -> EventLogPicture:
    controller = picture.controller
    match record.data:
        case ControllerElected() as elected:
            return _elected(picture, record, elected)
        case ControllerReady(epoch=epoch) if controller is not None and epoch == controller.epoch:
            return replace(picture, controller=replace(controller, is_ready=True))
        case ControllerResigned(epoch=epoch):
            picture = term_forgotten(picture, record.node)
            if controller is not None and epoch == controller.epoch:
                return replace(picture, controller=replace(controller, has_resigned=True))
    return picture


def _elected(picture: EventLogPicture, record: Envelope, elected: ControllerElected) -> EventLogPicture:
    picture = term_forgotten(picture, record.node)
    node = replace(picture.nodes[record.node], term=Term(epoch=elected.epoch))
    zookeeper = picture.zookeeper
    if elected.epoch >= zookeeper.controller_epoch:
        zookeeper = replace(
            zookeeper,
            controller_epoch=elected.epoch,
            controller_epoch_version=None if elected.epoch_zk_version < 0 else elected.epoch_zk_version,
            controller_epoch_changed=picture.records,
        )
    picture = replace(picture, nodes=with_entry(picture.nodes, record.node, node), zookeeper=zookeeper)
    if picture.controller is not None and elected.epoch <= picture.controller.epoch:
        return picture
    znode = ControllerZNode(
        broker_id=elected.broker_id,
        epoch=elected.epoch,
        node=record.node,
        session=session_text(elected.session_id),
        zxid=record.zxid,
        created=picture.records,
    )
    return replace(
        picture,
        controller=ControllerPicture(
            broker_id=elected.broker_id, epoch=elected.epoch, node=record.node, incarnation=record.incarnation
        ),
        zookeeper=replace(zookeeper, controller=znode),
    )


def _brokers_after(picture: EventLogPicture, record: Envelope) -> EventLogPicture:
    zookeeper = picture.zookeeper
    match record.data:
        case ContextLoaded(epoch=epoch, live_brokers=live_brokers, partitions=partitions):
            picture = _with_states(picture, partitions, None)
            if epoch < zookeeper.controller_epoch:
                return picture
            if epoch > zookeeper.controller_epoch:
                zookeeper = replace(
                    zookeeper, controller_epoch=epoch, controller_epoch_version=None, controller_epoch_changed=None
                )
            return replace(picture, zookeeper=with_live_brokers(zookeeper, live_brokers, record.zxid))
        case BrokersChanged() as brokers:
            term = picture.nodes[record.node].term
            if term is not None and term.epoch < zookeeper.controller_epoch:
                return picture
            dead, live = set(map(broker_text, brokers.dead)), set(map(broker_text, brokers.live))
            zookeeper = without_registrations(
                zookeeper, lambda broker: broker in dead or broker not in live, record.zxid
            )
            return with_new_registrations(replace(picture, zookeeper=zookeeper), brokers.new)
    return picture


def _with_states(picture: EventLogPicture, states: Iterable[Leadership], number: int | None) -> EventLogPicture:
    """Replace states by newer ones: the records of a paused controller may come late.

    Args:
        number: of the record that says that they were written; None if they were only read.
    """
    newest: dict[tuple[str, int], Leadership] = {}
    written: dict[tuple[str, int], int | None] = {}
    for state in states:
        key = (state.topic, state.partition)
        before = newest.get(key) or value_of(picture.partitions, *key)
        if before is not None and _age(state) < _age(before):
            continue
        newest[key] = state
        if number is not None or before is None or _age(state) > _age(before):
            written[key] = number
    return replace(
        picture,
        partitions=changed(picture.partitions, ((*key, state) for key, state in newest.items())),
        written=changed(picture.written, ((*key, at) for key, at in written.items())),
    )


def _age(state: Leadership) -> tuple[int, int, int]:
    return (state.controller_epoch, state.leader_epoch, state.partition_epoch)


# ------------------------------------------------------------------ ZooKeeper


def _znodes_after(picture: EventLogPicture, record: Envelope, us: int) -> EventLogPicture:
    zookeeper = picture.zookeeper
    match record.data:
        case SessionOpened():
            return replace(picture, zookeeper=zookeeper_runs(zookeeper))
        case BrokerRegistered(broker_id=broker, broker_epoch=epoch, session_id=session):
            registration = Registration(
                epoch=epoch, session=session_text(session), node=record.node, created=picture.records
            )
            ids = with_entry(zookeeper.ids, broker_text(broker), registration)
            return replace(picture, zookeeper=replace(zookeeper_runs(zookeeper), ids=ids))
        case SessionExpiredRecord(session_id=session):
            return session_ended(picture, record.node, session_text(session))
        case ProcessExiting():
            picture = term_forgotten(picture, record.node)
            node = fold_nodes.without_session(picture.nodes[record.node])
            node = fold_nodes.with_life(node, Life.DEAD, us)
            picture = replace(picture, nodes=with_entry(picture.nodes, record.node, node))
            return session_ended(picture, record.node, None)
    return picture
