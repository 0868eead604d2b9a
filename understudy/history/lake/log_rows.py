"""Reads parts of event-log files as rows: the place of each line, its flaws, its envelope and its payload.

A damaged line is a row with `flaws`; none is left out. For flaws of the sequence (a gap, a repeat, a clock that went
back), a line is compared with the line before it of the same incarnation, which may be in the part or file before.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, Payload
from understudy.history.lake.columns import (
    ENVELOPE_FIELDS,
    IntegerTooLarge,
    column,
    fits,
    payload_columns,
    struct_type,
)
from understudy.history.reading.findings import EMPTY_FILE, NOT_A_RECORD, TORN_LINE, UNREADABLE_FILE
from understudy.history.reading.lines import MAX_LINE_BYTES, EventLine, LineDecoder, bounded_lines, rest_of_line
from understudy.history.reading.order import Writer
from understudy.history.reading.sequences import RecordSequence
from understudy.history.storage.paths import storage_path

_BATCH_ROWS = 8192
_BATCH_BYTES = 8 * 1024 * 1024
_BLOCK_BYTES = 64 * 1024
_FILE_NUMBER = re.compile(r"(.+-)(\d{4,9})(\.jsonl)")

_TYPE = pa.field("type", pa.string())
_HEADER_FIELDS = (*ENVELOPE_FIELDS[:6], _TYPE, *ENVELOPE_FIELDS[6:])
_PLACE_FIELDS = (
    pa.field("version", pa.int64()),
    pa.field("flaws", pa.list_(pa.field("element", pa.string()))),
    pa.field("file", pa.string()),
    pa.field("offset", pa.int64()),
)


class BadSource(ValueError):
    """A path or option of the data source cannot be used. The message names it and the expected values."""


class FileRange(NamedTuple):
    """The lines of a file that begin from `begin` up to but not at `end`."""

    file: str
    begin: int
    end: int


def log_row_schema(types: Sequence[str] | None) -> pa.Schema:
    """Return the columns: a line's envelope, its `data` as text or a column for each type, its flaws and its place."""
    if types is None:
        payloads = [pa.field("data", pa.string())]
    else:
        payloads = [pa.field(name, struct_type(PAYLOAD_BY_TYPE[name])) for name in types]
    return pa.schema([*_HEADER_FIELDS, *payloads, *_PLACE_FIELDS])


def read_ranges(
    ranges: Iterable[FileRange], types: Sequence[str] | None, *, is_stream: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the lines in `ranges`.

    Args:
        types: the record types to decode; None for all records with their `data` as text.
        is_stream: whether the files may be growing, so that the last line need not be the last of its file.

    Raises:
        BadSource: a file does not exist on this machine.
    """
    rows = _Rows(types)
    decoder = LineDecoder(types or ())
    for part in ranges:
        for row in _rows_of(part, decoder, is_stream=is_stream):
            rows.add(row)
            if rows.is_full:
                yield rows.take()
    yield rows.take()


class _Row(NamedTuple):
    file: str
    offset: int
    size: int
    flaws: tuple[str, ...]
    line: EventLine


_NO_LINE = EventLine(None, "", "")


def _rows_of(part: FileRange, decoder: LineDecoder, *, is_stream: bool) -> Iterator[_Row]:
    try:
        with storage_path(part.file).open("rb") as stream:
            yield from _rows_of_open(part, stream, decoder, is_stream=is_stream)
    except FileNotFoundError:
        raise BadSource(
            f"{part.file} was listed where the query was planned and does not exist where it is read; event logs must "
            "be in a folder that every worker sees under the same path"
        ) from None
    except OSError as error:
        if is_stream:
            raise
        yield _Row(part.file, 0, 0, (f"{UNREADABLE_FILE}: {error.strerror}",), _NO_LINE)


def _rows_of_open(part: FileRange, stream: BinaryIO, decoder: LineDecoder, *, is_stream: bool) -> Iterator[_Row]:
    sequences = _Sequences(_lines_before(part, stream, decoder))
    offset = max(part.begin - 1, 0)
    stream.seek(offset)
    if part.begin > 0:
        offset += rest_of_line(stream)  # belongs to the range before
    if part.begin == part.end == 0:
        yield _Row(part.file, 0, 0, (EMPTY_FILE,), _NO_LINE)
    last: _Row | None = None
    for text, size in bounded_lines(stream) if offset < part.end else ():
        line = decoder.decode(text)
        if last is not None:
            yield last
        last = _Row(part.file, offset, len(text), sequences.flaws(line), line)
        offset += size
        if offset >= part.end:
            break
    if last is not None:
        is_torn = last.line.envelope is None and not is_stream and not stream.read(1)
        yield last._replace(flaws=_torn(last.flaws)) if is_torn else last


def _torn(flaws: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(TORN_LINE if flaw == NOT_A_RECORD else flaw for flaw in flaws)


def _lines_before(part: FileRange, stream: BinaryIO, decoder: LineDecoder) -> list[EventLine]:
    """Return some lines before a range, or the last ones of the file before; at least one envelope if there is any.

    Not all lines are needed, only the sequence number that the range continues.
    """
    if part.begin > 0:
        return _lines_until(stream, part.begin - 1, decoder)
    match = _FILE_NUMBER.fullmatch(part.file)
    if match is None or int(match[2]) < 2:
        return []
    try:
        with storage_path(f"{match[1]}{int(match[2]) - 1:04d}{match[3]}").open("rb") as before:
            return _lines_until(before, before.seek(0, 2) - 1, decoder)
    except OSError:
        return []


def _lines_until(stream: BinaryIO, position: int, decoder: LineDecoder) -> list[EventLine]:
    """Return lines that end with the one that holds the byte at `position`."""
    stream.seek(max(position, 0))
    end = position + rest_of_line(stream)
    size = _BLOCK_BYTES
    while True:
        begin = max(end - size, 0)
        stream.seek(begin)
        texts = stream.read(end - begin).split(b"\n")
        lines = [decoder.decode(text) for text in texts[begin > 0 :]]
        if begin == 0 or size > 2 * MAX_LINE_BYTES or any(line.envelope is not None for line in lines):
            return lines
        size *= 2


class _Sequences:
    """Compares each line's sequence number and clock with the line before it of the same incarnation."""

    def __init__(self, before: Iterable[EventLine]) -> None:
        self._sequences: defaultdict[Writer, RecordSequence] = defaultdict(RecordSequence)
        for line in before:
            self.flaws(line)

    def flaws(self, line: EventLine) -> tuple[str, ...]:
        """Return all flaws of the next line."""
        own = (f"{line.flaw}: {line.what}" if line.what else line.flaw,) if line.flaw else ()
        envelope = line.envelope
        if envelope is None:
            return own
        sequence = self._sequences[envelope.run, envelope.node, envelope.incarnation]
        return (*own, *(kind for kind, _ in sequence.flaws(envelope.seq, envelope.mono_ms)))


# ------------------------------------------------------------------ rows to columns


class _Rows:
    """Gathers rows and returns them as Arrow record batches."""

    def __init__(self, types: Sequence[str] | None) -> None:
        self._types = types
        self._wanted = None if types is None else frozenset(types)
        self._schema = log_row_schema(types)
        self._rows: list[_Row] = []
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return len(self._rows) >= _BATCH_ROWS or self._bytes >= _BATCH_BYTES

    def add(self, row: _Row) -> None:
        """Add a row, unless it is a record of a type that is not wanted and has no flaw."""
        if self._wanted is None or row.flaws or row.line.type in self._wanted:
            self._rows.append(row)
            self._bytes += row.size

    def take(self) -> pa.RecordBatch:
        """Return the rows so far as a batch, and begin another."""
        rows, self._rows, self._bytes = self._rows, [], 0
        try:
            return self._batch(rows)
        except IntegerTooLarge:
            return self._batch([row if fits(row.line.envelope) else _without_envelope(row) for row in rows])

    def _batch(self, rows: list[_Row]) -> pa.RecordBatch:
        texts: list[str | None] = []
        if self._types is None:
            rows, texts = _with_texts(rows)
        lines = [row.line for row in rows]
        columns = [_header_column(field, lines) for field in _HEADER_FIELDS]
        if self._types is None:
            columns.append(pa.array(texts, pa.string()))
        else:
            columns += [_typed_column(name, lines) for name in self._types]
        version, flaws, file, offset = _PLACE_FIELDS
        columns += [
            _header_column(version, lines),
            pa.array([row.flaws for row in rows], flaws.type),
            pa.array([row.file for row in rows], file.type),
            pa.array([row.offset for row in rows], offset.type),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _header_column(field: pa.Field, lines: list[EventLine]) -> pa.Array:
    if field is _TYPE:
        return pa.array([line.type or None for line in lines], field.type)
    get = attrgetter(field.name)
    return column([None if line.envelope is None else get(line.envelope) for line in lines], field.type)


def _with_texts(rows: list[_Row]) -> tuple[list[_Row], list[str | None]]:
    """Return each row with its `data` as text; a row whose data is not UTF-8 gets a flaw instead."""
    kept, texts = [], []
    for row in rows:
        text = None
        if row.line.envelope is not None:
            try:
                text = str(row.line.envelope.data, "utf-8")
            except UnicodeDecodeError:
                row = row._replace(flaws=(*row.flaws, f"{NOT_A_RECORD}: {row.line.type}"))
        kept.append(row)
        texts.append(text)
    return kept, texts


def _typed_column(name: str, lines: list[EventLine]) -> pa.Array:
    """Return the payloads of one type as a column of structs, null in the rows of other types."""
    payload = PAYLOAD_BY_TYPE[name]
    payloads: list[Payload] = []
    places: list[int | None] = []
    for line in lines:
        found = line.envelope is not None and type(line.envelope.data) is payload
        places.append(len(payloads) if found else None)
        if found:
            payloads.append(line.envelope.data)
    structs = pa.StructArray.from_arrays(payload_columns(payload, payloads), fields=list(struct_type(payload)))
    return structs.take(pa.array(places, pa.int32()))


def _without_envelope(row: _Row) -> _Row:
    return row._replace(flaws=(*row.flaws, f"{NOT_A_RECORD}: a number of more than 64 bits"), line=_NO_LINE)
