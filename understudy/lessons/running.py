"""Runs the two sides of a lesson: on an engine of experiments, as a sweep, or from what was recorded."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from foundation.eventlog.metric_tables import Failover
from foundation.eventlog.metrics import measure
from foundation.eventlog.reader import read
from foundation.eventlog.records import Envelope
from understudy.experiments.engine import Engine
from understudy.experiments.engines import ENGINES
from understudy.experiments.language.document import Experiment
from understudy.experiments.language.expectations import switches
from understudy.experiments.language.frozen import FrozenPlan, freeze
from understudy.experiments.report.verdict import Status, Verdict
from understudy.experiments.running import run_and_keep, run_experiment
from understudy.lessons.document import ONE, OTHER, Lesson, SweepPlan
from understudy.simulator.sweep import run_cell
from understudy.sweep import SIMULATOR, Cell, grid, unfinished, unfinished_folder
from understudy.testbed.local_cluster import LocalCluster

SIMULATED: Final = "simulated"
PROCESSES: Final = "processes"
RECORDED: Final = "recorded"

FACTS: Final = "facts.json"
"""What a side has beside its event logs: numbers of its clients or of its sweep, as one JSON object."""
TABLE: Final = "failovers.json"
"""Of a sweep: one row for each run."""

_SWEEP_RUNS: Final = "sweep"


class LessonNotShown(Exception):
    """A run did not show what its lesson is about, for example because a fault was not injected."""


class SweepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a sweep. Times are ms."""

    run: str
    detection_ms: float
    election_ms: float
    takeover_ms: float
    propagation_ms: float
    outage_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRun:
    """One run of a side.

    Attributes:
        world: `simulated` or `processes`.
        folder: where its event logs are.
        facts: numbers that its records do not hold.
        table: of a sweep: its runs, shortest outage first.
    """

    title: str
    world: str
    folder: Path
    records: tuple[Envelope, ...]
    facts: Mapping[str, float]
    table: tuple[SweepRow, ...] = ()


def experiments_of(lesson: Lesson) -> tuple[Experiment, Experiment]:
    """Return the experiments of both sides. The lesson has an experiment."""
    assert lesson.experiment is not None
    one = replace(lesson.experiment, name=f"{lesson.name}-{ONE}")
    other = lesson.other.experiment or one
    cluster = replace(other.cluster, settings={**other.cluster.settings, **lesson.other.settings})
    return one, replace(other, name=f"{lesson.name}-{OTHER}", cluster=cluster)


def run_lesson(
    lesson: Lesson,
    world: str,
    folder: Path,
    *,
    seed: int | None = None,
    note: Callable[[str], None] = lambda line: None,
) -> tuple[SideRun, SideRun]:
    """Run both sides of a lesson, the second one always in the simulator, and leave their event logs in a folder.

    Args:
        world: `simulated` or `processes`; a sweep is always simulated.
        folder: a new or empty folder; the sides go to `one` and `other` below it.
        seed: by default that of the file.
        note: called with a line about what is run.

    Raises:
        LessonNotShown: a fault was not injected, or the cluster did not start up.
        CannotRun: the engine cannot do what the experiment asks.
        ClusterError: the cluster cannot be started.
        OSError: the folder cannot be written.
    """
    chosen = lesson.seed if seed is None else seed
    titles = (lesson.called, lesson.other.called)
    if lesson.sweep is not None and lesson.other.sweep is not None:
        plans = (lesson.sweep, lesson.other.sweep)
        one, other = (
            _run_sweep(plan, chosen, title, folder / side, note)
            for plan, title, side in zip(plans, titles, (ONE, OTHER), strict=True)
        )
        return one, other
    first, _ = experiments_of(lesson)
    note(f"{lesson.called}: {'brokers and ZooKeeper as processes' if world == PROCESSES else 'simulated'} …")
    engine = ENGINES["real" if world == PROCESSES else "sim"]
    one = _run_side(first, engine, chosen, "", lesson.called, folder / ONE)
    return one, run_other(lesson, folder, seed=chosen, note=note)


def run_other(lesson: Lesson, folder: Path, *, seed: int, note: Callable[[str], None] = lambda line: None) -> SideRun:
    """Run the second side of a lesson that has an experiment. Arguments and errors are those of `run_lesson`."""
    _, second = experiments_of(lesson)
    note(f"{lesson.other.called}: simulated …")
    return _run_side(second, ENGINES["sim"], seed, lesson.other.without, lesson.other.called, folder / OTHER)


def first_plan(lesson: Lesson, seed: int) -> FrozenPlan:
    """Return the plan of the first side of a lesson that has an experiment."""
    return freeze(experiments_of(lesson)[0], seed)


@contextmanager
def first_side_kept(lesson: Lesson, plan: FrozenPlan, folder: Path) -> Iterator[tuple[SideRun, LocalCluster]]:
    """Run the first side on processes, in a folder of its own, and leave its cluster to the block.

    Raises as `run_lesson`.
    """
    with run_and_keep(plan, folder) as (verdict, cluster):
        yield _side_of(verdict, lesson.called, PROCESSES, folder), cluster


def _run_side(
    experiment: Experiment, engine: type[Engine], seed: int, without: str, title: str, folder: Path
) -> SideRun:
    plan = freeze(experiment, seed, fences_off=switches(without) if without else ())
    verdict = run_experiment(plan, engine, folder, command="")
    return _side_of(verdict, title, PROCESSES if engine.name == "real" else SIMULATED, folder)


def _side_of(verdict: Verdict, title: str, world: str, folder: Path) -> SideRun:
    if verdict.status in (Status.NOT_STARTED, Status.NOT_INJECTED):
        raise LessonNotShown(f"{title}: the run is {verdict.status.value}: {verdict.why}")
    facts = _facts(verdict)
    (folder / FACTS).write_bytes(msgspec.json.encode(facts))
    return read_side(title, world, folder)


def _facts(verdict: Verdict) -> dict[str, float]:
    clients = verdict.clients
    return {
        "sent": clients.sent,
        "acknowledged": clients.acknowledged,
        "refused": clients.refused,
        "unknown": clients.unknown,
        "violations": len(verdict.violations),
    }


def read_side(title: str, world: str, folder: Path) -> SideRun:
    """Read what a run has left in its folder. Raises OSError, and msgspec.MsgspecError where a file is damaged."""
    table = folder / TABLE
    return SideRun(
        title=title,
        world=world,
        folder=folder,
        records=read([folder]).records,
        facts=msgspec.json.decode((folder / FACTS).read_bytes(), type=dict[str, float]),
        table=msgspec.json.decode(table.read_bytes(), type=tuple[SweepRow, ...]) if table.exists() else (),
    )


# ------------------------------------------------------------------ sweeps


def _run_sweep(plan: SweepPlan, seed: int, title: str, folder: Path, note: Callable[[str], None]) -> SideRun:
    """Run every cell, and keep the event log of the run of median outage."""
    cells = grid(
        SIMULATOR,
        brokers=[plan.brokers],
        partitions=[plan.partitions],
        session_timeouts_ms=[plan.session_ms],
        faults=["kill"],
        draws=range(seed, seed + plan.runs),
    )
    output = folder / _SWEEP_RUNS
    output.mkdir(parents=True)
    unfinished_folder(output).mkdir()
    note(f"{title}: {plan.runs} simulated runs …")
    rows = sorted((_run_cell(cell, output) for cell in cells), key=lambda row: (row.outage_ms, row.run))
    shutil.rmtree(unfinished_folder(output))
    assert not unfinished(cells, output)
    chosen = rows[(len(rows) - 1) // 2]
    (output / chosen.run).rename(folder / "events")
    shutil.rmtree(output)
    (folder / FACTS).write_bytes(msgspec.json.encode(sweep_facts(rows)))
    (folder / TABLE).write_bytes(msgspec.json.encode(rows))
    return read_side(title, SIMULATED, folder)


def _run_cell(cell: Cell, output: Path) -> SweepRow:
    report = run_cell(cell, output)
    if report.problem:
        raise LessonNotShown(f"{cell.name}: {report.problem}")
    failovers = measure(cell.name, read([output / cell.name]).records).failovers
    if not failovers:
        raise LessonNotShown(f"{cell.name}: there was no failover")
    return _row(cell.name, failovers[0])


def _row(run: str, failover: Failover) -> SweepRow:
    def number(value: Any) -> float:
        return 0.0 if value is None else float(value)

    return SweepRow(
        run=run,
        detection_ms=number(failover.detection_ms),
        election_ms=number(failover.election_ms),
        takeover_ms=number(failover.takeover_ms),
        propagation_ms=number(failover.propagation_ms),
        outage_ms=number(failover.outage_ms),
    )


def sweep_facts(rows: list[SweepRow]) -> dict[str, float]:
    """Return the numbers of a sweep: medians, extremes, and the share of the detections in all outages."""
    outages = [row.outage_ms for row in rows]
    return {
        "runs": len(rows),
        "median_detection_ms": median(row.detection_ms for row in rows),
        "median_election_ms": median(row.election_ms for row in rows),
        "median_takeover_ms": median(row.takeover_ms for row in rows),
        "median_propagation_ms": median(row.propagation_ms for row in rows),
        "median_outage_ms": median(outages),
        "shortest_outage_ms": min(outages),
        "longest_outage_ms": max(outages),
        "detection_share": 100 * sum(row.detection_ms for row in rows) / sum(outages),
    }
