"""Runs the two sides of a lesson: on an engine of experiments, as a sweep, or from a recording of the other side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from understudy.history.writing import counted
from understudy.trials.experiments.engines import ENGINES
from understudy.trials.experiments.language.frozen import FrozenPlan, freeze
from understudy.trials.experiments.report.verdict import Status, Verdict
from understudy.trials.experiments.running import run_experiment
from understudy.trials.lessons.document import ONE, OTHER, Lesson
from understudy.trials.lessons.library import archive_of
from understudy.trials.lessons.recording import take_other, unpack_other
from understudy.trials.lessons.side_run import (
    FACTS,
    PROCESSES,
    SIMULATED,
    TABLE,
    LessonNotShown,
    SideRun,
    read_side,
)
from understudy.trials.lessons.sweeping import (
    MeasureSweeps,
    SweepNotRun,
    SweepTable,
    keep_median,
    measure_in_python,
    run_sweep,
)


def plan_of(lesson: Lesson, seed: int) -> FrozenPlan:
    """Return the plan of the first side of a lesson that has an experiment."""
    assert lesson.experiment is not None
    return freeze(replace(lesson.experiment, name=f"{lesson.name}-{ONE}"), seed)


def _plan_of_other(lesson: Lesson, seed: int) -> FrozenPlan:
    """Return the plan of the second side of a lesson that has an experiment, unless it is a recording."""
    other = lesson.other.experiment or lesson.experiment
    assert other is not None
    cluster = replace(other.cluster, settings={**other.cluster.settings, **lesson.other.settings})
    other = replace(other, name=f"{lesson.name}-{OTHER}", cluster=cluster)
    return freeze(other, seed, fences_off=lesson.other.without)


def run_lesson(
    lesson: Lesson,
    world: str,
    folder: Path,
    *,
    seed: int | None = None,
    note: Callable[[str], None] = lambda line: None,
    measure_sweeps: MeasureSweeps = measure_in_python,
    taken: Path | None = None,
) -> tuple[SideRun, SideRun]:
    """Run both sides of a lesson, and leave their event logs in a folder.

    The second side runs in the simulator, unless the lesson has a recording of it.

    Args:
        world: `simulated` or `processes`; a sweep is always simulated.
        folder: a new or empty folder; the sides go to `one` and `other` below it.
        seed: by default the seed of the file.
        note: is called with a line about each run.
        measure_sweeps: computes the tables of sweeps.
        taken: the folder of a run that replaces the recording of the second side; by default it is as it was kept.

    Raises:
        LessonNotShown: a fault was not injected, or the cluster did not start up.
        BadRecording: the recording of the second side is missing or damaged.
        CannotRun: the engine cannot do what the experiment asks.
        ClusterError: the cluster cannot be started.
        OSError: the folder cannot be written.
    """
    chosen = lesson.seed if seed is None else seed
    if lesson.sweep is not None:
        return _run_sweeps(lesson, chosen, folder, measure_sweeps, note)
    note(f"{lesson.called}: {'brokers and ZooKeeper as processes' if world == PROCESSES else 'simulated'} …")
    one = _run_side(plan_of(lesson, chosen), world, lesson.called, folder / ONE)
    return one, run_other(lesson, folder, seed=chosen, note=note, taken=taken)


def run_other(
    lesson: Lesson,
    folder: Path,
    *,
    seed: int,
    note: Callable[[str], None] = lambda line: None,
    taken: Path | None = None,
) -> SideRun:
    """Run the second side of a lesson that has an experiment, or unpack its recording. Arguments and errors are as in
    `run_lesson`."""
    if lesson.other.recording:
        note(f"{lesson.other.called}: from its recording …")
        return unpack_other(lesson, archive_of(lesson), folder) if taken is None else take_other(lesson, taken, folder)
    note(f"{lesson.other.called}: simulated …")
    return _run_side(_plan_of_other(lesson, seed), SIMULATED, lesson.other.called, folder / OTHER)


def _run_side(plan: FrozenPlan, world: str, title: str, folder: Path) -> SideRun:
    engine = ENGINES["real" if world == PROCESSES else "sim"]
    return side_of(run_experiment(plan, engine, folder, command=""), title, world, folder)


def side_of(verdict: Verdict, title: str, world: str, folder: Path) -> SideRun:
    """Return the run of a side that has been judged. Raises LessonNotShown, OSError."""
    if verdict.status in (Status.NOT_STARTED, Status.NOT_INJECTED, Status.UNJUDGED):
        raise LessonNotShown(f"{title}: {verdict.status.value}: {verdict.why}")
    clients = verdict.clients
    facts = {
        "sent": clients.sent,
        "acknowledged": clients.acknowledged,
        "refused": clients.refused,
        "unknown": clients.unknown,
        "violations": len(verdict.violations),
        **{f"lost.{producer}": count for producer, count in clients.lost.items()},
    }
    (folder / FACTS).write_bytes(msgspec.json.encode(facts))
    return read_side(title, world, folder)


# ------------------------------------------------------------------ sweeps


def _run_sweeps(
    lesson: Lesson, seed: int, folder: Path, measure_sweeps: MeasureSweeps, note: Callable[[str], None]
) -> tuple[SideRun, SideRun]:
    """Run the sweeps of both sides, measure them together, and keep the run of median outage of each."""
    assert lesson.sweep is not None
    assert lesson.other.sweep is not None
    sides = ((ONE, lesson.sweep, lesson.called), (OTHER, lesson.other.sweep, lesson.other.called))
    runs = []
    try:
        for side, plan, title in sides:
            note(f"{title}: {plan.runs} simulated runs …")
            runs.append(run_sweep(plan, seed, folder / side))
        tables = measure_sweeps(runs)
    except SweepNotRun as failure:
        raise LessonNotShown(str(failure)) from None
    one, other = (
        _measured(title, folder / side, sweep, table)
        for (side, _, title), sweep, table in zip(sides, runs, tables, strict=True)
    )
    return one, other


def _measured(title: str, folder: Path, sweep: Path, table: SweepTable) -> SideRun:
    keep_median(sweep, table)
    (folder / FACTS).write_bytes(msgspec.json.encode(table.facts))
    (folder / TABLE).write_bytes(msgspec.json.encode(table.rows))
    without = f", without {counted(table.left_out, 'run')} with missing records" if table.left_out else ""
    return replace(read_side(title, SIMULATED, folder), measured_by=f"{table.measured_by}{without}")
