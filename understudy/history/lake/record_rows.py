"""Gathers the records of runs by type, and hands them to the writer of a part as tables.

Lines of one type are decoded a thousand at a time, and become columns while they are still in the processor's cache:
that takes a third of the time of decoding them one by one and making columns of many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.history.lake.columns import IntegerTooLarge, fits, record_table
from understudy.history.lake.lines import LineDecoder, decoder_of_many, type_in
from understudy.history.lake.manifest import FileMark
from understudy.history.lake.parts import RECORDS, PartWriter
from understudy.history.reading.reader import LogFinding, bounded_lines

NUMBER_TOO_LARGE = "number too large"
"""A record with a number of more than 64 bits, which the table of its type therefore lacks."""

_DECODED_LINES = 1000
_DECODED_BYTES = 1024 * 1024
_BLOCK_BYTES = 1024 * 1024

_Place: TypeAlias = tuple[str, int]
"""A file and the number of a line in it."""


class NotClean(Exception):
    """Lines that were said to be clean are not; their runs have to be added with `add_damaged`."""


@dataclass(slots=True)
class _Lines:
    """Lines of one record type that have not been decoded yet."""

    lines: list[bytes] = field(default_factory=list)
    places: list[_Place] = field(default_factory=list)
    bytes: int = 0


class RecordRows:
    """Gathers the first record of each sequence number by type, and hands them to the writer.

    Attributes:
        written: how many records of each run the writer has got; complete after `flush`.
        findings: the records with a number of more than 64 bits, which it has not got.
    """

    def __init__(self, writer: PartWriter) -> None:
        self.written: Counter[str] = Counter()
        self.findings: list[tuple[str, LogFinding]] = []
        self._writer = writer
        self._decoder = LineDecoder(PAYLOAD_BY_TYPE)
        self._gathered = {name: _Lines() for name in PAYLOAD_BY_TYPE}
        self._by_text = {name.encode(): name for name in PAYLOAD_BY_TYPE}

    def add_clean(self, marks: Iterable[FileMark], torn: Collection[str]) -> None:
        """Add the records of a run whose lines are all records of this run, each sequence number once.

        Args:
            torn: the paths of files whose last line is no record.

        Raises:
            NotClean: lines are something else than was said.
        """
        by_text = self._by_text
        for file in marks:
            for number, line in enumerate(_whole_lines(file, without_last=file.path in torn), 1):
                name = by_text.get(type_in(line))
                if name is None:
                    self._add_decoded(line, (file.path, number))
                else:
                    self._add(name, line, (file.path, number))

    def add_damaged(self, run: str, marks: Iterable[FileMark]) -> None:
        """Add the records of a run whose files have damaged lines, sequence numbers twice, or records of other runs."""
        seen: set[tuple[str, int, int]] = set()
        for file in marks:
            for number, line in enumerate(_lines(file), 1):
                envelope, name, flaw, _ = self._decoder.decode(line)
                if envelope is None or envelope.run != run:
                    continue
                key = (envelope.node, envelope.incarnation, envelope.seq)
                if key not in seen:
                    seen.add(key)
                    if not flaw:
                        self._add(name, msgspec.json.encode(envelope), (file.path, number))

    def flush(self) -> None:
        """Hand everything to the writer; raises `NotClean` as `add_clean`."""
        for name in self._gathered:
            self._flush(name)

    def _add_decoded(self, line: bytes, place: _Place) -> None:
        """Add a line with a former name of its type, or its fields in another order, as this software writes it."""
        envelope, name, flaw, _ = self._decoder.decode(line.removesuffix(b"\n"))
        if envelope is None or flaw:
            raise NotClean
        self._add(name, msgspec.json.encode(envelope), place)

    def _add(self, name: str, line: bytes, place: _Place) -> None:
        gathered = self._gathered[name]
        gathered.lines.append(line)
        gathered.places.append(place)
        gathered.bytes += len(line)
        if gathered.bytes >= _DECODED_BYTES or len(gathered.lines) >= _DECODED_LINES:
            self._flush(name)

    def _flush(self, name: str) -> None:
        gathered = self._gathered[name]
        if not gathered.lines:
            return
        try:
            envelopes = decoder_of_many(name).decode(b"[%b]" % b",".join(gathered.lines))
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise NotClean from None
        try:
            table = record_table(name, envelopes)
        except IntegerTooLarge:
            self._note_too_large(name, envelopes, gathered.places)
            envelopes = [envelope for envelope in envelopes if fits(envelope)]
            table = record_table(name, envelopes)
        self.written.update(map(attrgetter("run"), envelopes))
        if table.num_rows:
            self._writer.add(f"{RECORDS}/{name}", table)
        gathered.lines.clear()
        gathered.places.clear()
        gathered.bytes = 0

    def _note_too_large(self, name: str, envelopes: Iterable[Any], places: Iterable[_Place]) -> None:
        for envelope, place in zip(envelopes, places, strict=True):
            if not fits(envelope):
                self.findings.append((envelope.run, LogFinding(*place, NUMBER_TOO_LARGE, name)))


def _whole_lines(file: FileMark, *, without_last: bool) -> Iterator[bytes]:
    """Yield the lines of a file up to where it ended when it was marked, also a last one that has grown since.

    Args:
        without_last: leave out the last line.
    """
    left = file.bytes
    with Path(file.path).open("rb") as stream:
        while left > 0 and (lines := stream.readlines(min(left, _BLOCK_BYTES))):
            left -= sum(map(len, lines))
            if left <= 0 and without_last:
                lines.pop()
            yield from lines


def _lines(file: FileMark) -> Iterator[bytes]:
    """Yield the lines of a file as it was when it was marked, without their newlines."""
    left = file.bytes
    with Path(file.path).open("rb") as stream:
        for line in bounded_lines(stream):
            if left <= 0:
                return
            yield line[:left]
            left -= len(line) + 1
