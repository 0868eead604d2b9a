"""Runs seeds one after the other as a task of a larger hunt, and gives a few numbers for each.

A task may be run twice, for example because the worker that had it was killed. That is harmless: a seed always gives
the same outcome and the same event logs, and the logs of a seed appear under their name in one step.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from understudy.foundation.eventlog.fences import SWITCHES, Switch
from understudy.trials.seeds.seeds import SeedReport, run_seed


class SeedTask(msgspec.Struct, frozen=True):
    """Seeds to run.

    Attributes:
        seconds: simulated seconds of each seed.
        events: the folder in which to leave event logs, as `seed-N`; empty for none.
        keep_all: whether to leave the event logs of every seed, not only of the failed ones.
        fences_off: the names of fences and fixes that are switched off.
    """

    seeds: tuple[int, ...]
    seconds: int
    events: str = ""
    keep_all: bool = False
    fences_off: tuple[str, ...] = ()


class SeedOutcome(msgspec.Struct, frozen=True):
    """The result of one seed."""

    seed: int
    seconds: int
    failed: bool
    faults: int
    actions: int
    elections: int
    records: int
    acknowledged: int
    """Number of producers' records that were acknowledged."""
    report: str
    """The report of a failed seed, with the command that replays it; empty for others."""


def run_task(task: SeedTask) -> Iterator[SeedOutcome]:
    """Run the seeds of a task in turn. Raises OSError if event logs cannot be written."""
    fences_off = tuple(SWITCHES[name] for name in task.fences_off)
    for seed in task.seeds:
        outcome = outcome_of(run_seed(seed, task.seconds, fences_off=fences_off))
        if task.events and (outcome.failed or task.keep_all):
            leave_events(seed, task.seconds, Path(task.events), fences_off=fences_off)
        yield outcome


def outcome_of(report: SeedReport) -> SeedOutcome:
    """Return the few numbers of a report."""
    failed = bool(report.problems)
    return SeedOutcome(
        seed=report.plan.seed,
        seconds=report.plan.seconds,
        failed=failed,
        faults=len(report.plan.schedule.faults),
        actions=len(report.plan.actions),
        elections=report.judgement.elections,
        records=report.judgement.records,
        acknowledged=report.acknowledged,
        report=str(report) if failed else "",
    )


def leave_events(seed: int, seconds: int, folder: Path, *, fences_off: tuple[Switch, ...] = ()) -> Path:
    """Run a seed again and leave its event logs as `seed-N` in `folder`, which must exist; replace earlier ones."""
    target = folder / f"seed-{seed}"
    with tempfile.TemporaryDirectory(prefix=f".seed-{seed}-", dir=folder) as scratch:
        run_seed(seed, seconds, fences_off=fences_off, events=Path(scratch) / "events")
        shutil.rmtree(target, ignore_errors=True)
        try:
            (Path(scratch) / "events").replace(target)
        except OSError:
            # Another worker that had the same task has left the same logs at this very moment.
            if not target.is_dir():
                raise
    return target
