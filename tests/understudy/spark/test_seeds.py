"""Seeds on Spark: the same outcomes as in this process, a ledger, and a lake."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.shares import at_night
from tests.understudy.history.storage.buckets import Bucket, bucket, servers
from understudy.cli.main import main
from understudy.clusters.java import choose_java
from understudy.foundation.eventlog.fences import Fence
from understudy.history.lake.lake import Lake
from understudy.history.storage.paths import UrlPath, storage_path
from understudy.spark.running import spark_running
from understudy.spark.seed_ledger import SeedHunt
from understudy.spark.seeds_job import run_seeds
from understudy.spark.settings import SparkSettings
from understudy.trials.hunt import seed_tasks
from understudy.trials.hunt.seed_tasks import SeedTask, leave_events, run_task
from understudy.trials.seeds.seeds import SeedReport, run_seed

pytestmark = pytest.mark.xdist_group("spark seeds")

__all__ = ["bucket", "servers"]

SECONDS = 6


def ledger_of(lake: Path | UrlPath) -> list[dict[str, Any]]:
    """Return the rows of a ledger as a program without Understudy reads them."""
    options = {"AWS_ALLOW_HTTP": "true"} if isinstance(lake, UrlPath) else None
    table = DeltaTable(str(lake / "seeds" / "ledger"), storage_options=options)
    rows: list[dict[str, Any]] = table.to_pyarrow_dataset().to_table().to_pylist()
    return rows


@at_night("a hunt that keeps a ledger has the same tasks")
def test_outcomes_are_those_of_this_process() -> None:
    with spark_running(SparkSettings(java=choose_java())) as spark:
        (outcomes,) = run_seeds(spark, range(1, 11), SECONDS)
    assert outcomes == list(run_task(SeedTask(tuple(range(1, 11)), SECONDS)))


def test_a_hunt_keeps_a_ledger_and_goes_on_behind_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tmp_path / "lake"
    hunt = ["simulate", "--from", "1", "--seconds", str(SECONDS), "--spark", "local[2]", "--lake", str(lake)]
    assert main([*hunt, "--seeds", "3", "--keep-all"]) == 0
    assert capsys.readouterr().out.startswith("3 seeds from 1, of 6 simulated seconds: ")
    assert list(Lake(lake).runs) == ["seed-1", "seed-2", "seed-3"]
    assert main([*hunt, "--seeds", "5"]) == 0
    output = capsys.readouterr()
    assert "3 of 5 seeds are in the ledger already" in output.err
    assert output.out.startswith("5 seeds from 1, of 6 simulated seconds: ")
    assert list(Lake(lake).runs) == ["seed-1", "seed-2", "seed-3"], "no seed failed, so no other is kept"
    rows = ledger_of(lake)
    assert sorted((row["seed"], row["failed"]) for row in rows) == [(seed, False) for seed in range(1, 6)]
    assert list((lake / "seeds" / "logs").iterdir()) == []
    assert main([*hunt, "--seeds", "5"]) == 0, "nothing is left to run"


def test_a_failed_seed_is_in_the_lake_and_its_logs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(
        seed: int, seconds: int, *, events: Path | None = None, fences_off: tuple[Fence, ...] = ()
    ) -> SeedReport:
        report = run_seed(seed, seconds, events=events, fences_off=fences_off)
        return replace(report, problems=("a problem of this test",)) if seed == 2 else report

    monkeypatch.setattr(seed_tasks, "run_seed", failing)
    hunt = SeedHunt(tmp_path / "lake", SECONDS)
    assert hunt.known == {}
    hunt.keep(list(run_task(SeedTask((1, 2), SECONDS, str(hunt.logs)))))
    assert list(Lake(tmp_path / "lake").runs) == ["seed-2"]
    assert [path.name for path in hunt.logs.iterdir()] == ["seed-2"]
    known = SeedHunt(tmp_path / "lake", SECONDS).known
    assert [(seed, outcome.failed) for seed, outcome in known.items()] == [(1, False), (2, True)]
    assert "a problem of this test" in known[2].report
    assert SeedHunt(tmp_path / "lake", SECONDS + 1).known == {}, "other seconds are another hunt"


def test_a_hunt_that_was_killed_before_its_ledger_was_written_runs_again(tmp_path: Path) -> None:
    hunt = SeedHunt(tmp_path / "lake", SECONDS)
    (hunt.logs / ".seed-1-of-a-killed-worker").mkdir()
    hunt = SeedHunt(tmp_path / "lake", SECONDS)
    assert list(hunt.logs.iterdir()) == []
    leave_events(1, SECONDS, hunt.logs)
    outcomes = list(run_task(SeedTask((1,), SECONDS, str(hunt.logs), keep_all=True)))
    hunt.keep(outcomes)
    before = Lake(tmp_path / "lake").read("totals", incomplete=True).to_pylist()
    list(run_task(SeedTask((1,), SECONDS, str(hunt.logs), keep_all=True)))
    hunt.keep(outcomes)
    assert Lake(tmp_path / "lake").read("totals", incomplete=True).to_pylist() == before


def test_a_folder_of_an_earlier_ledger_becomes_its_table(tmp_path: Path) -> None:
    """Earlier ledgers were Parquet files, and the first of them lacked a column."""
    lake = tmp_path / "lake"
    hunt = SeedHunt(lake, SECONDS)
    hunt.keep(list(run_task(SeedTask((1, 2), SECONDS))))
    rows = ledger_of(lake)
    shutil.rmtree(lake / "seeds" / "ledger")
    (lake / "seeds" / "ledger").mkdir()
    for number, row in enumerate(rows):
        if number == 0:
            del row["acknowledged"]
        pq.write_table(pa.Table.from_pylist([row]), lake / "seeds" / "ledger" / f"{number}.parquet")
    found = SeedHunt(lake, SECONDS)
    assert [found.known[seed].acknowledged for seed in (rows[0]["seed"], rows[1]["seed"])] == [
        0,
        rows[1]["acknowledged"],
    ]
    found.keep(list(run_task(SeedTask((3,), SECONDS))))
    assert sorted(SeedHunt(lake, SECONDS).known) == sorted(row["seed"] for row in ledger_of(lake)) == [1, 2, 3]


def test_two_hunts_use_a_ledger_at_the_same_time(tmp_path: Path) -> None:
    hunts = [SeedHunt(tmp_path / "lake", SECONDS) for _ in range(2)]
    for seed, hunt in enumerate(hunts, start=1):
        hunt.keep(list(run_task(SeedTask((seed,), SECONDS))))
    assert sorted(SeedHunt(tmp_path / "lake", SECONDS).known) == [1, 2]


@at_night("a lake in a bucket is written by workers each time")
def test_a_hunt_in_a_bucket(bucket: Bucket) -> None:
    """Workers leave event logs in the bucket, so they need no folder in common."""
    lake = storage_path(f"{bucket.url}/lake")
    hunt = SeedHunt(lake, SECONDS)
    hunt.keep(list(run_task(SeedTask((1, 2), SECONDS, str(hunt.logs), keep_all=True))))
    assert list(Lake(lake).runs) == ["seed-1", "seed-2"]
    assert list(hunt.logs.glob("*")) == [], "the logs of seeds that did not fail are deleted"
    assert sorted(row["seed"] for row in ledger_of(lake)) == sorted(SeedHunt(lake, SECONDS).known) == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "2", "--lake", "x"], "--lake goes with --spark"),
        (["--seeds", "2", "--spark", "local[2]", "--keep-all"], "--keep-all goes with --lake"),
        (["--seed", "2", "--spark", "local[2]"], "--spark goes with --seeds"),
    ],
)
def test_options_that_do_not_go_together(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", *arguments])
    assert message in capsys.readouterr().err


def test_a_folder_that_is_no_lake_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").touch()
    assert main(["simulate", "--seeds", "1", "--spark", "local[2]", "--lake", str(tmp_path)]) == 2
    assert "is not a lake" in capsys.readouterr().err
