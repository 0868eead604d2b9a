"""Spark's workers write the same lake as one process, and Spark reads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.foundation.eventlog.stories import RandomRun, killed_controller
from tests.shares import at_night, only_nightly
from tests.understudy.history.lake.damaged_logs import write
from tests.understudy.history.lake.incomplete import let_be_incomplete
from tests.understudy.history.lake.lakes import assert_holds, content, take, write_runs
from tests.understudy.spark.older_spark import FINDS_DAMAGE_BY_SQL, needs_the_java_from_pip
from tests.understudy.spark.oracle.small_logs import session_for_small_logs
from tests.understudy.spark.oracle.sql_findings import findings_by_sql
from tests.understudy.spark.oracle.sql_tables import assert_sql_agrees
from tests.understudy.spark.test_functions import in_order, rows_of
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.history.lake import ingest as ingesting
from understudy.history.lake.columns import RUN_TABLES
from understudy.history.lake.errors import LakeError
from understudy.history.lake.ingest import find_logs, ingest, remove
from understudy.history.lake.lake import Lake
from understudy.history.metrics.incomplete_runs import IncompleteRunsLeftOut
from understudy.history.metrics.metric_tables import TABLES
from understudy.spark import read_lake, read_records, tables
from understudy.spark.ddl import ddl
from understudy.spark.failures import SparkFailed
from understudy.spark.ingest_job import SparkEngine
from understudy.trials.seeds.seeds import run_seed

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return write_runs(tmp_path / "runs", 4, records=150)


def test_workers_write_the_same_lake(
    session: SparkSession, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "_MAX_TASK_BYTES", 1)
    monkeypatch.setattr(ingesting, "_TASKS_PER_ROUND_AND_CORE", 1)
    lake = tmp_path / "lake"
    result = ingest(find_logs([runs]), lake, lambda _: SparkEngine(session))
    assert (len(result.added), result.refused) == (5, [])
    assert result.version > 1, "each round of tasks is a version"
    assert_holds(lake, runs)
    take(tmp_path / "other", runs)
    assert content(lake) == content(tmp_path / "other")


@only_nightly("sql-of-lakes")
def test_the_tables_of_a_lake_are_those_that_sql_computes_from_its_records(
    session: SparkSession, runs: Path, tmp_path: Path
) -> None:
    """The SQL shares no code with what computes the tables: it defines them a second time."""
    for seed in range(4, 12):
        write(RandomRun(seed, records=400).logs, runs / f"random-{seed}")
    run_seed(3, 30, events=runs / "seed-3")
    log = runs / "random-4" / "broker-1-0001-0001.jsonl"
    log.write_bytes(log.read_bytes()[:-20])
    ingest(find_logs([runs]), tmp_path / "lake", lambda _: SparkEngine(session))
    opened = Lake(tmp_path / "lake")
    metrics = list(opened.run_metrics(incomplete=True))
    assert len(metrics) == 14
    assert_sql_agrees(session_for_small_logs(session), tmp_path / "lake", metrics)
    if FINDS_DAMAGE_BY_SQL:
        assert findings_by_sql(session, [runs]) == (opened.findings(), opened.lines)
    assert {name for name in TABLES for run in metrics if getattr(run, name)} == TABLES.keys()
    failovers = (
        read_lake(session, tmp_path / "lake", "failovers", incomplete=True)
        .select("run", "epoch", "outage_ms")
        .collect()
    )
    assert sorted(map(tuple, failovers)) == sorted(
        (run.run, row.epoch, row.outage_ms) for run in metrics for row in run.failovers
    )


def test_a_task_that_fails_is_named_and_changes_nothing(session: SparkSession, runs: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    take(lake, runs / "killed")
    before = content(lake)
    (lake / "tables" / "elections").rename(tmp_path / "moved")
    (lake / "tables" / "elections").touch()
    with pytest.raises(SparkFailed, match=f"the event logs cannot be written into {lake}: "):
        ingest(find_logs([runs]), lake, lambda _: SparkEngine(session))
    (lake / "tables" / "elections").unlink()
    (tmp_path / "moved").rename(lake / "tables" / "elections")
    assert content(lake) == before


def test_spark_reads_every_table(session: SparkSession, runs: Path, tmp_path: Path) -> None:
    take(tmp_path / "lake", runs)
    opened = Lake(tmp_path / "lake")
    for name in (
        "totals",
        "partitions",
        "failovers",
        "leaderships",
        "RequestSent",
        "LeadershipWritten",
        "StopReplicaApplied",
    ):
        frame = read_lake(session, tmp_path / "lake", name, incomplete=True)
        assert frame.columns == opened.schema(name).names
        assert rows_of(frame) == in_order(opened.read(name, incomplete=True).to_pylist())
    causes = (
        read_lake(session, str(tmp_path / "lake"), "failovers", incomplete=True)
        .where("run = 'run-1'")
        .select("cause", "outage_ms")
    )
    assert [tuple(row) for row in causes.collect()] == [("kill", 3050.0)]


@at_night("comparisons leave out such runs each time")
def test_runs_with_missing_records_are_left_out_unless_they_are_asked_for(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_be_incomplete(monkeypatch, "cut")
    for name in ("cut", "whole"):
        write(killed_controller(name), tmp_path / "runs" / name)
    take(tmp_path / "lake", tmp_path / "runs")

    def runs_of(frame: DataFrame) -> set[str]:
        return {row["run"] for row in frame.select("run").distinct().collect()}

    for name in ("failovers", "RequestSent"):
        with pytest.warns(IncompleteRunsLeftOut, match=f"1 of 2 runs of .*/lake are left out of {name}, because"):
            frame = read_lake(session, tmp_path / "lake", name)
        assert runs_of(frame) == {"whole"}
        assert frame.columns == Lake(tmp_path / "lake").schema(name).names
        assert runs_of(read_lake(session, tmp_path / "lake", name, incomplete=True)) == {"cut", "whole"}
    with pytest.warns(IncompleteRunsLeftOut, match="left out of records"):
        frame = read_records(session, tmp_path / "lake")
    assert runs_of(frame) == {"whole"}
    assert frame.columns[-1] == "type"
    assert runs_of(read_records(session, tmp_path / "lake", incomplete=True)) == {"cut", "whole"}
    assert runs_of(read_lake(session, tmp_path / "lake", "missing")) == {"cut"}
    with pytest.warns(IncompleteRunsLeftOut, match="left out of the tables"):
        found = tables(session_for_small_logs(session), tmp_path / "lake")
    assert runs_of(found["settings"]) == {"whole"}


def test_the_records_of_all_types_are_one_table(session: SparkSession, runs: Path, tmp_path: Path) -> None:
    take(tmp_path / "lake", runs)
    opened = Lake(tmp_path / "lake")
    found = (
        read_records(session, tmp_path / "lake", incomplete=True)
        .groupBy("type", "run")
        .agg({"seq": "sum", "*": "count"})
        .collect()
    )
    expected = [
        (name, run, sum(seqs), len(seqs))
        for name in opened.record_types
        for run, seqs in numbers_by_run(opened.read(name, incomplete=True)).items()
    ]
    assert sorted((row["type"], row["run"], row["sum(seq)"], row["count(1)"]) for row in found) == sorted(expected)
    remove(list(opened.runs), tmp_path / "lake")
    assert read_records(session, tmp_path / "lake", incomplete=True).select("run", "type").collect() == []


def numbers_by_run(table: pa.Table) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in table.select(["run", "seq"]).to_pylist():
        found.setdefault(row["run"], []).append(row["seq"])
    return found


def test_tables_without_rows_and_unknown_names(session: SparkSession, runs: Path, tmp_path: Path) -> None:
    take(tmp_path / "lake", runs / "killed")
    assert "refusals" not in Lake(tmp_path / "lake").tables
    assert read_lake(session, tmp_path / "lake", "refusals", incomplete=True).count() == 0
    assert read_lake(session, tmp_path / "lake", "TaskFailed", incomplete=True).columns[-3:] == [
        "task",
        "error",
        "wall_at",
    ]
    with pytest.raises(LakeError, match="there is no table 'nothing'"):
        read_lake(session, tmp_path / "lake", "nothing", incomplete=True)


def test_every_schema_can_be_written_as_text(tmp_path: Path, runs: Path) -> None:
    take(tmp_path / "lake", runs / "killed")
    opened = Lake(tmp_path / "lake")
    for name in (*RUN_TABLES, *PAYLOAD_BY_TYPE, "findings"):
        assert ddl(opened.schema(name)).startswith("`run` STRING, ")


def start(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command without any variable that names a Java or a Spark."""
    command = [sys.executable, "-m", "understudy.cli.main", "ingest", *map(str, arguments)]
    environment = {"PATH": "/nowhere", "HOME": "/nowhere", "LANG": "C.UTF-8"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)


@needs_the_java_from_pip
def test_the_command_ingests_in_spark_with_the_java_from_pip(runs: Path, tmp_path: Path) -> None:
    done = start(runs, "--lake", tmp_path / "lake", "--engine", "spark")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{tmp_path}/lake has version 2: 5 runs added, 0 replaced, 0 unchanged; ")
    assert_holds(tmp_path / "lake", runs)
    again = start(runs, "--lake", tmp_path / "lake", "--engine", "spark", "--master", "nowhere")
    assert again.returncode == 0, "Spark is not started if there is nothing to write"
    assert "0 runs added, 0 replaced, 5 unchanged" in again.stdout


@needs_the_java_from_pip
def test_an_unknown_master_is_one_line(runs: Path, tmp_path: Path) -> None:
    done = start(runs, "--lake", tmp_path / "lake", "--engine", "spark", "--master", "nowhere")
    assert done.returncode == 1
    (message,) = done.stderr.splitlines()
    assert message.startswith("understudy ingest: Spark does not run with master nowhere: ")
