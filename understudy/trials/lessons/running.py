"""Runs the two sides of a lesson: on an engine of experiments, as a sweep, or from what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from understudy.foundation.eventlog.records import Envelope
from understudy.history.reading.missing import NOT_ENDED, find_missing
from understudy.history.reading.reader import read
from understudy.history.reading.run_builder import run_records_of
from understudy.history.writing import counted
from understudy.trials.experiments.engines import ENGINES
from understudy.trials.experiments.language.frozen import FrozenPlan, freeze
from understudy.trials.experiments.report.verdict import Status, Verdict
from understudy.trials.experiments.running import run_experiment
from understudy.trials.lessons.document import ONE, OTHER, Lesson
from understudy.trials.lessons.sweeping import (
    MeasureSweeps,
    SweepNotRun,
    SweepRow,
    SweepTable,
    keep_median,
    measure_in_python,
    run_sweep,
)

SIMULATED: Final = "simulated"
PROCESSES: Final = "processes"
RECORDED: Final = "recorded"

FACTS: Final = "facts.json"
"""Name of the file with the numbers of a side's clients or of its sweep, as one JSON object."""
TABLE: Final = "failovers.json"
"""Name of the file with the table of a sweep: one row for each run."""


class LessonNotShown(Exception):
    """A run did not show what its lesson is about: for example a fault was not injected, or records are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRun:
    """One run of a side.

    Attributes:
        world: `simulated` or `processes`.
        folder: the folder with its event logs.
        facts: numbers that are not in its records.
        table: of a sweep: its runs, shortest outage first.
        measured_by: of a sweep that was run now: the program that computed the table.
    """

    title: str
    world: str
    folder: Path
    records: tuple[Envelope, ...]
    facts: Mapping[str, float]
    table: tuple[SweepRow, ...] = ()
    measured_by: str = ""


def plans_of(lesson: Lesson, seed: int) -> tuple[FrozenPlan, FrozenPlan]:
    """Return the plans of both sides of a lesson that has an experiment."""
    assert lesson.experiment is not None
    one = replace(lesson.experiment, name=f"{lesson.name}-{ONE}")
    other = lesson.other.experiment or one
    cluster = replace(other.cluster, settings={**other.cluster.settings, **lesson.other.settings})
    other = replace(other, name=f"{lesson.name}-{OTHER}", cluster=cluster)
    return freeze(one, seed), freeze(other, seed, fences_off=lesson.other.without)


def run_lesson(
    lesson: Lesson,
    world: str,
    folder: Path,
    *,
    seed: int | None = None,
    note: Callable[[str], None] = lambda line: None,
    measure_sweeps: MeasureSweeps = measure_in_python,
) -> tuple[SideRun, SideRun]:
    """Run both sides of a lesson, the second one always in the simulator, and leave their event logs in a folder.

    Args:
        world: `simulated` or `processes`; a sweep is always simulated.
        folder: a new or empty folder; the sides go to `one` and `other` below it.
        seed: by default the seed of the file.
        note: is called with a line about each run.
        measure_sweeps: computes the tables of sweeps.

    Raises:
        LessonNotShown: a fault was not injected, or the cluster did not start up.
        CannotRun: the engine cannot do what the experiment asks.
        ClusterError: the cluster cannot be started.
        OSError: the folder cannot be written.
    """
    chosen = lesson.seed if seed is None else seed
    if lesson.sweep is not None:
        return _run_sweeps(lesson, chosen, folder, measure_sweeps, note)
    note(f"{lesson.called}: {'brokers and ZooKeeper as processes' if world == PROCESSES else 'simulated'} …")
    plan, _ = plans_of(lesson, chosen)
    one = _run_side(plan, world, lesson.called, folder / ONE)
    return one, run_other(lesson, folder, seed=chosen, note=note)


def run_other(lesson: Lesson, folder: Path, *, seed: int, note: Callable[[str], None] = lambda line: None) -> SideRun:
    """Run the second side of a lesson that has an experiment. Arguments and errors are as in `run_lesson`."""
    _, plan = plans_of(lesson, seed)
    note(f"{lesson.other.called}: simulated …")
    return _run_side(plan, SIMULATED, lesson.other.called, folder / OTHER)


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


def read_side(title: str, world: str, folder: Path) -> SideRun:
    """Read the files of a run in its folder.

    Raises:
        LessonNotShown: records of the run are missing, so that numbers of the lesson would be wrong.
        OSError: a file cannot be read.
        msgspec.MsgspecError: a file is damaged.
    """
    table = folder / TABLE
    reading = read([folder])
    for missing in find_missing(run_records_of(reading.records, reading.sequences)):
        if missing.kind != NOT_ENDED:
            raise LessonNotShown(f"{title}: {missing}")
    return SideRun(
        title=title,
        world=world,
        folder=folder,
        records=reading.records,
        facts=msgspec.json.decode((folder / FACTS).read_bytes(), type=dict[str, float]),
        table=msgspec.json.decode(table.read_bytes(), type=tuple[SweepRow, ...]) if table.exists() else (),
    )


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
