"""What a replay hands over, whichever engine made it; and the engine that needs no Java."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from foundation.eventlog.metric_tables import RunMetrics
from foundation.eventlog.metrics import measure
from foundation.eventlog.reader import LogFinding, read


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The result of a replay.

    Attributes:
        runs: sorted by id.
        findings: what was wrong with the logs, sorted by file and line.
        lines: how many lines were read, good and bad.
        engine: who computed it, for people.
    """

    runs: tuple[RunMetrics, ...]
    findings: tuple[LogFinding, ...]
    lines: int
    engine: str


def replay_in_python(paths: Sequence[Path]) -> Replay:
    """All runs in the logs at or below `paths`, in this process and its memory."""
    reading = read(paths)
    runs = tuple(measure(run, records) for run, records in reading.by_run().items())
    return Replay(runs=runs, findings=reading.findings, lines=reading.lines, engine="plain Python")
