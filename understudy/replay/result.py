"""`Replay`, the result of both engines, and `replay_in_python`, the engine that needs no Java."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from foundation.eventlog.metric_tables import RunMetrics
from foundation.eventlog.metrics import measure
from foundation.eventlog.reader import LogFinding, read


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
    reading = read(paths)
    runs = tuple(measure(run, records) for run, records in reading.by_run().items())
    return Replay(runs=runs, findings=reading.findings, lines=reading.lines, engine="plain Python")
