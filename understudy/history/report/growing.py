"""Computes the tables of runs whose event logs still grow: rows are added as they come, tables computed at any time.

Records of an undamaged log are kept in memory as the metrics need them, and each line is decoded once. Logs with other
damage than lines that are being written are read again as a whole for each result, by the kernel of every engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, Payload
from understudy.history.metrics.metric_tables import RunMetrics
from understudy.history.metrics.metrics import measure_records
from understudy.history.reading.lines import PAYLOAD_DECODERS
from understudy.history.reading.reader import CLOCK_WENT_BACK, GAP, REPEAT, find_files
from understudy.history.reading.run_records import (
    KEPT_TYPES,
    STATE_TYPES,
    At,
    Incarnation,
    Key,
    RunRecords,
    Signs,
    StateRecord,
    micros,
)
from understudy.history.reading.state_records import state_record
from understudy.history.report.kernel import run_for_page, without_garbage_collection
from understudy.history.report.result import Replay, replay_in_python

_SEQUENCE_FLAWS = frozenset({GAP, REPEAT, CLOCK_WENT_BACK})
"""Flaws that may be gone when a file that belongs before has come too; `_Sequence` decides again."""


class LogRow(NamedTuple):
    """One line of an event log, as the data source `understudy` returns it."""

    file: str
    """Absolute path."""
    offset: int
    """Where the line begins, in bytes."""
    flaws: Sequence[str]
    """What is wrong with the line; the fields after this one may be None if it is not empty."""
    run: str
    node: str
    incarnation: int
    seq: int
    mono_ms: float
    wall_ms: float
    type: str
    cause: int | None
    controller_epoch: int
    data: str


class GrowingLogs:
    """The event logs at or below some paths.

    Args:
        paths: run folders, folders of runs, or files.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._last: dict[str, int] = {}
        """Where the last line of each file that was added begins."""
        self._run_of: dict[str, str] = {}
        self._runs: dict[str, _GrowingRun] = {}
        self._measured: dict[str, RunMetrics] = {}
        self._lines = 0
        self._is_damaged = False

    @property
    def lines(self) -> int:
        """The number of lines that were added."""
        return self._lines

    @property
    def is_damaged(self) -> bool:
        """Whether the logs have damage, or sequence numbers that are still missing."""
        return self._is_damaged or any(not run.is_in_sequence for run in self._runs.values())

    def position(self, file: str) -> int:
        """Return from where on the lines of a file that begin there have not been added, in bytes."""
        return self._last.get(file, -1) + 1

    def add(self, rows: Iterable[LogRow]) -> None:
        """Add lines, those of a file in order. A line that was added before is left out."""
        with without_garbage_collection():
            for row in rows:
                if row.offset >= self.position(row.file):
                    self._add(row)

    def _add(self, row: LogRow) -> None:
        self._last[row.file] = row.offset
        self._lines += 1
        if not _SEQUENCE_FLAWS.issuperset(row.flaws) or self._run_of.setdefault(row.file, row.run) != row.run:
            self._is_damaged = True
            return
        run = self._runs.get(row.run)
        if run is None:
            run = self._runs[row.run] = _GrowingRun()
        self._measured.pop(row.run, None)
        try:
            run.add(row)
        except (msgspec.MsgspecError, RecursionError):
            self._is_damaged = True

    def replay(self, engine: str, *, whole: bool = False, has_ended: bool = False) -> Replay:
        """Compute the metrics of all runs.

        Args:
            engine: the name of what computes them, for the page.
            whole: return the rows of all partitions; by default only those that a page shows.
            has_ended: whether the logs grow no more, so that a line without a newline at its end is damage.
        """
        if self.is_damaged or (has_ended and self._has_other_findings()):
            return replace(_shortened(replay_in_python(self._paths), whole), engine=engine)
        with without_garbage_collection():
            for name, run in self._runs.items():
                if name not in self._measured:
                    self._measured[name] = measure_records(name, run.records())
        runs = tuple(self._measured[name] for name in sorted(self._measured))
        return _shortened(Replay(runs=runs, findings=(), lines=self._lines, engine=engine), whole)

    def _has_other_findings(self) -> bool:
        """Return whether a path has no log, or a log is empty or has a torn last line."""
        files, findings = find_files(self._paths)
        return bool(findings) or not all(_ends_with_newline(file) for file in files)


def _ends_with_newline(file: Path) -> bool:
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(size - 1, 0))
        return stream.read(1) == b"\n"


def _shortened(found: Replay, whole: bool) -> Replay:
    return found if whole else replace(found, runs=tuple(map(run_for_page, found.runs)))


class _Sequence:
    """The sequence numbers of one incarnation that were added, as long as each continues the one before."""

    def __init__(self) -> None:
        self.seq = 0
        self.mono_ms = 0.0
        self.ahead: dict[int, float] = {}
        """The monotonic clocks of numbers behind a gap; empty once the gap is filled."""

    def add(self, seq: int, mono_ms: float) -> bool:
        """Return False if the number was there before, or a clock went back."""
        if seq != self.seq + 1:
            is_new = seq > self.seq and seq not in self.ahead
            self.ahead[seq] = mono_ms
            return is_new
        is_forward = mono_ms >= self.mono_ms
        self.seq, self.mono_ms = seq, mono_ms
        while self.ahead and (following := self.ahead.pop(self.seq + 1, None)) is not None:
            is_forward = is_forward and following >= self.mono_ms
            self.seq, self.mono_ms = self.seq + 1, following
        return is_forward


class _GrowingRun:
    """The records of one run, whose times are microseconds after the first record so far."""

    def __init__(self) -> None:
        self._start: int | None = None
        self._started_ms = math.inf
        self._sequences: dict[Incarnation, _Sequence] = {}
        self._signs: dict[Incarnation, list[int]] = {}
        self._kept: dict[type, list[At[Any]]] = {kind: [] for kind in KEPT_TYPES}
        self._states: list[StateRecord] = []

    @property
    def is_in_sequence(self) -> bool:
        """Whether no sequence number is missing, but at the end of a log."""
        return not any(sequence.ahead for sequence in self._sequences.values())

    def records(self) -> RunRecords:
        return RunRecords(Signs(self._signs), self._kept, self._states, self._started_ms)

    def add(self, row: LogRow) -> None:
        """Add a record.

        Raises:
            msgspec.MsgspecError: its payload does not fit its type, its sequence number occurs again, or its clock went
                back.
        """
        clock = micros(row.mono_ms)
        if self._start is None:
            self._start = clock
        elif clock < self._start:
            self._shift(self._start - clock)
            self._start = clock
        incarnation = (row.node, row.incarnation)
        key = Key(clock - self._start, row.node, row.incarnation, row.seq)
        size = len(row.data)
        state = state_record(row.type, key, row.controller_epoch, row.data, size, file=row.file, offset=row.offset)
        if state is not None:
            self._states.append(state)
        else:
            decode, kept = _ACTIONS[row.type]
            data = decode(row.data)
            if kept is not None:
                self._kept[kept].append(At(key, data, row.cause, row.controller_epoch))
        self._signs.setdefault(incarnation, []).append(key.us)
        self._started_ms = min(self._started_ms, row.wall_ms)
        if not self._sequences.setdefault(incarnation, _Sequence()).add(row.seq, row.mono_ms):
            raise msgspec.ValidationError(f"{row.file}: sequence number {row.seq}")

    def _shift(self, us: int) -> None:
        """Move all times, because a log that begins earlier came later."""
        for times in self._signs.values():
            times[:] = [time + us for time in times]
        for kept in self._kept.values():
            kept[:] = [msgspec.structs.replace(at, key=_moved(at.key, us)) for at in kept]
        self._states = [msgspec.structs.replace(state, key=_moved(state.key, us)) for state in self._states]


def _moved(key: Key, us: int) -> Key:
    return key._replace(us=key.us + us)


_ACTIONS: dict[str, tuple[Callable[[str], Payload], type | None]] = {
    name: (PAYLOAD_DECODERS[name].decode, kind if kind in KEPT_TYPES else None)
    for name, kind in PAYLOAD_BY_TYPE.items()
    if kind not in STATE_TYPES
}
"""How the payload of each type is decoded, and under which type it is kept, where the metrics read it."""
