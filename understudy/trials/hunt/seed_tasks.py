"""Runs seeds one after the other as a task of a larger hunt, and gives a few numbers for each.

A task may be run twice, for example because the worker that had it was killed. That is harmless: a seed always gives
the same outcome and the same event logs. In a folder the logs of a seed appear under their name in one step; in a store
each file does, and a hunt reads them only after the task has ended.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from understudy.foundation.eventlog.fences import SWITCHES, Switch
from understudy.history.storage.paths import StoragePath, UrlPath, storage_path
from understudy.trials.seeds.seeds import SeedReport, run_seed


class SeedTask(msgspec.Struct, frozen=True):
    """Seeds to run.

    Attributes:
        seconds: simulated seconds of each seed.
        events: the folder or URL in which to leave event logs, as `seed-N`; empty for none.
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
            leave_events(seed, task.seconds, storage_path(task.events), fences_off=fences_off)
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


def leave_events(seed: int, seconds: int, folder: StoragePath, *, fences_off: tuple[Switch, ...] = ()) -> StoragePath:
    """Run a seed again and leave its event logs as `seed-N` in `folder`, which must exist; replace earlier ones."""
    target = folder / f"seed-{seed}"
    here = None if isinstance(folder, UrlPath) else folder
    with tempfile.TemporaryDirectory(prefix=f".seed-{seed}-", dir=here) as scratch:
        events = Path(scratch) / "events"
        run_seed(seed, seconds, fences_off=fences_off, events=events)
        if isinstance(target, UrlPath):
            _upload(events, target)
        else:
            _move(events, target)
    return target


def _upload(events: Path, target: UrlPath) -> None:
    for log in sorted(path for path in events.rglob("*") if path.is_file()):
        (target / log.relative_to(events).as_posix()).write_bytes(log.read_bytes())


def _move(events: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    try:
        events.replace(target)
    except OSError:
        # Another worker that had the same task has left the same logs at this very moment.
        if not target.is_dir():
            raise
