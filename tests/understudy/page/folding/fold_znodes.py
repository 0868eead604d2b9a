"""The ephemeral znodes that a picture follows, `/controller` and `/brokers/ids/N`; a part of
`tests.understudy.page.folding.fold`.

ZooKeeper keeps no event log, so their changes are taken from the records of its clients. A watch may reach a client
late, after another has created the znode again. What a client has seen decides: it watches a znode after it has read
it, so a deletion concerns the present znode only if the client has seen a zxid at or after its creation.

    created     ControllerElected, BrokerRegistered; ContextLoaded and BrokersChanged for brokers without such a record
    deleted     a watch that has seen the present znode; the end of the session that owns it, by SessionExpired, an
                orderly ProcessExiting or the fault `expire`; the faults `depose` and `delete`; and a registration also
                if the controller does not find it any more (ContextLoaded, BrokersChanged)

A controller that resigns deletes `/controller` afterwards, or loses it: its watches tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from tests.understudy.page.folding.fold_state import (
    ControllerZNode,
    EventLogPicture,
    Life,
    Registration,
    ZooKeeperPicture,
    with_entry,
    without,
)
from understudy.history.metrics.reigns import CONTROLLER
from understudy.page.recorded.exact import exact

_REGISTRATIONS: Final = "/brokers/ids/"


def zookeeper_runs(zookeeper: ZooKeeperPicture) -> ZooKeeperPicture:
    """Note that a server has answered, if nothing else is known of it."""
    return replace(zookeeper, life=Life.RUNNING) if zookeeper.life is Life.UNKNOWN else zookeeper


def controller_deleted(picture: EventLogPicture) -> EventLogPicture:
    """Delete `/controller`."""
    controller = None if picture.controller is None else replace(picture.controller, is_gone=True)
    return replace(picture, controller=controller, zookeeper=replace(picture.zookeeper, controller=None))


def session_ended(picture: EventLogPicture, node: str, session: str | None) -> EventLogPicture:
    """Delete the znodes of a node's session, or of any of its sessions if `session` is None."""

    def owns(znode: Registration | ControllerZNode) -> bool:
        return znode.node == node and (session is None or znode.session is None or znode.session == session)

    zookeeper = picture.zookeeper
    ended = [broker for broker, registration in zookeeper.ids.items() if owns(registration)]
    picture = replace(picture, zookeeper=replace(zookeeper, ids=without(zookeeper.ids, ended)))
    if zookeeper.controller is not None and owns(zookeeper.controller):
        return controller_deleted(picture)
    return picture


def znode_deleted(picture: EventLogPicture, path: str, zxid: int) -> EventLogPicture:
    """Delete the znode at `path`, unless it was created after what a reader at `zxid` has seen."""
    zookeeper = picture.zookeeper
    if path == CONTROLLER:
        if zookeeper.controller is None or has_seen(zxid, zookeeper.controller.zxid):
            return controller_deleted(picture)
    elif path.startswith(_REGISTRATIONS):
        broker = path.removeprefix(_REGISTRATIONS)
        return replace(picture, zookeeper=without_registrations(zookeeper, lambda each: each == broker, zxid))
    return picture


def without_registrations(zookeeper: ZooKeeperPicture, is_gone: Callable[[str], bool], zxid: int) -> ZooKeeperPicture:
    """Delete registrations, except those created after what a reader at `zxid` has seen."""
    gone = [
        broker
        for broker, registration in zookeeper.ids.items()
        if is_gone(broker) and has_seen(zxid, registration.epoch)
    ]
    return replace(zookeeper, ids=without(zookeeper.ids, gone))


def with_new_registrations(picture: EventLogPicture, brokers: Iterable[int]) -> EventLogPicture:
    """Add the registrations that a controller has found and that are not known yet, with what the brokers' own records
    say of them."""
    zookeeper = picture.zookeeper
    for broker in map(broker_text, brokers):
        if broker not in zookeeper.ids:
            node = f"broker-{broker}"
            own = picture.node(node)
            is_own = own.broker_epoch is not None and own.session is not None
            registration = Registration(
                epoch=own.broker_epoch if is_own else None,
                session=own.session.id if own.session is not None and is_own else None,
                node=node,
                created=None,
            )
            zookeeper = replace(zookeeper, ids=with_entry(zookeeper.ids, broker, registration))
    return replace(picture, zookeeper=zookeeper)


def with_live_brokers(zookeeper: ZooKeeperPicture, live: Iterable[tuple[int, int]], zxid: int) -> ZooKeeperPicture:
    """Take over a list of all registrations, (broker id, broker epoch), that a reader at `zxid` has seen."""
    live = tuple(live)
    texts = {broker_text(broker) for broker, _ in live}
    zookeeper = without_registrations(zookeeper, lambda broker: broker not in texts, zxid)
    for broker, recorded in live:
        epoch = recorded if recorded > 0 else None
        known = zookeeper.ids.get(broker_text(broker))
        if known is None or (epoch is not None and known.epoch is not None and known.epoch < epoch):
            found = _registration(broker, epoch)
        elif epoch is not None and known.epoch is None:
            found = replace(known, epoch=epoch)
        else:
            continue
        zookeeper = replace(zookeeper, ids=with_entry(zookeeper.ids, broker_text(broker), found))
    return zookeeper


def with_deletions(before: ZooKeeperPicture, after: ZooKeeperPicture, number: int) -> ZooKeeperPicture:
    """Note which znodes a record has deleted, and forget earlier deletions of znodes that are there again.

    Args:
        number: of the record, from 1.
    """
    had, has = _paths(before), _paths(after)
    gone = without(after.deleted, has)
    for path in had - has:
        gone = with_entry(gone, path, number)
    return replace(after, deleted=gone)


def _paths(zookeeper: ZooKeeperPicture) -> set[str]:
    controller = () if zookeeper.controller is None else (CONTROLLER,)
    return {*controller, *(f"{_REGISTRATIONS}{broker}" for broker in zookeeper.ids), *zookeeper.others}


def broker_text(broker: int) -> str:
    """Return a broker id as it is in the names of znodes and nodes."""
    return str(exact(broker))


def _registration(broker: int, epoch: int | None) -> Registration:
    return Registration(epoch=epoch, session=None, node=f"broker-{broker_text(broker)}", created=None)


def has_seen(zxid: int, created: int | None) -> bool:
    """Whether a reader at `zxid` has seen what `created` created; True if one of them is not known."""
    return created is None or 0 in (created, zxid) or zxid >= created
