"""Seeds as tasks: outcomes, event logs of failed seeds, and a task that runs twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from understudy.foundation.eventlog.fences import Fence
from understudy.history.reading.reader import read
from understudy.trials.hunt import seed_tasks
from understudy.trials.hunt.seed_tasks import SeedOutcome, SeedTask, leave_events, run_task
from understudy.trials.seeds.seeds import SeedReport, run_seed

SECONDS = 6


def with_failures(monkeypatch: pytest.MonkeyPatch, *failed: int) -> None:
    """Let the reports of some seeds have a problem."""

    def run(seed: int, seconds: int, *, events: Path | None = None, fences_off: tuple[Fence, ...] = ()) -> SeedReport:
        report = run_seed(seed, seconds, events=events, fences_off=fences_off)
        return replace(report, problems=("a problem",)) if seed in failed else report

    monkeypatch.setattr(seed_tasks, "run_seed", run)


def test_an_outcome_has_the_numbers_of_the_report() -> None:
    (outcome,) = run_task(SeedTask((3,), SECONDS))
    report = run_seed(3, SECONDS)
    assert outcome == SeedOutcome(
        seed=3,
        seconds=SECONDS,
        failed=False,
        faults=len(report.plan.schedule.faults),
        actions=len(report.plan.actions),
        elections=report.judgement.elections,
        records=report.judgement.records,
        acknowledged=report.acknowledged,
        report="",
    )


def test_only_failed_seeds_leave_their_event_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_failures(monkeypatch, 2)
    first, second = run_task(SeedTask((1, 2), SECONDS, str(tmp_path)))
    assert (first.failed, second.failed) == (False, True)
    assert "replay it: understudy simulate --seed 2" in second.report
    assert [path.name for path in tmp_path.iterdir()] == ["seed-2"]
    assert len(read([tmp_path]).records) == second.records


def test_a_task_that_runs_twice_leaves_the_same_logs_once(tmp_path: Path) -> None:
    task = SeedTask((1, 2), SECONDS, str(tmp_path), keep_all=True)
    first = list(run_task(task))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.jsonl")}
    assert list(run_task(task)) == first
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.jsonl")} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-1", "seed-2"]


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        leave_events(1, SECONDS, tmp_path / "gone")
