"""`LiveRun`: follows the event logs of a run folder whose cluster is running.

A record is passed on once it is `HELD_BACK_MS` old by the machine's clock, sorted with its neighbours: all processes
are on one machine, so by then the others have written what led to it. One that is written later than that is appended,
not inserted, so that the number of a record never changes. Files are read in pieces: the logs of a run that has lasted
for hours come in order too, and the server answers meanwhile.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from foundation.eventlog.files import LogFile, log_files
from foundation.eventlog.lines import decode_header, with_payload
from foundation.eventlog.reader import NOT_A_RECORD, UNKNOWN_TYPE, UNKNOWN_VERSION, UNREADABLE_FILE, LogFinding
from foundation.eventlog.records import PAYLOAD_BY_TYPE, RECORD_VERSION, Envelope
from foundation.eventlog.run_records import micros
from foundation.eventlog.tail import FolderTail
from understudy.page.runs import PageRun, text_of

HELD_BACK_MS: Final = 60.0
MOST_LINES: Final = 1_000
"""So many lines of each node are read at once."""


class _Waiting(NamedTuple):
    """A record that has not been passed on; sorts by clock, but never against the sequence of its node."""

    ms: float
    node: str
    incarnation: int
    seq: int
    record: Envelope


class LiveRun(PageRun):
    """One run that is going on. `advance` reads on; it never waits.

    Args:
        folder: the run folder: the logs of each node are in NODE/events.
        name: the id of the run; records of other runs in the folder are left out.
        on_record: is called with each record that is passed on, in the thread that reads.
    """

    def __init__(self, folder: Path, name: str, on_record: Callable[[Envelope], None] = lambda record: None) -> None:
        super().__init__(name, text_of(Path(folder.resolve().name)))
        self._on_record = on_record
        self.is_live = True
        self.folder = folder
        self._nodes: dict[Path, _Node] = {}
        self._waiting: list[_Waiting] = []
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
        for events in self.folder.glob("*/events"):
            node = self._nodes.setdefault(events, _Node(events))
            if not node.has_more or node.last_ms <= behind_ms:
                self._read(node, mono_ms)
            if node.has_more:
                # What it has not been read yet may be older than what the others have.
                until_ms = min(until_ms, node.last_ms)
                has_more = True
        self.add(self._due(until_ms))
        return has_more

    def _observe(self, record: Envelope) -> None:
        super()._observe(record)
        self._on_record(record)

    def _read(self, node: _Node, mono_ms: float) -> None:
        for file, line in node.lines():
            record = self._decoded(file, line)
            if record is not None and record.run == self.name:
                heapq.heappush(self._waiting, node.waiting(record, mono_ms))

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
        self.is_live = False

    def _due(self, until_ms: float) -> Iterator[Envelope]:
        while self._waiting and self._waiting[0].ms <= until_ms:
            yield heapq.heappop(self._waiting).record

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

    def __init__(self, events: Path) -> None:
        self._tail = FolderTail(events)
        self._files: tuple[LogFile, ...] = ()
        self._changed_ns = -1
        self.last_ms = 0.0
        """The clock of the newest record that was read, so that a clock that goes back changes no sequence."""
        self.has_more = False

    def lines(self) -> Iterator[tuple[LogFile, bytes]]:
        """Yield up to `MOST_LINES` new lines."""
        changed_ns = self._tail.folder.stat().st_mtime_ns
        if changed_ns != self._changed_ns:
            self._changed_ns, self._files = changed_ns, log_files(self._tail.folder)
        self.has_more = False
        for number, line in enumerate(self._tail.lines(self._files)):
            if number == MOST_LINES:
                self.has_more = True
                return
            yield line

    def waiting(self, record: Envelope, mono_ms: float) -> _Waiting:
        # A clock ahead of the machine's is of an earlier boot.
        self.last_ms = max(self.last_ms, min(record.mono_ms, mono_ms))
        return _Waiting(self.last_ms, record.node, record.incarnation, record.seq, record)
