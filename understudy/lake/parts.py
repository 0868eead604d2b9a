"""Writes parts of a lake: the rows of some runs, as one Parquet file for each table that has any.

The file of a table is `<table>/<part>.parquet`. A part's name is new each time, so that what a killed writer has left
is never mixed up with what counts.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from foundation.eventlog.metric_tables import TABLES, RunMetrics
from foundation.eventlog.reader import LogFinding, bounded_lines
from foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.lake.columns import RUN, IntegerTooLarge, fits, metric_table, record_schema, record_table, table_schema
from understudy.lake.lines import LineDecoder
from understudy.lake.manifest import FileMark, Part, RunEntry, sync_file, sync_folder
from understudy.lake.marks import mark
from understudy.replay.kernel import Measured, measure_files
from understudy.replay.runs import RunFiles

RECORDS = "records"
TABLES_FOLDER = "tables"
FINDINGS = "findings"

FINDINGS_SCHEMA = pa.schema(
    [
        RUN,
        pa.field("file", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("what", pa.string()),
        pa.field("count", pa.int64()),
    ]
)
"""The columns of the table of findings, after `foundation.eventlog.reader.LogFinding`."""

GROWING_FILE = "file is growing"
"""A file grew each time while it was read: the tables of metrics may lack its last records. Ingest it again later."""
NUMBER_TOO_LARGE = "number too large"
"""A record with a number of more than 64 bits, which the table of its type therefore lacks."""

_PART_NAME = re.compile(r"[0-9a-f]{16}")
_BUFFERED_BYTES = 64 * 1024 * 1024
_DECODED_BYTES = 16 * 1024 * 1024
_READINGS = 3


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


def schema_of(folder: str) -> pa.Schema:
    """Return the schema of a table by its folder, for example `tables/reigns`."""
    kind, _, name = folder.partition("/")
    if kind == RECORDS:
        return record_schema(name)
    return FINDINGS_SCHEMA if name == FINDINGS else table_schema(name)


def folders() -> list[str]:
    """Return the folders of all tables."""
    tables = (f"{TABLES_FOLDER}/{name}" for name in (*TABLES, FINDINGS))
    return [*tables, *(f"{RECORDS}/{name}" for name in PAYLOAD_BY_TYPE)]


def schema_digest() -> str:
    """Return a checksum of the schemas of all tables, by which older parts are recognised."""
    text = "".join(f"{folder} {schema_of(folder)}\n" for folder in sorted(folders()))
    return blake2b(text.encode(), digest_size=8).hexdigest()


def is_part_name(text: str) -> bool:
    """Return whether `PartWriter` may have made this name."""
    return _PART_NAME.fullmatch(text) is not None


def path_of(lake: Path, folder: str, part: str) -> Path:
    return lake / folder / f"{part}.parquet"


# ------------------------------------------------------------------ runs to parts


def write_part(lake: Path, groups: Sequence[RunFiles]) -> Written:
    """Write the tables of some runs as a new part.

    A run whose files have records of other runs too is refused, and the others are written.

    Raises:
        OSError: a file cannot be read, or the part cannot be written.
    """
    refused: list[Refusal] = []
    while True:
        taken = [group for group in groups if group.run not in {each.run for each in refused}]
        with PartWriter(lake) as writer:
            runs = {}
            for group in taken:
                entry = _write_run(writer, group)
                if isinstance(entry, Refusal):
                    refused.append(entry)
                    break
                runs[group.run] = entry
            else:
                return Written(name=writer.name, part=writer.close(), runs=runs, refused=tuple(refused))


def _write_run(writer: PartWriter, group: RunFiles) -> RunEntry | Refusal:
    try:
        measured, marks, extra = _measure(group)
    except OSError as error:
        return Refusal(group.run, f"{error.filename} cannot be read: {error.strerror}")
    others = tuple(metrics.run for metrics in measured.runs if metrics.run != group.run)
    if others or not measured.runs:
        holds = f"has records of {', '.join(others)} too" if others else "has no record that can be read"
        return Refusal(group.run, f"{' and '.join(group.files[:3])} {holds}; give the logs of each run apart", others)
    records, too_large = _write_records(writer, group.run, marks)
    try:
        _write_metrics(writer, measured.runs[0])
    except IntegerTooLarge:
        return Refusal(group.run, "its tables have a number of more than 64 bits")
    _write_findings(writer, group.run, sorted([*measured.findings, *extra, *too_large]))
    return RunEntry(part=writer.name, files=marks, lines=measured.lines, records=records)


def _measure(group: RunFiles) -> tuple[Measured, tuple[FileMark, ...], list[LogFinding]]:
    """Return the metrics of a run, and marks of the files as they were; read again where a file has grown meanwhile."""
    for _ in range(_READINGS):
        marks = tuple(mark(file) for file in group.files)
        measured = measure_files(group)
        growing = [each.path for each in marks if Path(each.path).stat().st_size != each.bytes]
        if not growing:
            return measured, marks, []
    return measured, marks, [LogFinding(file, 0, GROWING_FILE, "") for file in growing]


def _write_metrics(writer: PartWriter, metrics: RunMetrics) -> None:
    for name in TABLES:
        content = getattr(metrics, name)
        rows = content if isinstance(content, tuple) else (content,)
        if rows:
            writer.add(f"{TABLES_FOLDER}/{name}", metric_table(name, [(metrics.run, row) for row in rows]))


def _write_findings(writer: PartWriter, run: str, findings: Iterable[LogFinding]) -> None:
    names = FINDINGS_SCHEMA.names[1:]
    rows = [{"run": run} | {name: getattr(finding, name) for name in names} for finding in findings]
    if rows:
        writer.add(f"{TABLES_FOLDER}/{FINDINGS}", pa.Table.from_pylist(rows, schema=FINDINGS_SCHEMA))


def _write_records(writer: PartWriter, run: str, marks: Iterable[FileMark]) -> tuple[int, list[LogFinding]]:
    """Write the first record of each sequence number; return how many, and those that have too large numbers."""
    decoder = LineDecoder(PAYLOAD_BY_TYPE)
    batch = _RecordBatch(writer)
    seen: dict[tuple[str, int], set[int]] = {}
    for file in marks:
        for number, line in enumerate(_lines(file), 1):
            found = decoder.decode(line)
            envelope = found.envelope
            if envelope is None or envelope.run != run:
                continue
            numbers = seen.setdefault((envelope.node, envelope.incarnation), set())
            if envelope.seq in numbers:
                continue
            numbers.add(envelope.seq)
            if found.flaw:
                continue
            batch.add(found.type, envelope, _Place(file.path, number), len(line))
    batch.flush()
    return batch.records, batch.findings


def _lines(file: FileMark) -> Iterator[bytes]:
    """Yield the lines of a file as it was when it was marked."""
    left = file.bytes
    with Path(file.path).open("rb") as stream:
        for line in bounded_lines(stream):
            if left <= 0:
                return
            yield line[:left]
            left -= len(line) + 1


class _Place(NamedTuple):
    file: str
    line: int


class _RecordBatch:
    """Gathers records by type, and hands them to the writer as tables.

    Attributes:
        records: how many the writer has got.
        findings: the records with a number of more than 64 bits, which it has not got.
    """

    def __init__(self, writer: PartWriter) -> None:
        self.records = 0
        self.findings: list[LogFinding] = []
        self._writer = writer
        self._gathered: dict[str, list[tuple[Any, _Place]]] = {}
        self._bytes = 0

    def add(self, name: str, envelope: Any, place: _Place, size: int) -> None:
        """Add a record of `size` bytes."""
        self._gathered.setdefault(name, []).append((envelope, place))
        self._bytes += size
        if self._bytes >= _DECODED_BYTES:
            self.flush()

    def flush(self) -> None:
        for name, gathered in self._gathered.items():
            try:
                table = record_table(name, [envelope for envelope, _ in gathered])
            except IntegerTooLarge:
                table = record_table(name, [envelope for envelope, _ in gathered if fits(envelope)])
                self.findings += [
                    LogFinding(*place, NUMBER_TOO_LARGE, name) for envelope, place in gathered if not fits(envelope)
                ]
            if table.num_rows:
                self._writer.add(f"{RECORDS}/{name}", table)
            self.records += table.num_rows
        self._gathered.clear()
        self._bytes = 0


# ------------------------------------------------------------------ parts to parts


def copy_parts(lake: Path, parts: Mapping[str, Part], kept: Collection[str] | None = None) -> tuple[str, Part]:
    """Write the rows of some parts with one schema as one new part, and return its name.

    Args:
        kept: the runs whose rows are copied; None for all.

    Raises:
        OSError: the new part cannot be written, or a file of the old ones is gone.
    """
    (schema,) = {part.schema for part in parts.values()}
    runs = None if kept is None else pa.array(sorted(kept), pa.string())
    with PartWriter(lake, schema=schema) as writer:
        for folder in sorted({folder for part in parts.values() for folder in part.rows}):
            for name, part in parts.items():
                if folder in part.rows:
                    for table in _tables_in(path_of(lake, folder, name), runs):
                        writer.add(folder, table)
        return writer.name, writer.close()


def _tables_in(path: Path, runs: pa.Array | None) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            if runs is not None:
                table = table.filter(pc.is_in(table["run"], value_set=runs))
            if table.num_rows:
                yield table


# ------------------------------------------------------------------ files


class PartWriter:
    """Writes the files of one part. They are on disk when `close` returns, and do not count before a manifest says so.

    Args:
        schema: the digest of the schemas of what will be added; by default that of this software.
    """

    def __init__(self, lake: Path, *, schema: str | None = None) -> None:
        self.name = uuid.uuid4().hex[:16]
        self._lake = lake
        self._schema = schema
        self._buffers: dict[str, list[pa.Table]] = {}
        self._bytes = 0
        self._rows: dict[str, int] = {}
        self._open: dict[str, tuple[BinaryIO, pq.ParquetWriter]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream, writer in self._open.values():
            writer.is_open = False  # its destructor would write to the closed file
            with contextlib.suppress(OSError):  # what could not be written; the part does not count
                stream.close()

    def add(self, folder: str, rows: pa.Table) -> None:
        """Add rows to the table of a folder.

        Raises:
            OSError: rows cannot be written.
        """
        self._buffers.setdefault(folder, []).append(rows)
        self._rows[folder] = self._rows.get(folder, 0) + rows.num_rows
        self._bytes += rows.nbytes
        if self._bytes >= _BUFFERED_BYTES:
            self._flush()

    def close(self) -> Part:
        """Write everything to disk.

        Raises:
            OSError: it cannot be written.
        """
        self._flush()
        size = 0
        for stream, writer in self._open.values():
            writer.close()
            stream.flush()
            sync_file(stream.fileno())
            size += stream.tell()
            stream.close()
        for folder in self._open:
            sync_folder(self._lake / folder)
        return Part(schema=self._schema or schema_digest(), bytes=size, rows=self._rows)

    def _flush(self) -> None:
        for folder, tables in self._buffers.items():
            table = pa.concat_tables(tables)
            self._writer(folder, table.schema).write_table(table)
        self._buffers.clear()
        self._bytes = 0

    def _writer(self, folder: str, schema: pa.Schema) -> pq.ParquetWriter:
        if folder not in self._open:
            path = path_of(self._lake, folder, self.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            stream = path.open("xb")
            self._open[folder] = (stream, pq.ParquetWriter(stream, schema, compression="zstd"))
        return self._open[folder][1]
