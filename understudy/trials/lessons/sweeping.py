"""Runs the sweeps of a lesson, and measures their failovers: in this process, or by a function that is given."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final, TypeAlias

import msgspec

from understudy.foundation.times import micros
from understudy.history.metrics.incomplete_runs import first_evidence
from understudy.history.metrics.metric_tables import RunMetrics
from understudy.history.report.replay import replay_in_python
from understudy.trials.lessons.document import SweepPlan
from understudy.trials.sweep.cells import SIMULATOR, grid, unfinished_folder
from understudy.trials.sweep.simulated import run_cell

PYTHON: Final = "Python"
_RUNS: Final = "sweep"


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
        left_out: the number of runs that are not in the table, because records of them are missing.
    """

    rows: tuple[SweepRow, ...]
    facts: dict[str, float]
    measured_by: str
    left_out: int


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
    (runs / kept_run(table.rows)).rename(runs.with_name("events"))
    shutil.rmtree(runs)


def kept_run(rows: Sequence[SweepRow]) -> str:
    """Return the name of the run of median outage, which is the one whose event logs are kept."""
    return rows[(len(rows) - 1) // 2].run


def prefix_of_runs(rows: Sequence[SweepRow]) -> str:
    """Return what the names of all runs begin with; what follows is the seed of a run."""
    return rows[0].run.removesuffix(rows[0].run.rpartition("-")[2])


def command_options(plan: SweepPlan) -> str:
    """Return the options of `understudy sweep` that make one run of a sweep, without its seed."""
    timeout_ms = int(plan.session.ms)
    return f"--brokers {plan.brokers} --partitions {plan.partitions} --session-timeout-ms {timeout_ms} --repeat 1"


def measure_in_python(sweeps: Sequence[Path]) -> list[SweepTable]:
    """Measure sweeps in this process.

    Raises:
        SweepNotRun: a run has no failover, or no run of a sweep is complete.
    """
    return [_measured(sweep) for sweep in sweeps]


def _measured(sweep: Path) -> SweepTable:
    found = replay_in_python([sweep]).runs
    missing = {run.run: first_evidence(run.missing) for run in found if not run.is_complete}
    complete = complete_runs(sweep, missing)
    measured = {run.run: run for run in found}
    if lost := [run for run in complete if run not in measured]:
        raise SweepNotRun(f"{lost[0]}: there are no records")
    rows = sorted((_row(measured[run]) for run in complete), key=lambda row: (row.outage_ms, row.run))
    return SweepTable(rows=tuple(rows), facts=sweep_facts(rows), measured_by=PYTHON, left_out=len(missing))


def complete_runs(sweep: Path, missing: Mapping[str, str]) -> list[str]:
    """Return the runs of a sweep whose records are all there, sorted.

    Args:
        missing: the first evidence that records are missing, by run; it may also have runs of other sweeps.

    Raises:
        SweepNotRun: there is none.
    """
    runs = sorted(folder.name for folder in sweep.iterdir())
    complete = [run for run in runs if run not in missing]
    if not complete:
        raise SweepNotRun(f"none of the {len(runs)} runs is complete, for example {runs[0]}: {missing[runs[0]]}")
    return complete


def _row(run: RunMetrics) -> SweepRow:
    if not run.failovers:
        raise SweepNotRun(f"{run.run}: there was no failover")
    return SweepRow(run=run.run, **{name: float(getattr(run.failovers[0], name) or 0) for name in TIMES})


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
        "detection_share": 100 * sum(micros(row.detection_ms) for row in rows) / sum(map(micros, outages)),
    }
