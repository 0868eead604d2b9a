"""Reads the event logs of many nodes into records in one order, and reports damaged lines as findings.

A log may end in a crash or on a full disk, or come from newer software. So every line that can be read is read, every
other line becomes a `LogFinding` with its file and number, and nothing raises. Lines are decoded in two steps, the
envelope first: a record of an unknown type still counts in its incarnation's sequence.

`run_reader` reads logs without a flaw faster. Spark reads the lines through `understudy.spark.source`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from understudy.foundation.eventlog.files import log_files
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, RECORD_VERSION, Envelope
from understudy.history.reading.lines import MAX_LINE_BYTES, decode_header, with_payload
from understudy.history.reading.order import Writer, in_order

TORN_LINE = "torn line"
"""The last line of a file is not a whole record: its process was killed, or the disk was full."""
NOT_A_RECORD = "not a record"
"""A line before the last is not a whole record, or its `data` does not fit its type."""
LINE_TOO_LONG = "line too long"
UNKNOWN_VERSION = "unknown version"
UNKNOWN_TYPE = "unknown type"
EMPTY_FILE = "empty file"
UNREADABLE_FILE = "unreadable file"
NO_FILES = "no event-log files"
GAP = "gap"
"""`count` sequence numbers are missing before this line. A missing end cannot be noticed."""
REPEAT = "repeat"
"""A sequence number occurs again. Only the first record with that number is used, in order of file and line."""
CLOCK_WENT_BACK = "clock went back"
"""A record's monotonic clock is earlier than that of the record before it in its incarnation."""


@dataclass(frozen=True, slots=True, order=True)
class LogFinding:
    """One kind of damage to one file of an event log: a single finding stands for all its occurrences in the file."""

    file: str
    line: int
    """The first damaged line, from 1; 0 if the finding is about the whole file."""
    kind: str
    """One of the constants of this module, for example `TORN_LINE`."""
    what: str
    """What the kind applies to: a record type, a version, an incarnation; may be empty."""
    count: int = 1
    """The number of occurrences."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        times = f", {self.count} of them" if self.count > 1 else ""
        return f"{self.kind}{': ' if self.what else ''}{self.what} ({where}{times})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReading:
    """The records and findings of event logs.

    Attributes:
        records: the records of all runs and nodes, in the order of `in_order`.
        findings: the damage that was found, sorted by file and line.
        lines: the number of lines, readable or not.
    """

    records: tuple[Envelope, ...]
    findings: tuple[LogFinding, ...]
    lines: int

    def by_run(self) -> dict[str, tuple[Envelope, ...]]:
        """Return the records of each run, runs sorted by id."""
        runs: dict[str, list[Envelope]] = {}
        for record in self.records:
            runs.setdefault(record.run, []).append(record)
        return {run: tuple(runs[run]) for run in sorted(runs)}


def read(paths: Iterable[Path]) -> RunReading:
    """Read all event-log files at or below `paths`: run folders, `events` folders or single files."""
    collector = _Collector()
    files, findings = find_files(paths)
    for finding in findings:
        collector.note(finding)
    for file in files:
        try:
            with file.open("rb") as stream:
                collector.add(str(file), bounded_lines(stream))
        except OSError as error:
            collector.note(LogFinding(str(file), 0, UNREADABLE_FILE, error.strerror or "input/output error"))
    return collector.reading()


def read_lines(lines_by_source: Mapping[str, Iterable[bytes]]) -> RunReading:
    """Read lines from memory, with or without their newline; findings have the key as their file."""
    collector = _Collector()
    for source in sorted(lines_by_source):
        collector.add(source, (line.removesuffix(b"\n") for line in lines_by_source[source]))
    return collector.reading()


def find_files(paths: Iterable[Path]) -> tuple[tuple[Path, ...], tuple[LogFinding, ...]]:
    """Return the event-log files at or below `paths`, each once and sorted, and a finding for each path without any.

    A path that is a file is returned whatever its name. Links to folders are not followed.
    """
    files: set[Path] = set()
    findings = []
    for path in paths:
        found = _files_below(path)
        files.update(found)
        if not found:
            findings.append(LogFinding(str(path), 0, NO_FILES, "" if path.exists() else "no such file or folder"))
    return tuple(sorted(files)), tuple(findings)


def _files_below(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [file.path for folder, _, names in os.walk(path) if names for file in log_files(Path(folder))]


def bounded_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines without their newline; a line that is too long is cut, but remains longer than the maximum."""
    while line := stream.readline(MAX_LINE_BYTES + 2):
        rest = line
        while not rest.endswith(b"\n") and (rest := stream.readline(MAX_LINE_BYTES)):
            pass
        yield line.removesuffix(b"\n")


# ------------------------------------------------------------------ all lines


class _Place(NamedTuple):
    """A line of a log; sorts in the order of reading."""

    file: str
    line: int


class _Numbered(NamedTuple):
    """A sequence number that was read, whether or not its record type is known."""

    seq: int
    place: _Place
    mono_ms: float
    record: Envelope | None


class _Collector:
    """Collects the records and findings of all files, and puts the records into sequence."""

    def __init__(self) -> None:
        self._findings: dict[tuple[str, str, str], LogFinding] = {}
        self._numbered: dict[Writer, list[_Numbered]] = {}
        self._lines = 0

    def note(self, finding: LogFinding) -> None:
        """Add a finding to those of the same file, kind and subject."""
        key = (finding.file, finding.kind, finding.what)
        if known := self._findings.get(key):
            finding = replace(finding, line=min(known.line, finding.line), count=known.count + finding.count)
        self._findings[key] = finding

    def add(self, file: str, lines: Iterable[bytes]) -> None:
        unreadable: int | None = None
        number = 0
        for number, line in enumerate(lines, 1):
            if unreadable is not None:
                self.note(LogFinding(file, unreadable, NOT_A_RECORD, ""))
            unreadable = None if self._add_line(_Place(file, number), line) else number
        self._lines += number
        if unreadable is not None:
            self.note(LogFinding(file, unreadable, TORN_LINE, ""))
        if number == 0:
            self.note(LogFinding(file, 0, EMPTY_FILE, ""))

    def reading(self) -> RunReading:
        records: list[Envelope] = []
        for writer, numbered in self._numbered.items():
            records += self._in_sequence(writer, numbered)
        return RunReading(
            records=tuple(in_order(records)), findings=tuple(sorted(self._findings.values())), lines=self._lines
        )

    def _add_line(self, place: _Place, line: bytes) -> bool:
        """Add one line; return False if it is not an envelope."""
        if len(line) > MAX_LINE_BYTES:
            self.note(LogFinding(*place, LINE_TOO_LONG, f"more than {MAX_LINE_BYTES} bytes"))
            return True
        try:
            header = decode_header(line)
        except msgspec.MsgspecError:
            return False
        record = None
        if header.version != RECORD_VERSION:
            self.note(LogFinding(*place, UNKNOWN_VERSION, f"version {header.version}"))
        elif header.type not in PAYLOAD_BY_TYPE:
            self.note(LogFinding(*place, UNKNOWN_TYPE, header.type))
        else:
            try:
                record = with_payload(header)
            except msgspec.MsgspecError:
                self.note(LogFinding(*place, NOT_A_RECORD, header.type))
        numbered = self._numbered.setdefault((header.run, header.node, header.incarnation), [])
        numbered.append(_Numbered(header.seq, place, header.mono_ms, record))
        return True

    def _in_sequence(self, writer: Writer, numbered: list[_Numbered]) -> Iterator[Envelope]:
        """Yield the first record of each sequence number; note repeats, gaps and clocks that went back."""
        _, node, incarnation = writer
        who = f"{node} incarnation {incarnation}"
        first_by_seq: dict[int, _Numbered] = {}
        for entry in sorted(numbered, key=lambda entry: (entry.seq, entry.place)):
            if first_by_seq.setdefault(entry.seq, entry) is not entry:
                self.note(LogFinding(*entry.place, REPEAT, who))
        entries = list(first_by_seq.values())
        if entries[0].seq > 1:
            self.note(LogFinding(*entries[0].place, GAP, who, entries[0].seq - 1))
        for before, entry in pairwise(entries):
            if entry.seq > before.seq + 1:
                self.note(LogFinding(*entry.place, GAP, who, entry.seq - before.seq - 1))
            if entry.mono_ms < before.mono_ms:
                self.note(LogFinding(*entry.place, CLOCK_WENT_BACK, who))
        yield from (entry.record for entry in entries if entry.record is not None)
