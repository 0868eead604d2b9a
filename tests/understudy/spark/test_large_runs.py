"""A run that is larger than a task is written in pieces, with the rows that one task writes of it."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.foundation.eventlog.stories import killed_controller
from tests.shares import at_night
from tests.understudy.history.lake.damaged_logs import write, write_damaged
from tests.understudy.history.lake.lakes import content, counted_files, rows_below, take
from tests.understudy.spark.oracle.small_logs import session_for_small_logs
from understudy.history.lake import ingest as ingesting
from understudy.history.lake.ingest import Ingested, find_logs, ingest
from understudy.history.lake.lake import Lake
from understudy.history.lake.pieces import divide, lines_of
from understudy.history.reading.file_marks import mark
from understudy.history.report.runs import find_logs as find_logs_of_replay
from understudy.history.storage.paths import StoragePath
from understudy.spark import ingest_job, large_runs, replay_job
from understudy.spark.failures import SparkFailed
from understudy.spark.ingest_job import SparkEngine
from understudy.spark.large_runs import write_large_run
from understudy.spark.replay_job import SparkReplay
from understudy.spark.views.definitions import TABLES
from understudy.trials.seeds.seeds import run_seed

pytestmark = pytest.mark.xdist_group("spark")

_PIECES = 7


@pytest.fixture
def steps(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let every run be a large one, of some pieces; return the steps of ingests."""
    monkeypatch.setattr(ingesting, "LARGE_RUN_BYTES", 0)
    monkeypatch.setattr(
        ingest_job,
        "write_large_run",
        lambda spark, lake, run: write_large_run(spark, lake, run, run.bytes // _PIECES + 1),
    )
    return []


def divided(session: SparkSession, lake: Path, logs: Path, steps: list[str]) -> Ingested:
    return ingest(find_logs([logs]), lake, lambda _: SparkEngine(session_for_small_logs(session)), steps.append)


def rows_by_table(lake: Path) -> dict[str, list[dict[str, Any]]]:
    """Return all rows, sorted by all their columns: a piece has the rows of a table in the order of its files."""
    return {name: sorted(rows, key=repr) for name, rows in content(lake).items()}


def entries(lake: StoragePath) -> dict[str, tuple[object, ...]]:
    """Return what the table `runs` has of each run, without the name of the ingest."""
    found = Lake(lake).runs
    return {run: (each.schema, each.files, each.lines, each.records, each.missing) for run, each in found.items()}


def assert_is_whole(steps: list[str]) -> None:
    assert not [step for step in steps if "in one task" in step]


@pytest.mark.parametrize(
    "tables",
    [
        ("totals", "requests"),
        pytest.param(tuple(TABLES), marks=at_night("the SQL of each table is compared with the kernel's each time")),
    ],
    ids=["some tables", "all tables"],
)
def test_a_run_in_pieces_has_the_rows_of_one_task(
    session: SparkSession, steps: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: tuple[str, ...]
) -> None:
    monkeypatch.setattr(large_runs, "TABLES", tables)
    logs = tmp_path / "logs"
    run_seed(1, 20, own_clocks=False, events=logs / "seed-1")
    take(tmp_path / "expected", logs)
    result = divided(session, tmp_path / "lake", logs, steps)
    assert_is_whole(steps)
    assert (len(result.added), result.refused, result.incomplete) == (1, [], {})
    expected = rows_by_table(tmp_path / "expected")
    assert rows_by_table(tmp_path / "lake") == {
        name: rows for name, rows in expected.items() if name not in TABLES or name in tables
    }
    assert entries(tmp_path / "lake") == entries(tmp_path / "expected")
    (run,) = find_logs([logs])
    pieces = divide(map(mark, run.files), run.bytes // _PIECES + 1)
    senders = [piece for piece in pieces if any(b'"RequestSent"' in line.text for line in chain(*map(lines_of, piece)))]
    assert len(list((tmp_path / "lake" / "records" / "RequestSent").glob("*.parquet"))) == len(senders) > 1


def test_a_run_that_is_not_whole_is_written_in_one_task(
    session: SparkSession, steps: list[str], tmp_path: Path
) -> None:
    logs = write_damaged(tmp_path / "logs" / "damaged")
    take(tmp_path / "expected", logs)
    divided(session, tmp_path / "lake", logs, steps)
    assert [step for step in steps if "in one task" in step] == [
        "writing run run-1 in one task, which needs memory for all its records: "
        f"{logs}/broker-2-0001-0001.jsonl has damaged lines"
    ]
    assert content(tmp_path / "lake") == content(tmp_path / "expected")
    assert rows_below(tmp_path / "lake") == counted_files(Lake(tmp_path / "lake")), "no file of a piece is left"


def test_a_lake_that_spark_cannot_read_is_written_by_python(
    session: SparkSession, steps: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a connector for the store of the lake, SQL does not find what the workers have written."""

    def failing(*_: object) -> None:
        raise SparkFailed("Spark cannot read the files")

    logs = write(killed_controller(), tmp_path / "logs")
    monkeypatch.setattr(large_runs, "read_files", failing)
    divided(session, tmp_path / "lake", logs, steps)
    assert next(step for step in steps if "in one task" in step).endswith(": Spark cannot read the files")
    take(tmp_path / "expected", logs)
    assert content(tmp_path / "lake") == content(tmp_path / "expected")


@at_night("an ingest of whole runs is killed in each run, and both end in the same commit")
def test_a_killed_ingest_leaves_no_part_of_a_run(
    session: SparkSession, steps: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    logs = write(killed_controller("large"), tmp_path / "logs" / "large")
    write(killed_controller("first"), tmp_path / "first")
    take(tmp_path / "lake", tmp_path / "first")
    before = content(tmp_path / "lake")
    with monkeypatch.context() as patched:
        patched.setattr(large_runs, "_write_tables", killed)
        with pytest.raises(Killed):
            divided(session, tmp_path / "lake", logs, steps)
    assert rows_below(tmp_path / "lake") > counted_files(Lake(tmp_path / "lake")), "the records have been written"
    assert content(tmp_path / "lake") == before
    assert list(Lake(tmp_path / "lake").runs) == ["first"]
    take(tmp_path / "lake", logs)
    take(tmp_path / "expected", tmp_path / "first", logs)
    assert content(tmp_path / "lake") == content(tmp_path / "expected")


def test_replay_names_a_run_that_is_larger_than_a_task(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = find_logs_of_replay([write(killed_controller(), tmp_path / "logs")])
    steps: list[str] = []
    SparkReplay(session, "Spark").replay(logs, progress=steps.append)
    assert not [step for step in steps if "divides" in step]
    monkeypatch.setattr(replay_job, "LARGE_RUN_BYTES", 1000)
    SparkReplay(session, "Spark").replay(logs, progress=steps.append)
    (advice,) = [step for step in steps if "divides" in step]
    assert advice.startswith("run run-1 has 0 MB of logs, and a task needs memory for all its records; `understudy ")
