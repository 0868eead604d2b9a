"""`Replay`, the result of every engine, and `replay_in_python`, the engine that needs no Java."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from understudy.history.metrics.metric_tables import RunMetrics
from understudy.history.reading.reader import LogFinding
from understudy.history.report.kernel import Measured, groups_to_join, measure_files, without
from understudy.history.report.runs import FoundLogs, find_logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The metrics of all runs in some event logs.

    Attributes:
        runs: the metrics of each run, sorted by its id.
        findings: damage to the logs, sorted by file and line.
        lines: the number of lines, readable or not.
        engine: the name and version of the engine that computed the metrics.
    """

    runs: tuple[RunMetrics, ...]
    findings: tuple[LogFinding, ...]
    lines: int
    engine: str


def replay_in_python(paths: Sequence[Path]) -> Replay:
    """Compute the metrics of all runs in the logs at or below `paths`, in this process and its memory."""
    logs = find_logs(paths)
    results = [measure_files(group) for group in logs.groups]
    again = groups_to_join(results)
    results = [*without(results, again), *(measure_files(group) for group in again)]
    return replay_of(results, logs, "plain Python")


def replay_of(results: Iterable[Measured], logs: FoundLogs, engine: str) -> Replay:
    """Put what was measured together; findings name files as `logs` does."""
    names = {str(file.absolute()): str(file) for file in logs.files}
    results = list(results)
    found = [replace(finding, file=names[finding.file]) for result in results for finding in result.findings]
    return Replay(
        runs=tuple(sorted((metrics for result in results for metrics in result.runs), key=lambda run: run.run)),
        findings=tuple(sorted([*logs.findings, *found])),
        lines=sum(result.lines for result in results),
        engine=engine,
    )
