"""`WrittenRecords` keeps the few records of an import that show which others are missing.

`find_missing` reads a whole run; an import streams, and the records that name nodes and epochs are enough for it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

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
from understudy.history.reading.run_builder import run_records_of

_NAMING: Final = (BrokerRegistered, BrokersChanged, ControllerElected, ControllerReady, ElectionLost, RunDescribed)
"""Record types that name nodes or epochs."""


class _Written(NamedTuple):
    run: str
    seq: int
    mono_ms: float
    controller_epoch: int
    payload: Payload


class WrittenRecords:
    """The records of an import that are evidence of missing ones, with the first and last of each incarnation."""

    def __init__(self) -> None:
        self._kept: list[Envelope] = []
        self._last: dict[tuple[str, int], _Written] = {}
        self._receivers: set[int] = set()

    def add(self, log: EventLog, seq: int, mono_ms: float, payload: Payload) -> None:
        """Add a record that has been appended to a log."""
        name = (log.node, log.incarnation)
        before = self._last.get(name)
        written = self._last[name] = _Written(log.run, seq, mono_ms, log.controller_epoch, payload)
        is_new = before is None or before.controller_epoch != log.controller_epoch
        if type(payload) is RequestSent and payload.to not in self._receivers:
            self._receivers.add(payload.to)
            is_new = True
        if is_new or type(payload) in _NAMING:
            self._kept.append(_envelope(name, written))

    def missing(self) -> tuple[MissingRecords, ...]:
        """Return the records that are missing of the run, as `find_missing` finds them in all of its records."""
        last = (_envelope(name, written) for name, written in self._last.items())
        kept = {(record.node, record.incarnation, record.seq): record for record in (*self._kept, *last)}
        return find_missing(run_records_of(kept.values(), sequences=())) if kept else ()


def _envelope(name: tuple[str, int], written: _Written) -> Envelope:
    return Envelope(
        version=RECORD_VERSION,
        run=written.run,
        node=name[0],
        incarnation=name[1],
        seq=written.seq,
        mono_ms=round(written.mono_ms, 3),
        wall_ms=0.0,
        type=type_name(written.payload),
        cause=None,
        zxid=0,
        controller_epoch=written.controller_epoch,
        data=written.payload,
    )
