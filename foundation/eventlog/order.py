"""Puts the records of many nodes into one order.

Processes of one machine share the monotonic clock, so the clock orders their records, to the microsecond. Where it does
not, two facts do: an incarnation's sequence numbers, and that a message is sent before it is received.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from foundation.eventlog.records import Envelope, RequestReceived, RequestSent, ResponseReceived, ResponseSent

Writer: TypeAlias = tuple[str, str, int]
"""Run, node and incarnation that wrote a record."""


class _Identity(NamedTuple):
    writer: Writer
    seq: int


_Head: TypeAlias = tuple[tuple[float, str, int, int], Writer]


def writer_of(record: Envelope) -> Writer:
    return (record.run, record.node, record.incarnation)


def order_key(record: Envelope) -> tuple[float, str, int, int]:
    """Return the key that orders records by clock; what follows the clock only makes the order total."""
    return (record.mono_ms, record.node, record.incarnation, record.seq)


def in_order(records: Iterable[Envelope]) -> Iterator[Envelope]:
    """Yield `records` by clock, but never against an incarnation's sequence and never effect before cause.

    A `RequestReceived` comes after its `RequestSent` and a `ResponseReceived` after its `ResponseSent`, where the log
    holds both. If the clocks of different machines contradict each other so that no record could come next, the
    earliest does.
    """
    merge = _Merge(records)
    while (record := merge.next()) is not None:
        yield record


class _Merge:
    """One queue per writer, merged by clock; a head whose cause has not come yet waits for it."""

    def __init__(self, records: Iterable[Envelope]) -> None:
        self._queues: dict[Writer, list[Envelope]] = {}
        for record in sorted(records, key=lambda record: (writer_of(record), record.seq)):
            self._queues.setdefault(writer_of(record), []).append(record)
        self._positions = dict.fromkeys(self._queues, 0)
        self._causes = _remote_causes(record for queue in self._queues.values() for record in queue)
        self._emitted: set[_Identity] = set()
        self._held: dict[_Identity, list[_Head]] = {}
        self._heads: list[_Head] = [(order_key(queue[0]), writer) for writer, queue in self._queues.items()]
        heapq.heapify(self._heads)

    def next(self) -> Envelope | None:
        while self._heads or self._held:
            if not self._heads:
                self._release_earliest()
            head = heapq.heappop(self._heads)
            record = self._queues[head[1]][self._positions[head[1]]]
            cause = self._causes.get(_identity(record))
            if cause is None or cause in self._emitted:
                self._advance(head[1], _identity(record))
                return record
            self._held.setdefault(cause, []).append(head)
        return None

    def _advance(self, writer: Writer, emitted: _Identity) -> None:
        self._emitted.add(emitted)
        for head in self._held.pop(emitted, ()):
            heapq.heappush(self._heads, head)
        self._positions[writer] += 1
        if self._positions[writer] < len(self._queues[writer]):
            heapq.heappush(self._heads, (order_key(self._queues[writer][self._positions[writer]]), writer))

    def _release_earliest(self) -> None:
        """Release the earliest head without its cause; called when every head waits for another."""
        cause, earliest = min(
            ((cause, head) for cause, heads in self._held.items() for head in heads), key=lambda held: held[1]
        )
        self._held[cause].remove(earliest)
        if not self._held[cause]:
            del self._held[cause]
        self._causes.pop(_identity(self._queues[earliest[1]][self._positions[earliest[1]]]), None)
        self._heads.append(earliest)


def _identity(record: Envelope) -> _Identity:
    return _Identity(writer_of(record), record.seq)


def _remote_causes(records: Iterable[Envelope]) -> dict[_Identity, _Identity]:
    """Return, for each record of a received message, the record that it was sent.

    Correlation ids begin again with every connection, so among the messages of one name the latest sent before the
    receipt is meant; where clocks disagree and there is none, the earliest after it.
    """
    sent: dict[tuple[str, ...], list[tuple[float, _Identity]]] = {}
    receipts: list[tuple[tuple[str, ...], Envelope]] = []
    for record in records:
        match record.data:
            case RequestSent() as data:
                sent.setdefault(_message("request", f"broker-{data.to}", record.run, data), []).append(_moment(record))
            case ResponseSent() as data:
                sent.setdefault(_message("response", record.node, record.run, data), []).append(_moment(record))
            case RequestReceived() as data:
                receipts.append((_message("request", record.node, record.run, data), record))
            case ResponseReceived() as data:
                receipts.append((_message("response", f"broker-{data.sender}", record.run, data), record))
            case _:
                pass
    for messages in sent.values():
        messages.sort()
    causes = {}
    for name, record in receipts:
        candidates = sent.get(name, [])
        if candidates:
            after = bisect_right(candidates, record.mono_ms, key=lambda candidate: candidate[0])
            causes[_identity(record)] = candidates[max(after - 1, 0)][1]
    return causes


def _moment(record: Envelope) -> tuple[float, _Identity]:
    return (record.mono_ms, _identity(record))


def _message(
    kind: str, server: str, run: str, data: RequestSent | RequestReceived | ResponseSent | ResponseReceived
) -> tuple[str, ...]:
    """Return what identifies a message at both ends: kind, serving node, run, API, client id and correlation id."""
    return (kind, server, run, data.api, data.client_id, str(data.correlation_id))
