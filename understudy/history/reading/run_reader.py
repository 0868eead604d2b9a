"""Reads the event logs of one run straight into `RunRecords`, as long as they have no damage but torn last lines.

This is the fast way, for thousands of runs or one of gigabytes: a line is decoded once and checked against the one
before it, and what no metric reads is dropped. `understudy.history.reading.reader` is the tolerant way. Whatever
else it would report as a finding ends the fast way with `NotClean`, and the caller reads the run again with the
tolerant one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from understudy.foundation.eventlog.records import FORMER_TYPE_NAMES, PAYLOAD_BY_TYPE, RECORD_VERSION, Payload
from understudy.history.reading.lines import (
    HEADER_DECODER,
    MAX_CLOCK_MS,
    MAX_LINE_BYTES,
    MAX_SEQ,
    PAYLOAD_DECODERS,
)
from understudy.history.reading.reader import TORN_LINE, LogFinding
from understudy.history.reading.run_records import (
    KEPT_TYPES,
    STATE_TYPES,
    At,
    Incarnation,
    Key,
    RunRecords,
    Signs,
    StateRecord,
)
from understudy.history.reading.state_records import state_record


class NotClean(Exception):
    """The logs have damage, or records of several runs; the tolerant reader says what and where."""


class CleanRun(msgspec.Struct, frozen=True):
    """The records of one run that was read the fast way.

    Attributes:
        run: its id.
        findings: files with a torn last line, sorted.
        lines: the number of lines, torn ones included.
    """

    run: str
    records: RunRecords
    findings: tuple[LogFinding, ...]
    lines: int


def read_clean_run(files: Sequence[Path]) -> CleanRun:
    """Read all files of one run.

    Args:
        files: their paths, sorted, so that the files of an incarnation are in the order in which they were written.

    Raises:
        NotClean: a file has other damage, cannot be read, or names another run than the first line of the first file.
    """
    try:
        run, start = _beginning(files)
        reading = _Reading(run, start)
        for file in files:
            reading.add(file)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, OSError) as error:
        raise NotClean(str(error)) from None
    return reading.result()


def _beginning(files: Iterable[Path]) -> tuple[str, int]:
    """Return the run's id and its first clock reading in microseconds: clocks only go forward in each file."""
    run = ""
    start: int | None = None
    for file in files:
        with file.open("rb") as stream:
            header = HEADER_DECODER.decode(stream.readline(MAX_LINE_BYTES + 2))
        run = run or header.run
        clock = math.floor(header.mono_ms * 1000 + 0.5)
        start = clock if start is None else min(start, clock)
    if start is None:
        raise NotClean("no file")
    return run, start


class _Reading:
    """What has been read of a run."""

    def __init__(self, run: str, start: int) -> None:
        self._run = run
        self._start = start
        self._lines = 0
        self._findings: list[LogFinding] = []
        self._started_ms = math.inf
        self._signs: dict[Incarnation, list[int]] = {}
        self._last: dict[Incarnation, tuple[int, float]] = {}
        """The sequence number and the monotonic clock, in milliseconds, of the last record of each incarnation."""
        self._kept: dict[type, list[At[Any]]] = {kind: [] for kind in KEPT_TYPES}
        self._states: list[StateRecord] = []
        self._actions: dict[str, tuple[Callable[[msgspec.Raw], Payload], list[At[Any]] | None]] = {
            name: (PAYLOAD_DECODERS[name].decode, self._kept.get(kind))
            for name, kind in PAYLOAD_BY_TYPE.items()
            if kind not in STATE_TYPES
        }
        self._actions |= {
            former: self._actions[name] for former, name in FORMER_TYPE_NAMES.items() if name in self._actions
        }

    def result(self) -> CleanRun:
        records = RunRecords(Signs(self._signs), self._kept, self._states, self._started_ms)
        return CleanRun(run=self._run, records=records, findings=tuple(sorted(self._findings)), lines=self._lines)

    def add(self, file: Path) -> None:
        decode, actions, run, start, floor = HEADER_DECODER.decode, self._actions, self._run, self._start, math.floor
        node, incarnation, seq, before, signs = "", 0, 0, 0.0, list[int]()
        started_ms, offset, lines, torn, path = self._started_ms, 0, 0, 0, str(file)
        with file.open("rb") as stream:
            for line in iter(partial(stream.readline, MAX_LINE_BYTES + 2), b""):
                try:
                    header = decode(line)
                except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                    if not lines or stream.read(1):
                        raise
                    torn = 1
                    break
                if header.incarnation != incarnation or header.node != node:
                    if lines:
                        self._last[node, incarnation] = (seq, before)
                    node, incarnation = header.node, header.incarnation
                    seq, before = self._last.get((node, incarnation), (0, 0.0))
                    signs = self._signs.setdefault((node, incarnation), [])
                seq += 1
                clock, wall = header.mono_ms, header.wall_ms
                if (
                    header.seq != seq
                    or header.run != run
                    or not before <= clock <= MAX_CLOCK_MS
                    or not 0 <= wall <= MAX_CLOCK_MS
                    or header.version != RECORD_VERSION
                    or len(line) > MAX_LINE_BYTES
                    or not 1 <= incarnation <= MAX_SEQ
                ):
                    raise NotClean(f"{file}:{lines + 1}")
                before = clock
                if wall < started_ms:
                    started_ms = wall
                us = floor(clock * 1000 + 0.5) - start
                if us < 0:
                    raise NotClean(f"{file}:{lines + 1}")
                signs.append(us)
                action = actions.get(header.type)
                if action is None:
                    key = Key(us, node, incarnation, seq)
                    state = state_record(
                        header.type, key, header.controller_epoch, header.data, len(line), file=path, offset=offset
                    )
                    if state is None:
                        raise NotClean(f"{file}:{lines + 1}: record type {header.type!r}")
                    self._states.append(state)
                else:
                    data = action[0](header.data)
                    if action[1] is not None:
                        key = Key(us, node, incarnation, seq)
                        action[1].append(At(key, data, header.cause, header.controller_epoch))
                offset += len(line)
                lines += 1
        if not lines:
            raise NotClean(f"{file} is empty")
        self._last[node, incarnation] = (seq, before)
        self._started_ms = started_ms
        self._lines += lines + torn
        if torn:
            self._findings.append(LogFinding(str(file), lines + 1, TORN_LINE, ""))
