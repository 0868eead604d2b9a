"""Divides a run that is larger than a task into pieces, writes their records, and judges the run by the summaries.

A piece is the lines of some ranges of files. All pieces of a run write rows of the same part. The run is whole if each
line is a record of it, no sequence number is missing or repeated, no record is missing by the evidence of others, and
no sign says that its machines have several clocks. Any other run is for `runs_to_parts`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from understudy.foundation.eventlog.records import RECORD_VERSION
from understudy.history.lake.log_rows import FileRange
from understudy.history.lake.parts import PartWriter
from understudy.history.lake.record_rows import RecordRows
from understudy.history.lake.written import Part, TableFile
from understudy.history.metrics.incomplete_runs import first_evidence
from understudy.history.metrics.metrics import missing_rows
from understudy.history.reading.clock_evidence import ClockSigns
from understudy.history.reading.clocks import Incarnation
from understudy.history.reading.evidence import EvidenceSieve, evidence_records
from understudy.history.reading.file_marks import FileMark
from understudy.history.reading.lines import (
    HEADER_DECODER,
    MAX_CLOCK_MS,
    MAX_LINE_BYTES,
    MAX_SEQ,
    EnvelopeHeader,
    decode_header,
    rest_of_line,
    with_payload,
)
from understudy.history.reading.missing import find_missing
from understudy.history.reading.run_records import RunRecords
from understudy.history.report.replay import without_garbage_collection
from understudy.history.storage.paths import StoragePath, storage_path

PIECE_BYTES: Final = 128 * 1024 * 1024
"""Size of a piece. A worker then needs some 350 MB."""

_FIRST_SEQ = 1


class Stretch(msgspec.Struct, kw_only=True):
    """The records of an incarnation in a piece, whose numbers have no gap."""

    node: str
    incarnation: int
    first_seq: int
    first_ms: float
    last_seq: int
    last_ms: float
    first_line: bytes
    """The line of the incarnation's first record; empty if another piece has it."""
    epochs: list[tuple[int, int, float]]
    """Each controller epoch in envelopes, with sequence number and clock of the first record that has it."""

    @property
    def own(self) -> Incarnation:
        return (self.node, self.incarnation)


class WrittenPiece(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a piece, and its summary."""

    part: Part
    flaw: str = ""
    """The first reason why the run cannot be in pieces; the rest of the summary is empty then."""
    records: int = 0
    started_ms: float = math.inf
    """The smallest wall clock."""
    stretches: tuple[Stretch, ...] = ()
    evidence: tuple[bytes, ...] = ()
    """The records that `EvidenceSieve` has kept, as lines."""


class NotInPieces(Exception):
    """A run cannot be written in pieces. The message says why."""


# ------------------------------------------------------------------ dividing


def divide(marks: Iterable[FileMark], piece_bytes: int = PIECE_BYTES) -> list[tuple[FileRange, ...]]:
    """Divide files into pieces of at most `piece_bytes`, in the order of their paths; a piece may have several files.

    A range begins and ends at any byte; `lines_of` aligns it.
    """
    pieces: list[tuple[FileRange, ...]] = []
    own: list[FileRange] = []
    left = piece_bytes
    for file in sorted(marks, key=lambda each: each.path):
        begin = 0
        while begin < file.bytes:
            end = min(begin + left, file.bytes)
            own.append(FileRange(file.path, begin, end))
            left -= end - begin
            begin = end
            if left == 0:
                pieces.append(tuple(own))
                own, left = [], piece_bytes
    return [*pieces, tuple(own)] if own else pieces


class LineOfFile(NamedTuple):
    """A line and its place."""

    text: bytes
    file: str
    offset: int


def lines_of(part: FileRange) -> Iterator[LineOfFile]:
    """Yield the lines of a file that begin in a range; a longer one than any record is cut, and is the last.

    Raises:
        OSError: the file cannot be read.
    """
    with storage_path(part.file).open("rb") as stream:
        offset = max(part.begin - 1, 0)
        stream.seek(offset)
        if part.begin:
            offset += rest_of_line(stream)  # of the range before
        while offset < part.end and (text := stream.readline(MAX_LINE_BYTES + 2)):
            yield LineOfFile(text, part.file, offset)
            offset += len(text)


# ------------------------------------------------------------------ writing


def write_piece(lake: StoragePath, ingest: str, run: str, ranges: Sequence[FileRange]) -> WrittenPiece:
    """Write the records of a piece of a run.

    Raises:
        OSError: the piece cannot be written.
    """
    with without_garbage_collection(), PartWriter(lake, ingest) as writer:
        sieve = EvidenceSieve()
        rows = RecordRows(writer, sieve.add)
        piece = _Piece(run)
        try:
            for line in _lines(ranges):
                piece.add(line)
                rows.add(line.text, (line.file, line.offset))
            rows.flush()
            piece.check_all_are_written(rows)
        except NotInPieces as flawed:
            return WrittenPiece(part=writer.close(), flaw=str(flawed))
        kept = sieve.kept({stretch.own: stretch.first_seq for stretch in piece.stretches.values()})
        return WrittenPiece(
            part=writer.close(),
            records=piece.records,
            started_ms=piece.started_ms,
            stretches=tuple(piece.stretches.values()),
            evidence=tuple(map(msgspec.json.encode, kept)),
        )


def _lines(ranges: Iterable[FileRange]) -> Iterator[LineOfFile]:
    for part in ranges:
        try:
            yield from lines_of(part)
        except OSError as error:
            raise NotInPieces(f"{part.file} cannot be read: {error.strerror}") from None


class _Piece:
    """Checks that the lines of a piece are records of one run without a gap, and summarises them."""

    def __init__(self, run: str) -> None:
        self.stretches: dict[Incarnation, Stretch] = {}
        self.records = 0
        self.started_ms = math.inf
        self._run = run
        self._stretch: Stretch | None = None
        self._epoch = 0

    def add(self, line: LineOfFile) -> None:
        """Raises NotInPieces: the line has a flaw."""
        try:
            header = HEADER_DECODER.decode(line.text)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise NotInPieces(f"{line.file} has damaged lines") from None
        if header.run != self._run:
            raise NotInPieces(f"{line.file} has records of other runs")
        stretch = self._stretch
        if stretch is None or header.incarnation != stretch.incarnation or header.node != stretch.node:
            stretch = self._stretch_of(header, line)
        elif not (header.seq == stretch.last_seq + 1 and stretch.last_ms <= header.mono_ms <= MAX_CLOCK_MS):
            raise NotInPieces(_not_in_sequence(stretch))
        if not (
            header.version == RECORD_VERSION
            and 0 <= header.wall_ms <= MAX_CLOCK_MS
            and len(line.text) <= MAX_LINE_BYTES
        ):
            raise NotInPieces(f"{line.file} has damaged lines")
        stretch.last_seq, stretch.last_ms = header.seq, header.mono_ms
        if header.controller_epoch != self._epoch:
            self._epoch = header.controller_epoch
            if all(epoch != self._epoch for epoch, _, _ in stretch.epochs):
                stretch.epochs.append((self._epoch, header.seq, header.mono_ms))
        self.started_ms = min(self.started_ms, header.wall_ms)
        self.records += 1

    def _stretch_of(self, header: EnvelopeHeader, line: LineOfFile) -> Stretch:
        """Return the stretch of a line whose incarnation differs from the line before."""
        own = (header.node, header.incarnation)
        stretch = self._stretch = self.stretches.get(own)
        self._epoch = 0
        if stretch is not None:
            if header.seq != stretch.last_seq + 1 or not stretch.last_ms <= header.mono_ms <= MAX_CLOCK_MS:
                raise NotInPieces(_not_in_sequence(stretch))
            return stretch
        is_valid = 1 <= header.seq <= MAX_SEQ and 1 <= header.incarnation <= MAX_SEQ
        if not (is_valid and 0 <= header.mono_ms <= MAX_CLOCK_MS):
            raise NotInPieces(f"{line.file} has damaged lines")
        stretch = self._stretch = self.stretches[own] = Stretch(
            node=header.node,
            incarnation=header.incarnation,
            first_seq=header.seq,
            first_ms=header.mono_ms,
            last_seq=header.seq,
            last_ms=header.mono_ms,
            first_line=line.text if header.seq == _FIRST_SEQ else b"",
            epochs=[],
        )
        return stretch

    def check_all_are_written(self, rows: RecordRows) -> None:
        """Raises NotInPieces: a payload does not fit its type, or has a number of more than 64 bits."""
        if rows.findings or rows.written[self._run] != self.records:
            raise NotInPieces("a record has a flaw in its payload")


def _not_in_sequence(stretch: Stretch) -> str:
    return f"the log of {stretch.node} incarnation {stretch.incarnation} is not in sequence"


# ------------------------------------------------------------------ joining


class JoinedRun(NamedTuple):
    """A run that is whole and has one clock."""

    records: RunRecords
    """The records that were kept as evidence, and the clock."""
    files: dict[str, tuple[TableFile, ...]]
    """The files of its record types, by folder."""
    lines: int
    """The number of its lines, each of which is a record."""


def join(pieces: Sequence[WrittenPiece], marks: Iterable[FileMark]) -> JoinedRun:
    """Join the pieces of a run.

    Args:
        marks: the files as they were when the run was divided.

    Raises:
        NotInPieces: the run is not whole, or may have several clocks.
    """
    _check_files(marks)
    records = evidence_of(pieces)
    if missing := find_missing(records):
        raise NotInPieces(f"records are missing: {first_evidence(missing_rows(missing))}")
    files: dict[str, tuple[TableFile, ...]] = {}
    for piece in pieces:
        for folder, own in piece.part.files.items():
            files[folder] = (*files.get(folder, ()), *own)
    return JoinedRun(records, files, sum(piece.records for piece in pieces))


def evidence_of(pieces: Sequence[WrittenPiece]) -> RunRecords:
    """Return the records of a run on which `find_missing` and `clock_rows` depend.

    Raises:
        NotInPieces: a line has a flaw, an incarnation is not in sequence, or the run may have several clocks.
    """
    for piece in pieces:
        if piece.flaw:
            raise NotInPieces(piece.flaw)
    stretches = _joined(each for piece in pieces for each in piece.stretches)
    _check_one_clock(stretches)
    evidence = [with_payload(decode_header(line)) for piece in pieces for line in piece.evidence]
    evidence.sort(key=lambda record: (record.node, record.incarnation, record.seq))
    return evidence_records(
        evidence,
        {each.own: (each.first_ms, each.last_ms, each.last_seq) for each in stretches},
        [(each.own, *seen) for each in stretches for seen in each.epochs if seen[0] > 0],
        min(piece.started_ms for piece in pieces),
    )


def _check_files(marks: Iterable[FileMark]) -> None:
    for each in marks:
        try:
            size = storage_path(each.path).stat().st_size
        except OSError as error:
            raise NotInPieces(f"{each.path} cannot be read: {error.strerror}") from None
        if size != each.bytes:
            raise NotInPieces(f"{each.path} is growing")
        if not size:
            raise NotInPieces(f"{each.path} is empty")


def _joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Join the stretches of each incarnation, given in the order in which they are read."""
    joined: dict[Incarnation, Stretch] = {}
    for stretch in stretches:
        before = joined.get(stretch.own)
        if before is None:
            if stretch.first_seq != _FIRST_SEQ:
                raise NotInPieces(_not_in_sequence(stretch))
            joined[stretch.own] = msgspec.structs.replace(stretch)
            continue
        if stretch.first_seq != before.last_seq + 1 or stretch.first_ms < before.last_ms:
            raise NotInPieces(_not_in_sequence(stretch))
        known = {epoch for epoch, _, _ in before.epochs}
        before.last_seq, before.last_ms = stretch.last_seq, stretch.last_ms
        before.epochs = [*before.epochs, *(each for each in stretch.epochs if each[0] not in known)]
    return list(joined.values())


def _check_one_clock(stretches: Iterable[Stretch]) -> None:
    signs = ClockSigns()
    for stretch in stretches:
        signs.add(decode_header(stretch.first_line))
    if signs.may_be_several:
        raise NotInPieces("its machines may have several clocks")
