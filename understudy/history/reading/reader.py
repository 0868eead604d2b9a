"""Reads the event logs of many nodes: all records in one order, or the records of each run for the metrics.

A log may end in a crash or on a full disk, or come from newer software. So every line that can be read is read, every
other line becomes a `LogFinding` with its file and number, and nothing raises. A record of an unknown type still counts
in its incarnation's sequence, and of records with the same number the first counts, in order of file and line.

A line without a flaw that continues its incarnation's sequence is decoded once and handed on at once; other lines are
slower. Spark reads the lines through `understudy.spark.source`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from typing import BinaryIO, NamedTuple, cast

import msgspec

from understudy.foundation.eventlog.records import RECORD_VERSION, Envelope
from understudy.foundation.times import micros
from understudy.history.reading.alignment import Alignment, align
from understudy.history.reading.clock_evidence import EVIDENCE, ClockEvidence, ClockSigns
from understudy.history.reading.clocks import ONE_CLOCK, RunClocks
from understudy.history.reading.findings import (
    EMPTY_FILE,
    NOT_A_RECORD,
    OUT_OF_ORDER,
    REPEAT,
    TORN_LINE,
    UNREADABLE_FILE,
    LogFinding,
    LogFindings,
)
from understudy.history.reading.lines import (
    HEADER_DECODER,
    MAX_CLOCK_MS,
    MAX_LINE_BYTES,
    MAX_SEQ,
    EnvelopeHeader,
    LineDecoder,
    LogRow,
    decode_header,
    rest_of_line,
    with_payload,
)
from understudy.history.reading.listing import list_files
from understudy.history.reading.order import Writer, in_order
from understudy.history.reading.run_builder import RunBuilder, Take, taker_of_runs
from understudy.history.reading.run_records import RunRecords, SequenceDamage
from understudy.history.reading.sequences import RecordSequence
from understudy.history.storage.paths import StoragePath, UrlPath, results_of

_FIRST_BYTES = 64 * 1024
"""Number of bytes that are requested for the first line of a file."""
_FILES_AHEAD = 8
"""Number of files of a store that are in memory at a time, each with its first bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReading:
    """The records and findings of event logs.

    Attributes:
        records: the records of all runs and nodes, in the order of `in_order`. If a run has several clocks, `mono_ms`
            is the time by its reference clock.
        findings: the damage that was found, and clocks that are wrong, sorted by file and line.
        lines: the number of lines, readable or not.
        sequences: the incarnations with damage, for `run_records_of`.
        clocks: the clocks of each run.
    """

    records: tuple[Envelope, ...]
    findings: tuple[LogFinding, ...]
    lines: int
    clocks: Mapping[str, RunClocks]
    sequences: tuple[SequenceDamage, ...] = ()


class FoundFiles(NamedTuple):
    """The event-log files at or below some paths."""

    files: tuple[StoragePath, ...]
    """Each once, sorted."""
    findings: tuple[LogFinding, ...]
    """Paths without event-log files, and what cannot be read at all."""


class RunsReading(NamedTuple):
    """The records of each run, runs sorted by id, and the findings and lines as in `RunReading`."""

    runs: dict[str, RunRecords]
    findings: tuple[LogFinding, ...]
    lines: int


def read(paths: Iterable[StoragePath]) -> RunReading:
    """Read all event-log files at or below `paths`: run folders, `events` folders or single files."""
    files, findings = find_files(paths)
    envelopes = _Envelopes()
    for finding in findings:
        envelopes.reader.findings.note(finding)
    envelopes.reader.add_files(files)
    return envelopes.reading()


def read_lines(lines_by_source: Mapping[str, Iterable[bytes]]) -> RunReading:
    """Read lines from memory, with or without their newline; findings have the key as their file."""
    envelopes = _Envelopes()
    for source in sorted(lines_by_source):
        envelopes.reader.add(source, lines_by_source[source])
    return envelopes.reading()


class _Envelopes:
    """Reads lines into decoded records, and aligns the clocks of the runs that have several."""

    def __init__(self) -> None:
        self.reader = LogReader(self._taker)
        self._records: dict[tuple[str, str, int], tuple[list[Envelope], list[str]]] = {}
        """The records of each incarnation, and the file of the first."""
        self._signs: dict[str, ClockSigns] = {}

    def _taker(self, header: EnvelopeHeader | LogRow) -> Take:
        self._signs.setdefault(header.run, ClockSigns()).add(header)
        records, files = self._records.setdefault((header.run, header.node, header.incarnation), ([], []))

        def take(header: EnvelopeHeader, file: str, offset: int, size: int) -> None:
            records.append(with_payload(header))
            if not files:
                files.append(file)

        return take

    def reading(self) -> RunReading:
        findings = self.reader.end()
        clocks = dict.fromkeys(sorted({run for (run, _, _), (own, _) in self._records.items() if own}), ONE_CLOCK)
        for run in clocks:
            if self._signs[run].may_be_several:
                alignment = self._align(run)
                clocks[run] = alignment.clocks
                findings = tuple(sorted([*findings, *alignment.findings]))
        records = [record for own, _ in self._records.values() for record in own]
        return RunReading(
            records=tuple(in_order(records)),
            findings=findings,
            lines=self.reader.lines,
            clocks=clocks,
            sequences=tuple(_by_reference(damage, clocks) for damage in self.reader.sequence_damage()),
        )

    def _align(self, run: str) -> Alignment:
        evidence = ClockEvidence()
        own = {(node, number): found for (name, node, number), found in self._records.items() if name == run}
        for name, (records, files) in own.items():
            if not records:
                continue
            found = evidence.of(name)
            found.records, found.last_us = len(records), micros(max(record.mono_ms for record in records))
            for record in records:
                found.see(files[0], record)
                if type(record.data) in EVIDENCE:
                    evidence.add(found, micros(record.mono_ms), record.seq, record.cause, record.data)
        alignment = align(evidence)
        if not alignment.clocks.is_one:
            for name, (records, _) in own.items():
                time_us = alignment.clocks.of(name).mover()
                records[:] = [
                    msgspec.structs.replace(record, mono_ms=time_us(micros(record.mono_ms)) / 1000)
                    for record in records
                ]
        return alignment


def _by_reference(damage: SequenceDamage, clocks: Mapping[str, RunClocks]) -> SequenceDamage:
    """Return the damage to an incarnation with its times by the reference clock of the run."""
    run, node, incarnation = damage.writer
    of_run = clocks.get(run, ONE_CLOCK)
    return damage if of_run.is_one else damage.aligned(of_run.of((node, incarnation)))


def read_runs(files: Collection[StoragePath], *, keeps_large: bool = False) -> RunsReading:
    """Read files into the records of each run, with the findings that `read` has.

    Args:
        keeps_large: also decode large payloads now. By default damage in one shows only when it is read.
    """
    starts, several = _first_lines(files)
    builders: dict[str, RunBuilder] = {}
    reader = LogReader(taker_of_runs(builders, starts, keeps_large=keeps_large, several=several))
    reader.add_files(files)
    findings = reader.end()
    found = {run: builder for run, builder in builders.items() if builder.signs_of_clocks.may_be_several}
    if not several.issuperset(found):  # the first line of a file is damaged
        builders = {}
        reader = LogReader(taker_of_runs(builders, starts, keeps_large=keeps_large, several=found))
        reader.add_files(files)
        findings = reader.end()
    for damage in reader.sequence_damage():
        builders[damage.writer[0]].note_sequence(damage)
    runs = {run: builders[run].records() for run in sorted(builders) if builders[run].has_records}
    of_clocks = [finding for run in runs for finding in builders[run].findings]
    return RunsReading(runs, tuple(sorted([*findings, *of_clocks])) if of_clocks else findings, reader.lines)


def _first_lines(files: Iterable[StoragePath]) -> tuple[dict[str, int], set[str]]:
    """Return what the first lines of the files have: the first clock of each run in microseconds, and the runs that
    may have several clocks.
    """
    starts: dict[str, int] = {}
    signs: dict[str, ClockSigns] = {}
    for file in files:
        try:
            with file.open("rb", buffering=_FIRST_BYTES) as stream:
                header = decode_header(stream.readline(MAX_LINE_BYTES + 2))
        except (msgspec.MsgspecError, OSError):
            continue
        starts[header.run] = min(starts.get(header.run, MAX_SEQ), micros(header.mono_ms))
        signs.setdefault(header.run, ClockSigns()).add(header)
    return starts, {run for run, own in signs.items() if own.may_be_several}


# ------------------------------------------------------------------ files


def find_files(paths: Iterable[StoragePath]) -> FoundFiles:
    """Return the event-log files at or below `paths`; see `list_files`, which takes less memory for many files."""
    listing = list_files(paths)
    return FoundFiles(tuple(listing.paths()), listing.findings)


def _opened(files: Sequence[StoragePath]) -> Iterator[tuple[StoragePath, BinaryIO | OSError]]:
    """Yield each file, opened, or the error; the next files of a store are opened and requested ahead."""

    def opened(file: StoragePath) -> tuple[StoragePath, BinaryIO | OSError]:
        try:
            stream = file.open("rb")
            if isinstance(file, UrlPath):
                cast("BufferedReader", stream).peek(1)
        except OSError as error:
            return file, error
        return file, stream

    is_stored = any(isinstance(file, UrlPath) for file in files)
    return results_of(opened, files, is_stored=is_stored, at_once=_FILES_AHEAD)


# ------------------------------------------------------------------ lines


class _Held(NamedTuple):
    """A record that did not continue its sequence when it was read; sorts by number, then in the order of reading."""

    seq: int
    file: str
    line: int
    mono_ms: float
    record: EnvelopeHeader | LogRow | None
    """None if it is flawed."""
    offset: int
    size: int


class _Incarnation(RecordSequence):
    """One incarnation: the end of its sequence without a flaw, and the other records that were read."""

    __slots__ = ("gaps", "held", "incarnation", "is_damaged", "node", "run", "take")

    def __init__(self, run: str, node: str, incarnation: int, take: Take) -> None:
        super().__init__()
        self.run = run
        self.node = node
        self.incarnation = incarnation
        self.take = take
        self.held: list[_Held] = []
        self.is_damaged = False
        self.gaps: list[tuple[int, int, float, float]] = []

    def is_continued_by(self, record: EnvelopeHeader | LogRow | _Held) -> bool:
        return record.seq == self.seq + 1 and record.mono_ms >= self.mono_ms


def _out_of_order(held: Iterable[_Held]) -> set[tuple[str, int]]:
    """Return the file and line of each record that follows one with a higher number in its file.

    Args:
        held: in the order in which they were read. The numbers of records that were not held are lower.
    """
    highest: dict[str, int] = {}
    late = set()
    for each in held:
        if each.seq < highest.setdefault(each.file, each.seq):
            late.add((each.file, each.line))
        else:
            highest[each.file] = each.seq
    return late


class LogReader:
    """Reads lines, hands on the records that count, in order for each incarnation, and collects findings.

    Args:
        taker: returns the function that takes the records of the incarnation of an envelope.
    """

    def __init__(self, taker: Callable[[EnvelopeHeader | LogRow], Take]) -> None:
        self.findings = LogFindings()
        self.lines = 0
        self._taker = taker
        self._decoder = LineDecoder()
        self._incarnations: dict[Writer, _Incarnation] = {}

    def add_files(self, files: Iterable[StoragePath]) -> None:
        for file, stream in _opened(sorted(files, key=str)):
            try:
                if isinstance(stream, OSError):
                    raise stream
                with stream:
                    lines = iter(partial(stream.readline, MAX_LINE_BYTES + 2), b"")
                    self.add(str(file), lines, partial(rest_of_line, stream))
            except OSError as error:
                self.findings.note(LogFinding(str(file), 0, UNREADABLE_FILE, error.strerror or "input/output error"))

    def add(self, file: str, lines: Iterable[bytes], skip_rest: Callable[[], int] = int) -> None:
        """Add the lines of a file.

        Args:
            skip_rest: leaves out the rest of a line that is too long, and returns its size.
        """
        decode = HEADER_DECODER.decode
        run: str | None = None
        node, incarnation = "", 0
        number = offset = unreadable = 0
        for number, line in enumerate(lines, 1):
            size = len(line)
            try:
                header = decode(line)
                if header.incarnation != incarnation or header.node != node or header.run != run:
                    log = self._incarnation(header)
                    run, node, incarnation, take, held = log.run, log.node, log.incarnation, log.take, log.held
                seq, clock = log.seq + 1, header.mono_ms
                if (
                    header.seq == seq
                    and log.mono_ms <= clock <= MAX_CLOCK_MS
                    and 0 <= header.wall_ms <= MAX_CLOCK_MS
                    and header.version == RECORD_VERSION
                    and size <= MAX_LINE_BYTES
                    and not held
                ):
                    take(header, file, offset, size)
                    log.seq, log.mono_ms = seq, clock
                    offset += size
                    continue
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                pass  # the flaw is found below
            if size > MAX_LINE_BYTES and not line.endswith(b"\n"):
                size += skip_rest()
            if not self._add_flawed(file, number, line, offset, size):
                if unreadable:
                    self.findings.note(LogFinding(file, unreadable, NOT_A_RECORD, ""))
                unreadable = number
            offset += size
        self.lines += number
        if unreadable:
            kind = TORN_LINE if unreadable == number else NOT_A_RECORD
            self.findings.note(LogFinding(file, unreadable, kind, ""))
        if number == 0:
            self.findings.note(LogFinding(file, 0, EMPTY_FILE, ""))

    def end(self) -> tuple[LogFinding, ...]:
        """Hand on the records that were held, and return all findings."""
        for log in self._incarnations.values():
            who = f"{log.node} incarnation {log.incarnation}"
            late = _out_of_order(log.held)
            for held in sorted(log.held):
                seq, mono_ms = log.seq, log.mono_ms if log.seq else held.mono_ms
                flaws = log.flaws(held.seq, held.mono_ms)
                if (held.file, held.line) in late and (REPEAT, 1) not in flaws:
                    self.findings.note(LogFinding(held.file, held.line, OUT_OF_ORDER, who))
                if log.seq > seq + 1:
                    log.gaps.append((seq + 1, log.seq - 1, mono_ms, held.mono_ms))
                for kind, count in flaws:
                    self.findings.note(LogFinding(held.file, held.line, kind, who, count))
                if held.record is not None and (REPEAT, 1) not in flaws:
                    log.take(held.record, held.file, held.offset, held.size)
            log.held.clear()
        return self.findings.sorted()

    def sequence_damage(self) -> tuple[SequenceDamage, ...]:
        """Return the incarnations whose last sequence number is perhaps not the number of records handed on."""
        return tuple(
            SequenceDamage(writer, log.seq, tuple(log.gaps))
            for writer, log in self._incarnations.items()
            if log.is_damaged
        )

    def settle(self) -> bool:
        """Hand on held records that continue their sequences now, and return whether none is left.

        Raises: as `add_record`.
        """
        for log in self._incarnations.values():
            log.held.sort(reverse=True)
            while log.held and log.is_continued_by(log.held[-1]):
                held = log.held.pop()
                log.flaws(held.seq, held.mono_ms)
                log.take(held.record, held.file, held.offset, held.size)
        return not any(log.held for log in self._incarnations.values())

    def _incarnation(self, header: EnvelopeHeader | LogRow) -> _Incarnation:
        writer = (header.run, header.node, header.incarnation)
        log = self._incarnations.get(writer)
        if log is None:
            if not 1 <= header.incarnation <= MAX_SEQ:
                raise msgspec.ValidationError("the incarnation is out of its range")
            log = self._incarnations[writer] = _Incarnation(*writer, self._taker(header))
        return log

    def _add_flawed(self, file: str, number: int, line: bytes, offset: int, size: int) -> bool:
        """Add a line that has a flaw or does not continue its sequence; return False if it is no envelope."""
        found = self._decoder.decode(line)
        if found.envelope is None and found.flaw == NOT_A_RECORD:
            return False
        if found.flaw:
            self.findings.note(LogFinding(file, number, found.flaw, found.what))
        if found.envelope is None:
            return True
        self.add_record(decode_header(line), file, number, offset, size, is_flawed=bool(found.flaw))
        return True

    def add_record(
        self,
        record: EnvelopeHeader | LogRow,
        file: str,
        number: int,
        offset: int,
        size: int,
        *,
        is_flawed: bool = False,
    ) -> None:
        """Add an envelope that has been decoded: hand it on if it continues its sequence, else hold it.

        Raises:
            msgspec.MsgspecError, RecursionError, UnicodeDecodeError: as for `Take`, if it is not flawed.
        """
        log = self._incarnation(record)
        log.is_damaged = True
        if log.held or not log.is_continued_by(record):
            kept = None if is_flawed else record
            log.held.append(_Held(record.seq, file, number, record.mono_ms, kept, offset, size))
            return
        log.flaws(record.seq, record.mono_ms)
        if not is_flawed:
            log.take(record, file, offset, size)
