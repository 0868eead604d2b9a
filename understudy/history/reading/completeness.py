"""`judge_completeness` says which records of a run are missing, in the form in which the invariants need it.

The verdict about whole stretches is `find_missing`. Added to it here are lines and files that cannot be read, and the
ends of logs that no other record attests: a log whose process was killed is complete, but so is one that has lost its
end, as far as it shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from understudy.checks.missing import MissingEvidence, MissingStretch
from understudy.foundation.eventlog.files import log_files
from understudy.foundation.eventlog.records import Envelope, LogSeen, ProcessExiting, ProcessStarted
from understudy.foundation.times import micros
from understudy.history.reading.clocks import Incarnation
from understudy.history.reading.findings import (
    GAP,
    LINE_TOO_LONG,
    NOT_A_RECORD,
    REPEAT,
    UNKNOWN_TYPE,
    UNKNOWN_VERSION,
    UNREADABLE_FILE,
    LogFinding,
)
from understudy.history.reading.missing import NOT_ENDED, find_missing
from understudy.history.reading.run_builder import run_records_of

UNREAD: Final = frozenset({LINE_TOO_LONG, NOT_A_RECORD, REPEAT, UNKNOWN_TYPE, UNKNOWN_VERSION, UNREADABLE_FILE})
"""Findings about lines and files that hold records which cannot be read. An empty file and a torn last line are not
among them: a process that is killed may leave them, and whether its log has lost its end follows from other records."""


class Completeness(NamedTuple):
    """The completeness of a run.

    Attributes:
        stretches: the stretches in which records are missing or may be.
        missing: the missing records, each as a sentence without a full stop; empty if the run is complete as far as its
            records show.
        notes: the findings about the logs that do not mean that records are missing.
    """

    stretches: tuple[MissingStretch, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]

    def evidence(self, *, has_znodes: bool) -> MissingEvidence:
        """Return what the checks need.

        Args:
            has_znodes: whether the history of the znodes is at hand.
        """
        return MissingEvidence(self.stretches, has_znodes=has_znodes)


def judge_completeness(
    records: Sequence[Envelope], findings: Iterable[LogFinding] = (), *, is_running: bool = False
) -> Completeness:
    """Judge a run by its records and by the findings of their reader.

    Args:
        records: the records of all runs of one cluster in a folder, in any order, by one clock.
        findings: of the reader of the records.
        is_running: whether the run has not ended yet, so that the testbed has not written its last record.
    """
    first_us = min((micros(record.mono_ms) for record in records), default=0)
    stretches, missing, notes = [], [], []
    for found in find_missing(run_records_of(records)):
        if found.kind == NOT_ENDED and is_running:
            notes.append(f"{found.node} incarnation {found.incarnation}: the run has not ended")
            continue
        from_ms = (first_us + found.from_us) / 1000 if found.from_us else -math.inf
        stretches.append(MissingStretch(found.node, found.incarnation, from_ms))
        missing.append(str(found).removeprefix("records missing: "))
    for finding in findings:
        if finding.kind in UNREAD:
            stretches.append(_stretch_of(Path(finding.file)))
            missing.append(str(finding))
        elif finding.kind != GAP:
            notes.append(str(finding))
    return Completeness((*stretches, *_ends_without_attestation(records)), tuple(missing), tuple(notes))


def _ends_without_attestation(records: Iterable[Envelope]) -> Iterator[MissingStretch]:
    """Yield the ends of the incarnations whose last record is not known to be the last one.

    It is known if it is `ProcessExiting`, or if the next incarnation or the testbed has seen the log.
    """
    ends: dict[Incarnation, Envelope] = {}
    attested: set[Incarnation] = set()
    for record in records:
        own, data = (record.node, record.incarnation), record.data
        if own not in ends or record.seq > ends[own].seq:
            ends[own] = record
        if isinstance(data, LogSeen):
            attested.add((data.node, data.incarnation))
        elif isinstance(data, ProcessStarted) and data.after_seq:
            attested.add((record.node, record.incarnation - 1))
    for (node, incarnation), last in ends.items():
        if (node, incarnation) not in attested and not isinstance(last.data, ProcessExiting):
            yield MissingStretch(node, incarnation, last.mono_ms, is_certain=False)


def _stretch_of(path: Path) -> MissingStretch:
    """Return the stretch of a line of a file: it may be anywhere in its incarnation."""
    named = next((file for file in log_files(path.parent) if file.path == path), None)
    return MissingStretch() if named is None else MissingStretch(named.node, named.incarnation)
