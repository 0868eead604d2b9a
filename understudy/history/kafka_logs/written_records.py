"""`WrittenRecords` keeps the few records of an import that show which others are missing.

`find_missing` reads a whole run; an import streams, and the records that name nodes and epochs are enough for it.
"""

from __future__ import annotations

from typing import Final

from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import (
    RECORD_VERSION,
    BrokerRegistered,
    BrokersChanged,
    ControllerElected,
    ControllerReady,
    ElectionLost,
    Envelope,
    Payload,
    RequestSent,
    RunDescribed,
    type_name,
)
from understudy.history.reading.missing import MissingRecords, find_missing
from understudy.history.reading.run_records import RunRecords

_NAMING: Final = (BrokerRegistered, BrokersChanged, ControllerElected, ControllerReady, ElectionLost, RunDescribed)
"""Record types that name nodes or epochs."""


class WrittenRecords:
    """The records of an import that are evidence of missing ones, with the first and last of each incarnation."""

    def __init__(self) -> None:
        self._kept: list[Envelope] = []
        self._last: dict[tuple[str, int], Envelope] = {}
        self._receivers: set[int] = set()

    def add(self, log: EventLog, seq: int, mono_ms: float, payload: Payload) -> None:
        """Add a record that has been appended to a log."""
        name = (log.node, log.incarnation)
        record = Envelope(
            version=RECORD_VERSION,
            run=log.run,
            node=log.node,
            incarnation=log.incarnation,
            seq=seq,
            mono_ms=round(mono_ms, 3),
            wall_ms=0.0,
            type=type_name(payload),
            cause=None,
            zxid=log.zxid,
            controller_epoch=log.controller_epoch,
            data=payload,
        )
        before = self._last.get(name)
        self._last[name] = record
        is_new = before is None or before.controller_epoch != record.controller_epoch
        if isinstance(payload, RequestSent) and payload.to not in self._receivers:
            self._receivers.add(payload.to)
            is_new = True
        if is_new or isinstance(payload, _NAMING):
            self._kept.append(record)

    def missing(self) -> tuple[MissingRecords, ...]:
        """Return the records that are missing of the run, as `find_missing` finds them in all of its records."""
        kept = {(record.node, record.incarnation, record.seq): record for record in (*self._kept, *self._last.values())}
        return find_missing(RunRecords.from_envelopes(kept.values(), sequences=())) if kept else ()
