"""The parts of the page's picture that a record proves something about, by their names.

A name is a kind and one or several places, with colons between: `replica:broker-1:orders-0`. Decision 19 lists them.
Links to the page of a run carry such names, and so do the steps of lessons.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlencode

from understudy.foundation.eventlog import records as logged
from understudy.foundation.eventlog.records import Envelope

ZNODES: Final = ("/controller", "/controller_epoch", "/brokers/ids")
"""The paths of the znodes that the picture has."""

PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "znode": ("PATH",),
    "session": ("NODE",),
    "process": ("NODE",),
    "metadata": ("NODE",),
    "fence": ("NODE",),
    "queue": ("NODE",),
    "replica": ("NODE", "PARTITION"),
    "high-watermark": ("NODE", "PARTITION"),
    "isr": ("PARTITION",),
    "request": ("NODE", "NODE"),
    "link": ("NODE", "NODE"),
    "group": ("NODE", "GROUP"),
    "member": ("GROUP", "MEMBER"),
    "client": ("NAME",),
    "tree": ("PATH",),
    "runs": (),
}
"""The kinds of parts, each with its places. The last place may contain colons."""

_BROKER: Final = re.compile(r"broker-\d+")
_STATE: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state")


class _Numbered(Protocol):
    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


def parts_of(record: Envelope) -> tuple[str, ...]:
    """Return the names of the parts that show what a record says, the most important one first; none if there is none.

    The record of a process proves at least something about that process, so a broker's record always has a part.
    """
    found = tuple(dict.fromkeys(_parts(record)))
    return found or _node("process", record.node)


def link_to(record: Envelope, show: Iterable[str] | None = None) -> str:
    """Return the fragment of the page's address that shows a record and marks parts; None for what it proves."""
    at = f"{record.node}.{record.incarnation}.{record.seq}"
    return link_with(at, parts_of(record) if show is None else show)


def link_with(at: str, show: Iterable[str]) -> str:
    """Return the fragment of the page's address that shows a record, `broker-1.1.42`, and marks parts."""
    return "#" + urlencode([("at", at), *(("show", name) for name in show)], safe=":/")


def _parts(record: Envelope) -> Iterable[str]:
    find = _BY_TYPE.get(type(record.data))
    if find is not None:
        return find(record.node, record.data)
    kinds = _OWN.get(type(record.data), ())
    return (name for kind in kinds for name in _named(kind, record.node))


# ------------------------------------------------------------------ names


def _broker(number: int) -> str:
    return f"broker-{number}"


def _node(kind: str, node: str) -> tuple[str, ...]:
    """Return the part of a kind of a broker, or of ZooKeeper; none of any other process."""
    return (f"{kind}:{node}",) if _BROKER.fullmatch(node) or node == "zookeeper" else ()


def _name(of: _Numbered) -> str:
    return f"{of.topic}-{of.partition}"


def _replicas(partition: str, brokers: Iterable[int]) -> Iterator[str]:
    return (f"replica:{_broker(each)}:{partition}" for each in brokers if each >= 0)


# ------------------------------------------------------------------ parts by the type of a record


def _written(node: str, data: logged.LeadershipWritten) -> Iterator[str]:
    for first in data.partitions[:1]:
        yield f"isr:{_name(first)}"
        yield from _replicas(_name(first), (first.leader, *first.isr))


def _not_written(node: str, data: logged.LeadershipNotWritten) -> Iterator[str]:
    return (f"isr:{_name(each)}" for each in data.partitions[:1])


def _applied(node: str, data: logged.LeaderAndIsrApplied) -> Iterator[str]:
    for first in (*data.leaders, *data.followers)[:1]:
        yield f"replica:{node}:{_name(first)}"
        yield f"isr:{_name(first)}"


def _proposed(node: str, data: logged.IsrProposed) -> Iterator[str]:
    yield from _replicas(_name(data), (*data.leaving, *data.joining))
    yield f"replica:{node}:{_name(data)}"
    yield f"isr:{_name(data)}"


def _answered(node: str, data: logged.IsrResult) -> Iterator[str]:
    return iter((f"isr:{_name(data)}", f"replica:{node}:{_name(data)}"))


def _logged(node: str, data: _Numbered) -> Iterator[str]:
    yield f"replica:{node}:{_name(data)}"


def _committed(node: str, data: logged.HighWatermarkChanged) -> Iterator[str]:
    return iter((f"high-watermark:{node}:{_name(data)}", f"replica:{node}:{_name(data)}"))


def _acknowledged(node: str, data: logged.RecordsAcknowledged) -> Iterator[str]:
    yield f"replica:{node}:{_name(data)}"
    yield from _replicas(_name(data), data.isr)


def _injected(node: str, data: logged.FaultInjected) -> Iterator[str]:
    ends = data.target.split(" -> ")
    if len(ends) == 2:
        yield f"link:{ends[0]}:{ends[1]}"
    for each in ends:
        yield from _node("process", each)
    if len(ends) == 1 and data.target != "zookeeper":
        yield from _node("session", data.target)


def _written_to_zookeeper(node: str, data: logged.ZkWrite) -> Iterator[str]:
    for path in data.paths:
        if path in ZNODES:
            yield f"znode:{path}"
        elif (state := _STATE.fullmatch(path)) is not None:
            yield f"isr:{state[1]}-{state[2]}"
    yield from _node("process", node)


def _watched(node: str, data: logged.WatchFiredRecord) -> Iterator[str]:
    if data.path in ZNODES:
        yield f"znode:{data.path}"
    yield from _node("process", node)


def _requested(node: str, data: logged.RequestQueued | logged.RequestSent | logged.RequestFailed) -> Iterator[str]:
    yield f"request:{node}:{_broker(data.to)}"
    yield from _node("process", node)


def _received(node: str, data: logged.RequestReceived | logged.ResponseSent) -> Iterator[str]:
    if data.client_id.isdecimal():  # a broker's control requests have its id
        yield f"request:{_broker(int(data.client_id))}:{node}"
    yield from _node("process", node)


def _responded(node: str, data: logged.ResponseReceived) -> Iterator[str]:
    yield f"request:{node}:{_broker(data.sender)}"
    yield from _node("process", node)


def _grouped(
    node: str, data: logged.GroupTransition | logged.OffsetsCommitted | logged.OffsetsRemoved
) -> Iterator[str]:
    yield f"group:{node}:{data.group}"


def _assigned(node: str, data: logged.GroupAssigned) -> Iterator[str]:
    yield f"group:{node}:{data.group}"
    yield from (f"member:{data.group}:{each.client_id}" for each in data.members)


def _loaded(node: str, data: logged.GroupsLoaded | logged.GroupsUnloaded) -> Iterator[str]:
    yield f"replica:{node}:__consumer_offsets-{data.partition}"


def _of_client(node: str, data: logged.ClientRecord) -> Iterator[str]:
    yield f"client:{node}"


def _of_member(node: str, data: logged.MemberTransition) -> Iterator[str]:
    yield f"client:{node}"
    yield f"member:{data.group}:{data.client_id}"


def _started(node: str, data: logged.ProcessStarted) -> Iterator[str]:
    yield from (f"client:{node}",) if data.role == "client" else _node("process", node)


def _named(kind: str, node: str) -> tuple[str, ...]:
    """Return a part that is a znode, or a kind of part of the node that wrote the record."""
    return (kind,) if kind.startswith("znode:") else _node(kind, node)


_BY_TYPE: Final[Mapping[type, Callable[[str, Any], Iterator[str]]]] = {
    logged.LeadershipWritten: _written,
    logged.LeadershipNotWritten: _not_written,
    logged.LeaderAndIsrApplied: _applied,
    logged.IsrProposed: _proposed,
    logged.IsrResult: _answered,
    logged.LogOpened: _logged,
    logged.LeaderStarted: _logged,
    logged.RecordsAppended: _logged,
    logged.LogTruncated: _logged,
    logged.LogCleaned: _logged,
    logged.HighWatermarkChanged: _committed,
    logged.RecordsAcknowledged: _acknowledged,
    logged.FaultInjected: _injected,
    logged.ZkWrite: _written_to_zookeeper,
    logged.WatchFiredRecord: _watched,
    logged.RequestQueued: _requested,
    logged.RequestSent: _requested,
    logged.RequestFailed: _requested,
    logged.RequestReceived: _received,
    logged.ResponseSent: _received,
    logged.ResponseReceived: _responded,
    logged.GroupTransition: _grouped,
    logged.OffsetsCommitted: _grouped,
    logged.OffsetsRemoved: _grouped,
    logged.GroupAssigned: _assigned,
    logged.GroupsLoaded: _loaded,
    logged.GroupsUnloaded: _loaded,
    logged.ClientLogged: _of_client,
    logged.ClientConnection: _of_client,
    logged.ClientRequestBegan: _of_client,
    logged.ClientRequestEnded: _of_client,
    logged.MemberTransition: _of_member,
    logged.ProcessStarted: _started,
}
_OWN: Final[Mapping[type, tuple[str, ...]]] = {
    logged.MetadataUpdated: ("metadata",),
    logged.FenceHit: ("fence", "process"),
    logged.EventQueued: ("queue",),
    logged.EventStarted: ("queue",),
    logged.EventEnded: ("queue",),
    logged.EventPreempted: ("queue",),
    logged.SessionOpened: ("session",),
    logged.SessionSuspendedRecord: ("session",),
    logged.SessionResumedRecord: ("session",),
    logged.SessionExpiredRecord: ("session",),
    logged.BrokerRegistered: ("znode:/brokers/ids", "session"),
    logged.ControllerElected: ("znode:/controller", "process", "znode:/controller_epoch"),
    logged.ElectionLost: ("znode:/controller", "process"),
    logged.BrokersChanged: ("znode:/brokers/ids", "process"),
}
"""Types of records that are about the node that wrote them, or about a znode. Any other type is about the process."""
