"""Puts the records of many nodes into one order.

Processes of one machine share the monotonic clock, so the clock orders their records, to the microsecond. If it does
not, two facts do: an incarnation's sequence numbers, and that a message is sent before it is received.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from understudy.foundation.eventlog.records import (
    Envelope,
    RequestReceived,
    RequestSent,
    ResponseReceived,
    ResponseSent,
)

MOST_UNRECEIVED: Final = 20_000
"""Maximum number of messages without a receipt that `RemoteCauses` keeps: answers to clients have no receipt."""

_MESSAGE_TYPES: Final = frozenset({RequestSent, RequestReceived, ResponseSent, ResponseReceived})

Writer: TypeAlias = tuple[str, str, int]
"""Run, node and incarnation that wrote a record."""


class Identity(NamedTuple):
    """The identity of a record among the records of all runs."""

    writer: Writer
    seq: int


_Head: TypeAlias = tuple[tuple[float, str, int, int], Writer]


def writer_of(record: Envelope) -> Writer:
    return (record.run, record.node, record.incarnation)


def identity_of(record: Envelope) -> Identity:
    return Identity(writer_of(record), record.seq)


def order_key(record: Envelope) -> tuple[float, str, int, int]:
    """Return the key that orders records by clock; the parts after the clock only make the order total."""
    return (record.mono_ms, record.node, record.incarnation, record.seq)


def in_order(records: Iterable[Envelope]) -> Iterator[Envelope]:
    """Yield `records` by clock, but never against an incarnation's sequence and never effect before cause.

    A `RequestReceived` comes after its `RequestSent` and a `ResponseReceived` after its `ResponseSent`, if the log
    holds both. If the clocks of different machines contradict each other so that no record could come next, the
    earliest record comes next.
    """
    given = list(records)
    causes = remote_causes(given)
    by_clock = sorted(given, key=order_key)
    if _is_in_order(by_clock, causes):
        yield from by_clock
        return
    yield from _Merge(given, causes).records()


def _is_in_order(records: Iterable[Envelope], causes: Mapping[Identity, Identity]) -> bool:
    """Return whether no record comes against the sequence of its incarnation or before its cause.

    If this holds for records sorted by clock, the slower merge would not change their order.
    """
    last: dict[Writer, int] = {}
    waiting: set[Identity] = set(causes.values())
    for record in records:
        writer = (record.run, record.node, record.incarnation)
        seq = record.seq
        if seq <= last.get(writer, 0):
            return False
        last[writer] = seq
        if type(record.data) in _MESSAGE_TYPES:
            identity = Identity(writer, seq)
            waiting.discard(identity)
            if causes.get(identity) in waiting:
                return False
    return True


class _Merge:
    """Merges one queue per writer by clock; a head waits until its cause has come."""

    def __init__(self, records: Iterable[Envelope], causes: dict[Identity, Identity]) -> None:
        self._queues: defaultdict[Writer, deque[Envelope]] = defaultdict(deque)
        for record in sorted(records, key=lambda record: record.seq):
            self._queues[writer_of(record)].append(record)
        self._causes = causes
        self._emitted: set[Identity] = set()
        self._held: dict[Identity, list[_Head]] = {}
        self._heads: list[_Head] = [(order_key(queue[0]), writer) for writer, queue in self._queues.items()]
        heapq.heapify(self._heads)

    def records(self) -> Iterator[Envelope]:
        while self._heads or self._held:
            if not self._heads:
                self._release_earliest()
            head = heapq.heappop(self._heads)
            queue = self._queues[head[1]]
            identity = identity_of(queue[0])
            cause = self._causes.get(identity)
            if cause is None or cause in self._emitted:
                yield queue.popleft()
                self._emitted.add(identity)
                for released in self._held.pop(identity, ()):
                    heapq.heappush(self._heads, released)
                if queue:
                    heapq.heappush(self._heads, (order_key(queue[0]), head[1]))
            else:
                self._held.setdefault(cause, []).append(head)

    def _release_earliest(self) -> None:
        """Release the earliest head without its cause; called when every head waits for another."""
        cause, earliest = min(
            ((cause, head) for cause, heads in self._held.items() for head in heads), key=lambda held: held[1]
        )
        self._held[cause].remove(earliest)
        if not self._held[cause]:
            del self._held[cause]
        self._causes.pop(identity_of(self._queues[earliest[1]][0]), None)
        self._heads.append(earliest)


def remote_causes(records: Iterable[Envelope]) -> dict[Identity, Identity]:
    """Return, for each record of a received message, the record that it was sent.

    Correlation ids begin again with every connection, so several messages may have one name. The latest one that was
    sent before the receipt is taken; if clocks disagree and there is none, the earliest one after it.
    """
    sent: dict[tuple[str, ...], list[tuple[float, Identity]]] = {}
    receipts: list[tuple[tuple[str, ...], Envelope]] = []
    for record in records:
        message = _message_of(record)
        if message is None:
            continue
        if message.is_receipt:
            receipts.append((message.name, record))
        else:
            sent.setdefault(message.name, []).append((record.mono_ms, identity_of(record)))
    for messages in sent.values():
        messages.sort()
    causes = {}
    for name, record in receipts:
        candidates = sent.get(name, [])
        if candidates:
            after = bisect_right(candidates, record.mono_ms, key=lambda candidate: candidate[0])
            causes[identity_of(record)] = candidates[max(after - 1, 0)][1]
    return causes


class RemoteCauses:
    """Finds the record on another node that led to a record, for records that come in the order of `in_order`.

    So it can be used while a run continues. A message that was sent is forgotten when it is received. Of the other
    messages the newest `most` are kept.
    """

    def __init__(self, *, most: int = MOST_UNRECEIVED) -> None:
        self._most = most
        self._sent: dict[tuple[str, ...], Identity] = {}

    def of(self, record: Envelope) -> Identity | None:
        """Return the record that `record`'s message was sent; None if `record` is no receipt, or the log lacks it."""
        message = _message_of(record)
        if message is None:
            return None
        if message.is_receipt:
            return self._sent.pop(message.name, None)
        self._sent.pop(message.name, None)
        self._sent[message.name] = identity_of(record)
        if len(self._sent) > self._most:
            del self._sent[next(iter(self._sent))]
        return None


class _Message(NamedTuple):
    """One end of a message: what identifies it at both ends, and whether this end received it."""

    name: tuple[str, ...]
    is_receipt: bool


def _message_of(record: Envelope) -> _Message | None:
    if type(record.data) not in _MESSAGE_TYPES:
        return None
    match record.data:
        case RequestSent(to=to) as data:
            return _Message(_name("request", f"broker-{to}", record.run, data), False)
        case ResponseSent() as data:
            return _Message(_name("response", record.node, record.run, data), False)
        case RequestReceived() as data:
            return _Message(_name("request", record.node, record.run, data), True)
        case ResponseReceived(sender=sender) as data:
            return _Message(_name("response", f"broker-{sender}", record.run, data), True)
    return None


def _name(
    kind: str, server: str, run: str, data: RequestSent | RequestReceived | ResponseSent | ResponseReceived
) -> tuple[str, ...]:
    """Return the name of a message at both ends: kind, serving node, run, API, client id and correlation id."""
    return (kind, server, run, data.api, data.client_id, str(data.correlation_id))
