"""`Replay`, the result of every engine, and `replay_in_python`, the engine that needs no Java."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from foundation.eventlog.metric_tables import RunMetrics
from foundation.eventlog.reader import LogFinding, find_files
from understudy.replay.kernel import Measured, groups_to_join, measure_files, without
from understudy.replay.runs import find_runs


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
    files, findings = find_files(paths)
    results = [measure_files(group) for group in find_runs(files)]
    again = groups_to_join(results)
    results = [*without(results, again), *(measure_files(group) for group in again)]
    return replay_of(results, files, findings, "plain Python")


def replay_of(
    results: Iterable[Measured], files: Iterable[Path], findings: Iterable[LogFinding], engine: str
) -> Replay:
    """Put what was measured together.

    Args:
        files: the files, named as findings shall name them.
        findings: findings about paths without files.
    """
    names = {str(file.absolute()): str(file) for file in files}
    results = list(results)
    found = [replace(finding, file=names[finding.file]) for result in results for finding in result.findings]
    return Replay(
        runs=tuple(sorted((metrics for result in results for metrics in result.runs), key=lambda run: run.run)),
        findings=tuple(sorted([*findings, *found])),
        lines=sum(result.lines for result in results),
        engine=engine,
    )
