"""`LiveRun`: follows the event logs of a run folder whose cluster is running.

A record is passed on once it is `HELD_BACK_MS` old by the machine's clock, sorted with its neighbours: by then the
other processes of the machine have written what led to it. A record that is written later than that is appended, not
inserted, so that the number of a record never changes. Records of another boot are put on this machine's clock by the
wall clocks (`LiveClocks`). Files are read in pieces, so that the logs of a run that has lasted for hours are also in
order, and the server answers meanwhile.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from understudy.foundation.eventlog.records import Envelope
from understudy.foundation.times import micros
from understudy.history.reading.findings import UNREADABLE_FILE, LogFinding, LogFindings
from understudy.history.reading.following import FolderTail, RunTail
from understudy.history.reading.lines import LineDecoder, decode_record
from understudy.page.recorded.completeness import Completeness, of_folder
from understudy.page.recorded.runs import PageRun, text_of
from understudy.page.served.live_clocks import LiveClocks

HELD_BACK_MS: Final = 60.0
MOST_BYTES: Final = 1 << 16
"""Number of bytes of each node's log that are read at once. A thousand records of all nodes are then still in the
processor's cache when they are encoded."""
_CLOCK: Final = itemgetter(0)


_Waiting: TypeAlias = tuple[float, str, int, int, int, Envelope]
"""A record that has not been passed on, after its sort key: its clock, which never goes back in a node; node,
incarnation, seq; and its number in the order of reading, as damaged logs may have two records of one seq."""


class LiveRun(PageRun):
    """One run that is followed. `advance` reads further records and never waits. `chunks.compress` compresses chunks.

    Args:
        folder: the run folder: the logs of each node are in NODE/events.
        name: the id of the run; records of other runs in the folder are left out.
        on_record: is called with each record that is passed on, in the thread that reads.
        is_over: whether the cluster has ended.
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
        self.clocks = LiveClocks()
        """The clocks of other boots; a server replaces it by one that has this machine's."""
        self._tail = RunTail(folder)
        self._nodes: dict[FolderTail, _Node] = {}
        self._decoder = LineDecoder()
        self._waiting: list[_Waiting] = []
        self._numbers = count()
        self._damage = LogFindings()

    def advance(self, mono_ms: float) -> bool:
        """Read further records, and add those that are old enough. Return whether there is more to read now.

        Args:
            mono_ms: the machine's monotonic clock.

        Raises:
            OSError: a log cannot be read.
        """
        until_ms = mono_ms - HELD_BACK_MS
        if mono_ms != math.inf:
            self.now_us = micros(mono_ms)
        has_more = False
        # Of the logs that have more, only the one furthest behind is read, so that few records wait for it.
        behind_ms = min((node.last_ms for node in self._nodes.values() if node.has_more), default=math.inf)
        for tail in self._tail.nodes():
            node = self._nodes.setdefault(tail, _Node())
            if not node.has_more or node.last_ms <= behind_ms:
                self._read(tail, node, mono_ms)
            if node.has_more:
                # Its unread records may be older than the records of the other nodes.
                until_ms = min(until_ms, node.last_ms)
                has_more = True
        self.add(self._due(until_ms))
        self.is_behind = has_more
        return has_more

    def facts(self, folder: Path | None = None) -> dict[str, Any]:
        return {**super().facts(folder), **self.clocks.facts()}

    def _observe(self, records: Sequence[Envelope]) -> None:
        super()._observe(records)
        if self._on_record is not None:
            for record in records:
                self._on_record(record)

    def _read(self, tail: FolderTail, node: _Node, mono_ms: float) -> None:
        found, node.has_more = tail.more(MOST_BYTES)
        for file, lines in found:
            for line in lines:
                try:
                    record = decode_record(line)
                except msgspec.MsgspecError:
                    flawed = self._decoder.decode(line)
                    self._note(LogFinding(str(file.path), 0, flawed.flaw, flawed.what))
                    continue
                if record.run == self.name:
                    self.clocks.see(record)
                    if offset_ms := self.clocks.offset_ms(record):
                        record = msgspec.structs.replace(record, mono_ms=record.mono_ms + offset_ms)
                    # A clock ahead of the machine's is of an earlier boot.
                    node.last_ms = max(node.last_ms, min(record.mono_ms, mono_ms))
                    number = next(self._numbers)
                    self._waiting.append((node.last_ms, record.node, record.incarnation, record.seq, number, record))

    def finish(self) -> bool:
        """Read further records as `advance` does, after the cluster has ended: no record is held back.

        Return whether there is more to read; if not, `end` ends the run.

        Raises:
            OSError: a log cannot be read.
        """
        return self.advance(math.inf)

    def judge(self) -> Completeness:
        """Return the verdict on a run whose records were read to their end. It reads the logs once more, and may be
        called in another thread.
        """
        return of_folder(self.folder, self.name, self.least_us)

    def end(self, completeness: Completeness) -> None:
        """End the run: it is no longer live.

        Args:
            completeness: what `judge` has returned.
        """
        self.completeness = completeness
        self.is_live = False

    def note_unreadable(self, error: OSError) -> None:
        """Note that a log cannot be read, so that the run is followed no further."""
        self._note(LogFinding(str(error.filename or self.folder), 0, UNREADABLE_FILE, error.strerror or str(error)))
        self.is_behind = False

    def _due(self, until_ms: float) -> Iterator[Envelope]:
        # Most records are in order already, which makes sorting fast.
        self._waiting.sort()
        due = bisect_right(self._waiting, until_ms, key=_CLOCK)
        passed, self._waiting = self._waiting[:due], self._waiting[due:]
        return (record for *_, record in passed)

    def _note(self, finding: LogFinding) -> None:
        self._damage.note(finding)
        self.findings = list(self._damage.sorted())


class _Node:
    """The position to which the event log of one node was read."""

    def __init__(self) -> None:
        self.last_ms = 0.0
        """The clock of the newest record that was read, so that a clock that goes back changes no sequence."""
        self.has_more = False
