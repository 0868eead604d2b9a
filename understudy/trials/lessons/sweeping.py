"""Runs the sweeps of a lesson, and measures their failovers: in this process, or by a function that is given."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final, TypeAlias

import msgspec

from understudy.history.metrics.metrics import measure
from understudy.history.reading.reader import read
from understudy.trials.lessons.document import SweepPlan
from understudy.trials.sweep.cells import SIMULATOR, grid, unfinished_folder
from understudy.trials.sweep.simulated import run_cell

PYTHON: Final = "Python"
_RUNS: Final = "sweep"
_MICROS: Final = 1_000


class SweepNotRun(Exception):
    """A run of a sweep did not end, or had no failover. The message names it."""


class SweepRow(msgspec.Struct, frozen=True, kw_only=True):
    """The first failover of one run. Times are ms, and 0 if the run does not have them."""

    run: str
    detection_ms: float
    election_ms: float
    takeover_ms: float
    propagation_ms: float
    outage_ms: float


TIMES: Final = tuple(name for name in SweepRow.__struct_fields__ if name != "run")
"""The names of the times of a row."""


class SweepTable(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of many runs.

    Attributes:
        rows: one for each run, shortest outage first.
        facts: medians, extremes, and the share of the detections in all outages.
        measured_by: the program that computed the table.
    """

    rows: tuple[SweepRow, ...]
    facts: dict[str, float]
    measured_by: str


MeasureSweeps: TypeAlias = Callable[[Sequence[Path]], list[SweepTable]]
"""Measures sweeps: returns a table for each folder, which has the event logs of a run in each folder below it."""


def run_sweep(plan: SweepPlan, seed: int, folder: Path) -> Path:
    """Run a sweep, and return the folder with its runs. Raises SweepNotRun, OSError."""
    cells = grid(
        SIMULATOR,
        brokers=[plan.brokers],
        partitions=[plan.partitions],
        session_timeouts_ms=[int(plan.session.ms)],
        faults=["kill"],
        draws=range(seed, seed + plan.runs),
    )
    output = folder / _RUNS
    output.mkdir(parents=True)
    unfinished_folder(output).mkdir()
    for cell in cells:
        report = run_cell(cell, output)
        if report.problem:
            raise SweepNotRun(f"{cell.name}: {report.problem}")
    shutil.rmtree(unfinished_folder(output))
    return output


def keep_median(runs: Path, table: SweepTable) -> None:
    """Move the event logs of the run of median outage out of the folder `runs`, to beside it, and delete the rest."""
    chosen = table.rows[(len(table.rows) - 1) // 2]
    (runs / chosen.run).rename(runs.with_name("events"))
    shutil.rmtree(runs)


def measure_in_python(sweeps: Sequence[Path]) -> list[SweepTable]:
    """Measure sweeps in this process. Raises SweepNotRun if a run has no failover."""
    found = []
    for sweep in sweeps:
        rows = sorted(map(_row, sorted(sweep.iterdir())), key=lambda row: (row.outage_ms, row.run))
        found.append(SweepTable(rows=tuple(rows), facts=sweep_facts(rows), measured_by=PYTHON))
    return found


def _row(folder: Path) -> SweepRow:
    failovers = measure(folder.name, read([folder]).records).failovers
    if not failovers:
        raise SweepNotRun(f"{folder.name}: there was no failover")
    return SweepRow(run=folder.name, **{name: float(getattr(failovers[0], name) or 0) for name in TIMES})


def sweep_facts(rows: Sequence[SweepRow]) -> dict[str, float]:
    """Return the numbers of a sweep: medians, extremes, and the share of the detections in all outages.

    Sums are of whole microseconds, so that they depend neither on the order nor on the program that computes them.
    """
    outages = [row.outage_ms for row in rows]
    return {
        "runs": len(rows),
        **{f"median_{name}": median(getattr(row, name) for row in rows) for name in TIMES},
        "shortest_outage_ms": min(outages),
        "longest_outage_ms": max(outages),
        "detection_share": 100 * sum(_micros(row.detection_ms) for row in rows) / sum(map(_micros, outages)),
    }


def _micros(ms: float) -> int:
    return round(ms * _MICROS)
