"""Computes the tables of runs whose event logs still grow: rows are added as they come, tables computed at any time.

Records of an undamaged log are kept in memory as the metrics need them, and each line is decoded once. Logs with other
damage than lines that are being written, and logs of several machines, are read again as a whole for each result, as a
replay reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from understudy.history.metrics.metric_tables import RunMetrics
from understudy.history.metrics.metrics import measure_records
from understudy.history.reading.findings import CLOCK_WENT_BACK, GAP
from understudy.history.reading.lines import LogRow
from understudy.history.reading.reader import LogReader, find_files
from understudy.history.reading.run_builder import RunBuilder, taker_of_runs
from understudy.history.report.replay import Replay, replay_in_python, run_for_page, without_garbage_collection
from understudy.history.storage.paths import StoragePath

_SEQUENCE_FLAWS = frozenset({GAP, CLOCK_WENT_BACK})
"""Flaws that may disappear when an earlier file has also come; `LogReader` decides again."""


class GrowingLogs:
    """The event logs at or below some paths.

    Args:
        paths: run folders, folders of runs, or files.
    """

    def __init__(self, paths: Sequence[StoragePath]) -> None:
        self._paths = paths
        self._last: dict[str, int] = {}
        """The offset of the last line of each file that was added."""
        self._run_of: dict[str, str] = {}
        self._builders: dict[str, RunBuilder] = {}
        self._reader = LogReader(taker_of_runs(self._builders))
        self._measured: dict[str, RunMetrics] = {}
        self.lines = 0
        """The number of lines that were added."""
        self._is_damaged = False

    @property
    def is_damaged(self) -> bool:
        """Whether the logs have damage, or sequence numbers that are still missing."""
        try:
            return self._is_damaged or not self._reader.settle()
        except (msgspec.MsgspecError, RecursionError):
            self._is_damaged = True
            return True

    def position(self, file: str) -> int:
        """Return an offset in bytes: the lines of a file that begin at it or later have not been added."""
        return self._last.get(file, -1) + 1

    def add(self, rows: Iterable[LogRow]) -> None:
        """Add lines; the lines of one file must be in order. A line that was added before is left out."""
        with without_garbage_collection():
            for row in rows:
                if row.offset >= self.position(row.file):
                    self._add(row)

    def _add(self, row: LogRow) -> None:
        self._last[row.file] = row.offset
        self.lines += 1
        if not _SEQUENCE_FLAWS.issuperset(row.flaws) or self._run_of.setdefault(row.file, row.run) != row.run:
            self._is_damaged = True
            return
        self._measured.pop(row.run, None)
        try:
            self._reader.add_record(row, row.file, row.offset, row.offset, len(row.data))
        except (msgspec.MsgspecError, RecursionError):
            self._is_damaged = True

    def replay(self, engine: str, *, whole: bool = False, has_ended: bool = False) -> Replay:
        """Compute the metrics of all runs.

        Args:
            engine: the name of the engine, for the page.
            whole: return the rows of all partitions; by default only those that a page shows.
            has_ended: whether the logs grow no more, so that a line without a newline at its end is damage.
        """
        has_several_clocks = any(builder.signs_of_clocks.may_be_several for builder in self._builders.values())
        if self.is_damaged or has_several_clocks or (has_ended and self._has_other_findings()):
            return replace(_shortened(replay_in_python(self._paths), whole), engine=engine)
        with without_garbage_collection():
            for run, builder in self._builders.items():
                if run not in self._measured:
                    self._measured[run] = measure_records(run, builder.records())
        runs = tuple(self._measured[run] for run in sorted(self._measured))
        return _shortened(Replay(runs=runs, findings=(), lines=self.lines, engine=engine), whole)

    def _has_other_findings(self) -> bool:
        """Return whether a path has no log, or a log is empty or has a torn last line."""
        files, findings = find_files(self._paths)
        return bool(findings) or not all(_ends_with_newline(file) for file in files)


def _ends_with_newline(file: StoragePath) -> bool:
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(size - 1, 0))
        return stream.read(1) == b"\n"


def _shortened(found: Replay, whole: bool) -> Replay:
    return found if whole else replace(found, runs=tuple(map(run_for_page, found.runs)))
