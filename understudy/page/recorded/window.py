"""`Window`: a period of a run, for a page that shows only this period.

The state at its beginning results from the records before it. These are kept, except those that do not affect the state
some time later: requests, events of the controller, writes to ZooKeeper, and all but the last of the records of a log's
end, of what was acknowledged and of the commits of a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from understudy.foundation.eventlog import records as types
from understudy.foundation.eventlog.records import (
    Envelope,
    HighWatermarkChanged,
    OffsetsCommitted,
    RecordsAcknowledged,
    RecordsAppended,
)
from understudy.foundation.times import micros

SETTLING_US: Final = 10_000_000
"""Microseconds before the window from which every record is kept: what was under way then may end in the window."""
_PASSING: Final = frozenset(
    {
        types.ContextAtIdle,
        types.EventEnded,
        types.EventPreempted,
        types.EventQueued,
        types.EventStarted,
        types.IsrProposed,
        types.IsrResult,
        types.RequestDetail,
        types.RequestFailed,
        types.RequestQueued,
        types.RequestReceived,
        types.RequestSent,
        types.ResponseReceived,
        types.ResponseSent,
        types.StillRunning,
        types.WatchFiredRecord,
        types.ZkWrite,
        types.ZkWriteDone,
    }
)


class Window(NamedTuple):
    """A part of a run, in microseconds after its first record; `to_us` is included, and may be None for the end."""

    from_us: int = 0
    to_us: int | None = None

    def records(self, records: Sequence[Envelope]) -> Iterator[Envelope]:
        """Yield the records of the window, those before it from which its state results, and the first of the run, from
        which moments count."""
        if not records:
            return
        start = micros(records[0].mono_ms)
        settling = start + self.from_us - SETTLING_US
        before = [record for record in records if micros(record.mono_ms) < settling]
        yield from before[:1]
        yield from _lasting(before[1:])
        end = None if self.to_us is None else start + self.to_us
        for record in records:
            us = micros(record.mono_ms)
            if us >= settling and (end is None or us <= end):
                yield record


def _lasting(records: Iterable[Envelope]) -> Iterator[Envelope]:
    newest: dict[tuple[object, ...], int] = {}
    kept = [record for record in records if type(record.data) not in _PASSING]
    for number, record in enumerate(kept):
        newest[_replaced(record, number)] = number
    for number, record in enumerate(kept):
        if newest[_replaced(record, number)] == number:
            yield record


def _replaced(record: Envelope, number: int) -> tuple[object, ...]:
    """Return a key; a later record with an equal key replaces a record. One that is never replaced has a unique key."""
    match record.data:
        case (
            RecordsAppended(topic=topic, partition=partition)
            | HighWatermarkChanged(topic=topic, partition=partition)
            | RecordsAcknowledged(topic=topic, partition=partition)
        ):
            return (record.type, record.node, topic, partition)
        case OffsetsCommitted(group=group, offsets=offsets):
            return (record.type, record.node, group, *((each.topic, each.partition) for each in offsets))
    return (number,)
