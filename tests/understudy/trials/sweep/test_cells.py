"""The cells of a sweep, their runs in the simulator, and what an interrupted sweep leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.clusters.cluster import WaitTimedOut
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.eventlog.records import FaultInjected, RunDescribed, StepReached
from understudy.history.metrics.metrics import measure
from understudy.history.reading.reader import read
from understudy.history.report.replay import replay_in_python
from understudy.trials.sweep.cells import PROCESSES, SIMULATOR, Cell, grid, unfinished, unfinished_folder
from understudy.trials.sweep.simulated import run_cell


def cell(**settings: int | str) -> Cell:
    usual: dict[str, int | str] = {
        "world": SIMULATOR,
        "brokers": 3,
        "partitions": 5,
        "session_timeout_ms": 3000,
        "fault": "kill",
        "draw": 1,
    }
    return Cell(**usual | settings)  # type: ignore[arg-type]  # each setting has the type of its field


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.jsonl"))}


def test_a_grid_has_every_combination_and_all_of_one_draw_before_the_next() -> None:
    cells = grid(
        SIMULATOR, brokers=(3, 5), partitions=(1, 2), session_timeouts_ms=(9,), faults=("kill", "pause"), draws=(4, 5)
    )
    assert len(cells) == len({each.name for each in cells}) == 16
    assert [each.draw for each in cells] == [4] * 8 + [5] * 8
    assert cells[0].name == "b3-p1-t9-kill-4"


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_without_the_fault_on_record_the_outage_is_right_to_a_session_timeout(fault: str, tmp_path: Path) -> None:
    for draw in range(1, 6):
        each = cell(fault=fault, draw=draw)
        run_cell(each, tmp_path)
        records = read([tmp_path / each.name]).records
        known = measure("known", records)
        guessed = measure("guessed", [record for record in records if not isinstance(record.data, FaultInjected)])
        assert (known.failovers[0].cause, guessed.failovers[0].cause) == (fault, "silence")
        leaderless = known.totals.leaderless_partitions
        assert leaderless > 0
        assert guessed.totals.leaderless_partitions == leaderless
        assert known.failovers[0].outage_ms is not None
        assert known.totals.leaderless_ms > leaderless * known.failovers[0].outage_ms * 0.9
        assert guessed.failovers[0].outage_ms is not None
        assert abs(guessed.failovers[0].outage_ms - known.failovers[0].outage_ms) < each.session_timeout_ms
        longest = leaderless * each.session_timeout_ms
        assert abs(guessed.totals.leaderless_ms - known.totals.leaderless_ms) < longest


def test_no_two_cells_share_a_name_or_a_seed() -> None:
    cells = [
        cell(),
        cell(world=PROCESSES),
        cell(brokers=4),
        cell(partitions=6),
        cell(session_timeout_ms=3001),
        cell(fault="pause"),
        cell(draw=2),
    ]
    assert len({each.name for each in cells}) == len({each.seed for each in cells}) == len(cells)


@pytest.mark.parametrize("fault", ["kill", "pause"])
def test_a_run_is_one_failover_after_the_fault_and_describes_itself(tmp_path: Path, fault: str) -> None:
    wanted = cell(fault=fault, brokers=4)
    assert run_cell(wanted, tmp_path).problem == ""
    reading = read([tmp_path / wanted.name])
    assert reading.findings == ()
    (described,) = (record.data for record in reading.records if isinstance(record.data, RunDescribed))
    assert (described.world, described.brokers, described.partitions) == ("simulator", 4, 5)
    assert (described.session_timeout_ms, described.fault, described.seed) == (3000, fault, wanted.seed)
    (run,) = replay_in_python([tmp_path]).runs
    assert run.run == wanted.name
    assert [(row.cause, row.by_fault, row.partitions) for row in run.failovers] == [(fault, True, 5)]
    (failover,) = run.failovers
    assert None not in (failover.detection_ms, failover.takeover_ms, failover.propagation_ms)
    assert {row.leader for row in run.partitions}.isdisjoint({None, -1, failover.previous_broker})
    assert run.settings.partitions == len(run.partitions) == 5
    assert [record.data.step for record in reading.records if isinstance(record.data, StepReached)] == ["fault", "end"]


def test_the_same_cell_leaves_the_same_bytes_and_another_draw_others(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        run_cell(cell(), tmp_path / folder)
    run_cell(cell(draw=2), tmp_path / "one")
    first = contents(tmp_path / "one" / cell().name)
    assert first
    assert first == contents(tmp_path / "two" / cell().name)
    assert first != contents(tmp_path / "one" / cell(draw=2).name)


def test_the_fault_comes_at_a_drawn_time(tmp_path: Path) -> None:
    waited = []
    for draw in range(1, 4):
        run_cell(cell(draw=draw), tmp_path)
        records = read([tmp_path / cell(draw=draw).name]).records
        (fault,) = (record.mono_ms for record in records if isinstance(record.data, FaultInjected))
        waited.append(fault)
    assert len(set(waited)) == 3


def test_a_run_that_fails_leaves_nothing_among_the_complete_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def times_out(*arguments: object, **options: object) -> None:
        raise WaitTimedOut("not in this test")

    monkeypatch.setattr(SimulatedCluster, "wait_until", times_out)
    report = run_cell(cell(), tmp_path / "out")
    assert report.problem == "WaitTimedOut: not in this test"
    assert unfinished([cell()], tmp_path / "out") == (cell(),)
    monkeypatch.undo()
    (tmp_path / "out").mkdir()
    assert (unfinished_folder(tmp_path / "out") / cell().name).is_dir()
    assert run_cell(cell(), tmp_path / "out").problem == ""
    assert unfinished([cell()], tmp_path / "out") == ()
    assert list(unfinished_folder(tmp_path / "out").iterdir()) == []
