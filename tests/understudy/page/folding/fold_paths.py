"""The persistent znodes that a picture follows, but for the states of partitions; a part of
`tests.understudy.page.folding.fold`.

A `ZkWrite` has paths and a purpose, and no operations. So that a znode exists and was written is known, and whether it
was created or deleted follows from the purpose, or from what was there before: nothing is created twice.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from tests.understudy.page.folding.fold_state import (
    EventLogPicture,
    PendingWrite,
    PersistentZNode,
    with_entry,
    without,
)
from tests.understudy.page.folding.fold_znodes import has_seen, znode_deleted
from understudy.foundation.eventlog.records import Envelope, TopicsChanged, WatchFiredRecord, ZkWrite, ZkWriteDone
from understudy.page.recorded.exact import exact

_ELSEWHERE: Final = re.compile(
    r"(/controller(_epoch)?|/brokers/ids/.*|/brokers/topics/[^/]*/partitions(/.*)?)", re.DOTALL
)
"""Paths that other records say more about."""
_NUMBERED: Final = re.compile(r"(/isr_change_notification|/log_dir_event_notification|/config/changes)/.+", re.DOTALL)
"""Znodes whose children ZooKeeper numbers; a record of their creation has no number."""
_TOPICS: Final = "/brokers/topics/"
_CREATING: Final = frozenset({"top-level-paths", "cluster-id"})
"""Purposes of writes that only create."""
_DELETING: Final = frozenset({"config-purge"})
"""Purposes of writes that only delete."""
_MARKING: Final = frozenset({"topic-deletion", "preferred-election"})
"""Purposes of writes that create or delete."""


def paths_after(picture: EventLogPicture, record: Envelope) -> EventLogPicture:
    """Return the picture after a write, its outcome, a watch or a change of the topics."""
    match record.data:
        case ZkWrite(purpose=purpose, paths=paths, fenced=fenced):
            write = PendingWrite(purpose=purpose, paths=paths, fenced=fenced)
            node = picture.nodes[record.node]
            node = replace(node, writes=with_entry(node.writes, str(exact(record.seq)), write))
            return replace(picture, nodes=with_entry(picture.nodes, record.node, node))
        case ZkWriteDone(outcome=outcome):
            return _after_outcome(picture, record, outcome)
        case WatchFiredRecord(path=path, kind="deleted"):
            return path_deleted(picture, path, record.zxid)
        case WatchFiredRecord(path=path, kind=kind):
            if not _ELSEWHERE.fullmatch(path) and (kind == "created" or path not in picture.zookeeper.deleted):
                return _seen(picture, path)
        case TopicsChanged(new=new, deleted=deleted):
            for topic in new:
                picture = _seen(picture, _TOPICS + topic)
            for topic in deleted:
                picture = _deleted(picture, _TOPICS + topic)
    return picture


def path_deleted(picture: EventLogPicture, path: str, zxid: int) -> EventLogPicture:
    """Delete the znode at `path`, unless it was written after what a reader at `zxid` has seen."""
    if _ELSEWHERE.fullmatch(path):
        return znode_deleted(picture, path, zxid)
    known = picture.zookeeper.others.get(path)
    return picture if known is None or not has_seen(zxid, known.zxid) else _deleted(picture, path)


def _after_outcome(picture: EventLogPicture, record: Envelope, outcome: str) -> EventLogPicture:
    node = picture.nodes[record.node]
    key = "" if record.cause is None else str(exact(record.cause))
    write = node.writes.get(key)
    if write is None:
        return picture
    node = replace(node, writes=without(node.writes, (key,)))
    picture = replace(picture, nodes=with_entry(picture.nodes, record.node, node))
    paths = dict.fromkeys(_NUMBERED.sub(lambda found: found[1], path) for path in write.paths)
    for path in paths:
        if _ELSEWHERE.fullmatch(path):
            continue
        if outcome == "Ok":
            picture = _written(picture, path, write, record.zxid)
        elif outcome == "NodeExists" and len(write.paths) == 1:
            picture = _seen(picture, path)
    return picture


def _written(picture: EventLogPicture, path: str, write: PendingWrite, zxid: int) -> EventLogPicture:
    zookeeper, number = picture.zookeeper, picture.records
    known = zookeeper.others.get(path)
    is_numbered = path not in write.paths
    can_delete = write.purpose in _MARKING and (write.fenced or known is not None)
    if not is_numbered and (write.purpose in _DELETING or can_delete):
        return _deleted(picture, path)
    is_new = write.purpose in _CREATING | _MARKING or path in zookeeper.deleted
    created = number if is_new else None if known is None else known.created
    return _put(picture, path, PersistentZNode(created=created, changed=number, zxid=zxid))


def _seen(picture: EventLogPicture, path: str) -> EventLogPicture:
    if path in picture.zookeeper.others:
        return picture
    return _put(picture, path, PersistentZNode(created=None, changed=None, zxid=0))


def _put(picture: EventLogPicture, path: str, znode: PersistentZNode) -> EventLogPicture:
    zookeeper = picture.zookeeper
    others, deleted = with_entry(zookeeper.others, path, znode), without(zookeeper.deleted, (path,))
    return replace(picture, zookeeper=replace(zookeeper, others=others, deleted=deleted))


def _deleted(picture: EventLogPicture, path: str) -> EventLogPicture:
    zookeeper = picture.zookeeper
    others, deleted = without(zookeeper.others, (path,)), with_entry(zookeeper.deleted, path, picture.records)
    return replace(picture, zookeeper=replace(zookeeper, others=others, deleted=deleted))
