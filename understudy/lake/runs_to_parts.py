"""Reads the logs of runs, and writes their records, tables and findings as a part of a lake."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from foundation.eventlog import row_tables
from foundation.eventlog.metric_tables import TABLES, RunMetrics
from foundation.eventlog.reader import LogFinding, bounded_lines
from foundation.eventlog.records import PAYLOAD_BY_TYPE
from foundation.eventlog.row_tables import ROW_TABLES
from foundation.eventlog.run_records import RunRecords
from understudy.lake.columns import IntegerTooLarge, fits, record_table, run_table
from understudy.lake.lines import LineDecoder
from understudy.lake.manifest import FileMark, Part, RunEntry
from understudy.lake.marks import mark
from understudy.lake.parts import FINDINGS, FINDINGS_SCHEMA, RECORDS, TABLES_FOLDER, PartWriter
from understudy.replay.kernel import Measured, read_and_measure, without_garbage_collection
from understudy.replay.runs import RunFiles

GROWING_FILE = "file is growing"
"""A file grew each time while it was read: the tables of metrics may lack its last records. Ingest it again later."""
NUMBER_TOO_LARGE = "number too large"
"""A record with a number of more than 64 bits, which the table of its type therefore lacks."""


_DECODED_BYTES = 16 * 1024 * 1024
_GATHERED_ROWS = 50_000
_READINGS = 3

_Place: TypeAlias = tuple[str, int]
"""A file and the number of a line in it."""


class Refusal(msgspec.Struct, frozen=True):
    """A run that cannot be in the lake."""

    run: str
    why: str
    others: tuple[str, ...] = ()
    """Runs that have records in its files, and whose tables would lack them."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A part whose files are on disk."""

    name: str
    part: Part
    runs: dict[str, RunEntry]
    refused: tuple[Refusal, ...] = ()


class _Refused(Exception):
    """Runs whose rows have been handed to the writer in part cannot be in the lake."""

    def __init__(self, refusals: Iterable[Refusal]) -> None:
        super().__init__()
        self.refusals = tuple(refusals)


def write_part(lake: Path, groups: Sequence[RunFiles]) -> Written:
    """Write the tables of some runs as a new part.

    A run whose files have records of other runs too is refused, and the others are written.

    Raises:
        OSError: a file cannot be read, or the part cannot be written.
    """
    refused: dict[str, Refusal] = {}
    with without_garbage_collection():
        while True:
            with PartWriter(lake) as writer:
                try:
                    runs = _write_runs(writer, [group for group in groups if group.run not in refused])
                except _Refused as error:
                    refused |= {refusal.run: refusal for refusal in error.refusals}
                else:
                    return Written(name=writer.name, part=writer.close(), runs=runs, refused=tuple(refused.values()))


def _write_runs(writer: PartWriter, groups: Iterable[RunFiles]) -> dict[str, RunEntry]:
    records, tables = _Records(writer), _Tables(writer)
    entries: dict[str, RunEntry] = {}
    findings: list[tuple[str, LogFinding]] = []
    for group in groups:
        measured, found, marks, growing = _measured(group)
        tables.add(measured.runs[0], found)
        records.add(group.run, marks)
        findings += [(group.run, finding) for finding in (*measured.findings, *growing)]
        entries[group.run] = RunEntry(part=writer.name, files=marks, lines=measured.lines, records=0)
    records.flush()
    tables.flush()
    _write_findings(writer, [*findings, *records.findings])
    return {run: msgspec.structs.replace(entry, records=records.written.get(run, 0)) for run, entry in entries.items()}


def _measured(group: RunFiles) -> tuple[Measured, RunRecords, tuple[FileMark, ...], list[LogFinding]]:
    """Return what was measured of a run, its records, marks of the files as they were, and findings of growing files.

    The files are read again where one has grown meanwhile.
    """
    try:
        for _ in range(_READINGS):
            marks = tuple(mark(file) for file in group.files)
            measured, records = read_and_measure(group)
            growing = [each.path for each in marks if Path(each.path).stat().st_size != each.bytes]
            if not growing:
                break
    except OSError as error:
        raise _Refused([Refusal(group.run, f"{error.filename} cannot be read: {error.strerror}")]) from None
    others = tuple(metrics.run for metrics in measured.runs if metrics.run != group.run)
    if others or not measured.runs:
        holds = f"has records of {', '.join(others)} too" if others else "has no record that can be read"
        why = f"{' and '.join(group.files[:3])} {holds}; give the logs of each run apart"
        raise _Refused([Refusal(group.run, why, others)])
    return measured, records[group.run], marks, [LogFinding(file, 0, GROWING_FILE, "") for file in growing]


def _write_findings(writer: PartWriter, findings: Collection[tuple[str, LogFinding]]) -> None:
    names = FINDINGS_SCHEMA.names[1:]
    rows = [{"run": run} | {name: getattr(finding, name) for name in names} for run, finding in sorted(findings)]
    if rows:
        writer.add(f"{TABLES_FOLDER}/{FINDINGS}", pa.Table.from_pylist(rows, schema=FINDINGS_SCHEMA))


class _Tables:
    """Gathers the rows of all tables of `RUN_TABLES`, and hands them to the writer."""

    def __init__(self, writer: PartWriter) -> None:
        self._writer = writer
        self._rows: dict[str, list[tuple[str, msgspec.Struct]]] = {}
        self._count = 0

    def add(self, metrics: RunMetrics, records: RunRecords) -> None:
        """Add the rows of a run."""
        for name in TABLES:
            content = getattr(metrics, name)
            self._extend(name, metrics.run, content if isinstance(content, tuple) else (content,))
        for name in ROW_TABLES:
            self._extend(name, metrics.run, row_tables.rows(name, records))

    def _extend(self, name: str, run: str, rows: Iterable[msgspec.Struct]) -> None:
        left = iter(rows)
        while some := [(run, row) for row in islice(left, _GATHERED_ROWS)]:
            self._rows.setdefault(name, []).extend(some)
            self._count += len(some)
            if self._count >= _GATHERED_ROWS:
                self.flush()

    def flush(self) -> None:
        for name, rows in self._rows.items():
            try:
                table = run_table(name, rows)
            except IntegerTooLarge:
                runs = sorted({run for run, row in rows if not fits(row)})
                why = f"its table {name} has a number of more than 64 bits"
                raise _Refused([Refusal(run, why) for run in runs]) from None
            if table.num_rows:
                self._writer.add(f"{TABLES_FOLDER}/{name}", table)
        self._rows.clear()
        self._count = 0


class _Records:
    """Gathers the first record of each sequence number by type, and hands them to the writer.

    Attributes:
        written: how many records of each run the writer has got.
        findings: the records with a number of more than 64 bits, which it has not got.
    """

    def __init__(self, writer: PartWriter) -> None:
        self.written: dict[str, int] = {}
        self.findings: list[tuple[str, LogFinding]] = []
        self._writer = writer
        self._decoder = LineDecoder(PAYLOAD_BY_TYPE)
        self._gathered: dict[str, tuple[list[Any], list[_Place]]] = {name: ([], []) for name in PAYLOAD_BY_TYPE}
        self._bytes = 0

    def add(self, run: str, marks: Iterable[FileMark]) -> None:
        """Read the records of a run."""
        seen: dict[tuple[str, int], set[int]] = {}
        count = 0
        decode, gathered = self._decoder.decode, self._gathered
        for file in marks:
            for number, line in enumerate(_lines(file), 1):
                envelope, name, flaw, _ = decode(line)
                if envelope is None or envelope.run != run:
                    continue
                numbers = seen.get((envelope.node, envelope.incarnation))
                if numbers is None:
                    numbers = seen[envelope.node, envelope.incarnation] = set()
                if envelope.seq in numbers:
                    continue
                numbers.add(envelope.seq)
                if flaw:
                    continue
                envelopes, places = gathered[name]
                envelopes.append(envelope)
                places.append((file.path, number))
                count += 1
                self._bytes += len(line)
                if self._bytes >= _DECODED_BYTES:
                    self.flush()
        self.written[run] = self.written.get(run, 0) + count

    def flush(self) -> None:
        for name, (envelopes, places) in self._gathered.items():
            if not envelopes:
                continue
            try:
                table = record_table(name, envelopes)
            except IntegerTooLarge:
                self._note_too_large(name, envelopes, places)
                table = record_table(name, [envelope for envelope in envelopes if fits(envelope)])
            if table.num_rows:
                self._writer.add(f"{RECORDS}/{name}", table)
            envelopes.clear()
            places.clear()
        self._bytes = 0

    def _note_too_large(self, name: str, envelopes: Iterable[Any], places: Iterable[_Place]) -> None:
        for envelope, place in zip(envelopes, places, strict=True):
            if not fits(envelope):
                self.findings.append((envelope.run, LogFinding(*place, NUMBER_TOO_LARGE, name)))
                self.written[envelope.run] = self.written.get(envelope.run, 0) - 1


def _lines(file: FileMark) -> Iterator[bytes]:
    """Yield the lines of a file as it was when it was marked."""
    left = file.bytes
    with Path(file.path).open("rb") as stream:
        for line in bounded_lines(stream):
            if left <= 0:
                return
            yield line[:left]
            left -= len(line) + 1
