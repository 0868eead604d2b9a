"""`Window`: a part of a run's time, for a page that shows only this part.

The state at its beginning is made of the records before it, so these are kept, but for those that leave no trace in the
state some time later: requests, events of the controller, writes to ZooKeeper, and all but the last of the records that
say where a log ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from understudy.foundation.eventlog import records as types
from understudy.foundation.eventlog.records import Envelope, HighWatermarkChanged, RecordsAppended
from understudy.history.reading.run_records import micros

SETTLING_US: Final = 10_000_000
"""So long before the window every record is kept: what was under way then may end in it."""
_PASSING: Final = frozenset(
    {
        types.ContextAtIdle,
        types.EventEnded,
        types.EventPreempted,
        types.EventQueued,
        types.EventStarted,
        types.IsrProposed,
        types.IsrResult,
        types.OffsetsCommitted,
        types.OffsetsRemoved,
        types.RecordsAcknowledged,
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
        """Yield the records of the window, and those before it that its state is made of."""
        if not records:
            return
        start = micros(records[0].mono_ms)
        settling = start + self.from_us - SETTLING_US
        before = [record for record in records if micros(record.mono_ms) < settling]
        yield from _lasting(before)
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
    """What a later record with an equal value replaces; a value of its own for a record that nothing replaces."""
    match record.data:
        case RecordsAppended(topic=topic, partition=partition) | HighWatermarkChanged(topic=topic, partition=partition):
            return (record.type, record.node, topic, partition)
    return (number,)
