"""Reads the logs of runs, and writes their records, tables and findings as a part of a lake."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from understudy.history.lake.columns import FINDINGS, IntegerTooLarge, fits, run_table
from understudy.history.lake.layout import TABLES_FOLDER
from understudy.history.lake.parts import PartWriter, schema_digest
from understudy.history.lake.record_rows import RecordRows
from understudy.history.lake.written import Part, RunEntry
from understudy.history.metrics import row_tables
from understudy.history.metrics.incomplete_runs import first_evidence
from understudy.history.metrics.metric_tables import TABLES, RunMetrics
from understudy.history.metrics.row_tables import ROW_TABLES
from understudy.history.reading.file_marks import FileMark, mark
from understudy.history.reading.findings import LogFinding
from understudy.history.reading.missing import find_missing
from understudy.history.reading.run_records import RunRecords
from understudy.history.report.replay import Measured, read_and_measure, without_garbage_collection
from understudy.history.report.runs import RunFiles
from understudy.history.storage.paths import StoragePath, storage_path

GROWING_FILE = "file is growing"
"""Finding of a file that grew each time while it was read: the tables of metrics may lack its last records.
Ingest it again later."""

_GATHERED_ROWS = 50_000
_READINGS = 3


class RefusedRun(msgspec.Struct, frozen=True):
    """A run that cannot be in the lake."""

    run: str
    why: str
    others: tuple[str, ...] = ()
    """Other runs with records in its files, which their tables would lack."""


class WrittenRun(msgspec.Struct, frozen=True, kw_only=True):
    """A part whose files are on disk."""

    name: str
    part: Part
    runs: dict[str, RunEntry]
    refused: tuple[RefusedRun, ...] = ()


class _Refused(Exception):
    """Runs whose rows have been handed to the writer in part cannot be in the lake."""

    def __init__(self, refusals: Iterable[RefusedRun]) -> None:
        super().__init__()
        self.refusals = tuple(refusals)


def write_part(lake: StoragePath, groups: Sequence[RunFiles]) -> WrittenRun:
    """Write the tables of some runs as a new part.

    A run whose files also have records of other runs is refused. The remaining runs are written.

    Raises:
        OSError: a file cannot be read, or the part cannot be written.
    """
    refused: dict[str, RefusedRun] = {}
    with without_garbage_collection():
        while True:
            with PartWriter(lake) as writer:
                try:
                    runs = _write_runs(writer, [group for group in groups if group.run not in refused])
                except _Refused as error:
                    refused |= {refusal.run: refusal for refusal in error.refusals}
                else:
                    return WrittenRun(
                        name=writer.name,
                        part=writer.close(),
                        runs=runs,
                        refused=tuple(refused.values()),
                    )


def _write_runs(writer: PartWriter, groups: Iterable[RunFiles]) -> dict[str, RunEntry]:
    """Hand the rows of runs to the writer; return their entries.

    Raises:
        _Refused: runs cannot be in the lake.
    """
    records, tables = RecordRows(writer), _Tables(writer)
    entries: dict[str, RunEntry] = {}
    findings: list[tuple[str, LogFinding]] = []
    for group in groups:
        run = _measured(group)
        metrics = run.measured.runs[0]
        tables.add(metrics, run.records)
        if run.is_clean:
            records.add_clean(run.marks)
        else:
            records.add_damaged(group.run, run.marks)
        findings += [(group.run, finding) for finding in (*run.measured.findings, *run.growing)]
        entries[group.run] = RunEntry(
            ingest=writer.name, schema=schema_digest(), files=run.marks, lines=run.measured.lines, records=0,
            missing="" if metrics.is_complete else first_evidence(metrics.missing),
        )  # fmt: skip
    records.flush()
    tables.flush()
    findings += records.findings
    if findings:
        writer.add(f"{TABLES_FOLDER}/{FINDINGS}", run_table(FINDINGS, sorted(findings), {}))
    return {run: msgspec.structs.replace(entry, records=records.written[run]) for run, entry in entries.items()}


class _MeasuredRun(NamedTuple):
    """The tables and records of a run, and the marks of its files from before the reading.

    Attributes:
        growing: findings of files that grew each time while they were read.
    """

    measured: Measured
    records: RunRecords
    marks: tuple[FileMark, ...]
    growing: tuple[LogFinding, ...]

    @property
    def is_clean(self) -> bool:
        """Whether each line up to the marks is a record of this run, and no number is repeated."""
        return not self.growing and not self.measured.findings


def _measured(group: RunFiles) -> _MeasuredRun:
    """Measure a run. Its files are read again if one has grown meanwhile.

    Raises:
        _Refused: a file cannot be read, or has records of other runs or none.
    """
    try:
        for _ in range(_READINGS):
            marks = tuple(mark(file) for file in group.files)
            measured, records = read_and_measure(group)
            growing = [each.path for each in marks if storage_path(each.path).stat().st_size != each.bytes]
            if not growing:
                break
    except OSError as error:
        raise _Refused([RefusedRun(group.run, f"{error.filename} cannot be read: {error.strerror}")]) from None
    others = tuple(metrics.run for metrics in measured.runs if metrics.run != group.run)
    if others or not measured.runs:
        holds = f"has records of {', '.join(others)} too" if others else "has no record that can be read"
        why = f"{' and '.join(group.files[:3])} {holds}; give the logs of each run apart"
        raise _Refused([RefusedRun(group.run, why, others)])
    findings = tuple(LogFinding(file, 0, GROWING_FILE, "") for file in growing)
    return _MeasuredRun(measured, records[group.run], marks, findings)


class _Tables:
    """Gathers the rows of `TABLES` and `ROW_TABLES`, and hands them to the writer."""

    def __init__(self, writer: PartWriter) -> None:
        self._writer = writer
        self._rows: dict[str, list[tuple[str, msgspec.Struct]]] = {}
        self._started_ms: dict[str, float] = {}
        self._count = 0

    def add(self, metrics: RunMetrics, records: RunRecords) -> None:
        """Add the rows of a run."""
        self._started_ms[metrics.run] = metrics.totals.started_ms
        for name in TABLES:
            content = getattr(metrics, name)
            self._extend(name, metrics.run, content if isinstance(content, tuple) else (content,))
        missing = find_missing(records)
        for name in ROW_TABLES:
            self._extend(name, metrics.run, row_tables.rows(name, records, missing))

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
                table = run_table(name, rows, self._started_ms)
            except IntegerTooLarge:
                runs = sorted({run for run, row in rows if not fits(row)})
                why = f"its table {name} has a number of more than 64 bits"
                raise _Refused([RefusedRun(run, why) for run in runs]) from None
            if table.num_rows:
                self._writer.add(f"{TABLES_FOLDER}/{name}", table)
        self._rows.clear()
        self._count = 0
