"""`LiveRun`: follows the event logs of a run folder whose cluster is running.

A record is passed on once it is `HELD_BACK_MS` old by the machine's clock, sorted with its neighbours: all processes
are on one machine, so by then the others have written what led to it. One that is written later than that is appended,
not inserted, so that the number of a record never changes. Files are read in pieces: the logs of a run that has lasted
for hours come in order too, and the server answers meanwhile.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from understudy.foundation.eventlog.files import LogFile, log_files
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, RECORD_VERSION, Envelope
from understudy.history.reading.lines import decode_header, decode_records, with_payload
from understudy.history.reading.reader import (
    NOT_A_RECORD,
    UNKNOWN_TYPE,
    UNKNOWN_VERSION,
    UNREADABLE_FILE,
    LogFinding,
)
from understudy.history.reading.run_records import micros
from understudy.history.reading.tail import FolderTail, LinesOfFile
from understudy.page.runs import PageRun, text_of

HELD_BACK_MS: Final = 60.0
MOST_BYTES: Final = 1 << 16
"""So much of the log of each node is read at once: a thousand records of all nodes are still in the processor's cache
when they are encoded."""
_CLOCK: Final = itemgetter(0)


_Waiting: TypeAlias = tuple[float, str, int, int, int, Envelope]
"""A record that has not been passed on, after what it is sorted by: its clock, which never goes back in a node; node,
incarnation, seq; and its number among those that were read, as damaged logs may have two records of one seq."""


class LiveRun(PageRun):
    """One run that is going on. `advance` reads on; it never waits. Full chunks are left to `chunks.compress`.

    Args:
        folder: the run folder: the logs of each node are in NODE/events.
        name: the id of the run; records of other runs in the folder are left out.
        on_record: is called with each record that is passed on, in the thread that reads.
        is_over: the cluster has ended: the records are shown when all have been read.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        on_record: Callable[[Envelope], None] | None = None,
        *,
        is_over: bool = False,
    ) -> None:
        super().__init__(name, text_of(Path(folder.resolve().name)), compress_later=True)
        self._on_record = on_record
        self.is_live = True
        self.is_over = is_over
        self.folder = folder
        self._nodes: dict[str, _Node] = {}
        self._waiting: list[_Waiting] = []
        self._numbers = count()
        self._damage: dict[tuple[str, str, str], LogFinding] = {}

    def advance(self, mono_ms: float) -> bool:
        """Read on, and add the records that are old enough. Return whether there is more to read now.

        Args:
            mono_ms: the machine's monotonic clock.

        Raises:
            OSError: a log cannot be read.
        """
        until_ms = mono_ms - HELD_BACK_MS
        if mono_ms != math.inf:
            self.now_us = micros(mono_ms)
        has_more = False
        # Of long logs only those are read on that the others wait for, so that few records wait.
        behind_ms = min((node.last_ms for node in self._nodes.values() if node.has_more), default=math.inf)
        for node in self._known_nodes():
            if not node.has_more or node.last_ms <= behind_ms:
                self._read(node, mono_ms)
            if node.has_more:
                # What it has not been read yet may be older than what the others have.
                until_ms = min(until_ms, node.last_ms)
                has_more = True
        self.add(self._due(until_ms))
        self.is_behind = has_more
        return has_more

    def _observe(self, records: Sequence[Envelope]) -> None:
        super()._observe(records)
        if self._on_record is not None:
            for record in records:
                self._on_record(record)

    def _known_nodes(self) -> Iterable[_Node]:
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name not in self._nodes and (events := Path(entry.path, "events")).is_dir():
                    self._nodes[entry.name] = _Node(events, self._numbers)
        return self._nodes.values()

    def _read(self, node: _Node, mono_ms: float) -> None:
        for file, lines in node.more():
            try:
                records = decode_records(lines)
            except msgspec.MsgspecError:
                records = [record for line in lines if (record := self._decoded(file, line)) is not None]
            self._waiting += node.waiting([record for record in records if record.run == self.name], mono_ms)

    def finish(self) -> bool:
        """Read on as `advance` does after the cluster has ended: no record is held back.

        Return whether there is more to read; where there is none, the run is no longer live.

        Raises:
            OSError: a log cannot be read.
        """
        self.is_live = self.advance(math.inf)
        return self.is_live

    def fail(self, error: OSError) -> None:
        """Note that a log cannot be read, and end."""
        self._note(LogFinding(str(error.filename or self.folder), 0, UNREADABLE_FILE, error.strerror or str(error)))
        self.is_live = self.is_behind = False

    def _due(self, until_ms: float) -> Iterator[Envelope]:
        # Most of them are in order already, which sorting makes use of.
        self._waiting.sort()
        due = bisect_right(self._waiting, until_ms, key=_CLOCK)
        passed, self._waiting = self._waiting[:due], self._waiting[due:]
        return (record for *_, record in passed)

    def _decoded(self, file: LogFile, line: bytes) -> Envelope | None:
        """Decode a line; None for one that is no record, which becomes a finding."""
        try:
            header = decode_header(line)
            if header.version != RECORD_VERSION:
                self._note(LogFinding(str(file.path), 0, UNKNOWN_VERSION, f"version {header.version}"))
            elif header.type not in PAYLOAD_BY_TYPE:
                self._note(LogFinding(str(file.path), 0, UNKNOWN_TYPE, header.type))
            else:
                return with_payload(header)
        except msgspec.MsgspecError:
            self._note(LogFinding(str(file.path), 0, NOT_A_RECORD, ""))
        return None

    def _note(self, finding: LogFinding) -> None:
        key = (finding.file, finding.kind, finding.what)
        if known := self._damage.get(key):
            finding = replace(finding, count=known.count + 1)
        self._damage[key] = finding
        self.findings = list(self._damage.values())


class _Node:
    """The event log of one node, as far as it was read."""

    def __init__(self, events: Path, numbers: Iterator[int]) -> None:
        self._tail = FolderTail(events)
        self._numbers = numbers
        self._files: tuple[LogFile, ...] = ()
        self._changed_ns = -1
        self.last_ms = 0.0
        """The clock of the newest record that was read, so that a clock that goes back changes no sequence."""
        self.has_more = False

    def more(self) -> list[LinesOfFile]:
        """Return up to `MOST_BYTES` of new lines."""
        changed_ns = self._tail.folder.stat().st_mtime_ns
        if changed_ns != self._changed_ns:
            self._changed_ns, self._files = changed_ns, log_files(self._tail.folder)
        found, self.has_more = self._tail.more(MOST_BYTES, self._files)
        return found

    def waiting(self, records: Iterable[Envelope], mono_ms: float) -> list[_Waiting]:
        """Return the next records of this node with their places."""
        found = []
        for record in records:
            # A clock ahead of the machine's is of an earlier boot.
            self.last_ms = max(self.last_ms, min(record.mono_ms, mono_ms))
            found.append((self.last_ms, record.node, record.incarnation, record.seq, next(self._numbers), record))
        return found
