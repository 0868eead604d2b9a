"""Functions that take a session: their DataFrames have the rows that the commands compute, with documented columns."""

from __future__ import annotations

import importlib
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.foundation.eventlog.stories import RandomRun
from tests.shares import at_night
from tests.understudy.history.lake.damaged_logs import write_damaged
from tests.understudy.history.lake.lakes import assert_holds, take, write_runs
from tests.understudy.spark.test_replay_job import write, write_mixed
from understudy.history.compare.comparison import compare as compare_runs
from understudy.history.compare.groups import QUANTITIES, CannotCompare, observe
from understudy.history.lake.columns import FINDINGS, RUN_TABLES
from understudy.history.lake.comments import column_comments
from understudy.history.lake.lake import Lake
from understudy.history.lake.log_rows import BadSource
from understudy.history.report.replay import replay_in_python
from understudy.history.report.runs import DIFFERENT_RUNS
from understudy.spark import compare, ingest, job_watch, replay, seeds
from understudy.spark.failures import SparkFailed, spark_errors
from understudy.spark.job_watch import shown
from understudy.trials.hunt.seed_tasks import SeedTask, run_task

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return write_six_runs(tmp_path / "runs")


def write_six_runs(folder: Path) -> Path:
    return write_runs(folder, 5, records=150)


def rows_of(table: DataFrame) -> list[str]:
    return in_order(row.asDict(recursive=True) for row in table.collect())


def in_order(rows: Iterable[object]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=in_utc) for row in rows)


def in_utc(time: object) -> str:
    """Return a time as text; Spark gives times of the machine's time zone, without its name."""
    assert isinstance(time, datetime)
    return time.astimezone(UTC).isoformat()


def assert_same_tables(tables: Mapping[str, DataFrame], lake: Lake) -> None:
    """Compare tables of Spark with the tables that plain Python has written into a lake, to the last digit."""
    for name, table in tables.items():
        assert table.columns == lake.schema(name).names
        assert rows_of(table) == in_order(lake.read(name, incomplete=True).to_pylist()), name


def assert_compared(found: DataFrame, runs: Path) -> None:
    """Compare a comparison by worlds in Spark with the comparison of these runs in plain Python."""
    observed = [observe(run, "") for run in replay_in_python([runs]).runs]
    expected = compare_runs(observed, ("world",), {}, incomplete=True)
    assert found.columns[:4] == ["world", "quantity", "unit", "runs"]
    rows = {(row["world"], row["quantity"]): row for row in found.collect()}
    assert len(rows) == len(expected.groups) * len(QUANTITIES)
    for group in expected.groups:
        for quantity in QUANTITIES:
            values, row = group.distributions[quantity.name], rows[group.key[0], quantity.name]
            assert (row["n"], row["runs"], row["unit"]) == (values.n, values.runs, quantity.unit)
            for percent, name in ((50, "p50"), (90, "p90"), (99, "p99"), (100, "max")):
                value = values.quantiles[percent]
                assert row[name] == (None if value is None else value / quantity.scale)


def test_every_table_has_the_rows_of_a_lake(session: SparkSession, runs: Path, tmp_path: Path) -> None:
    take(tmp_path / "lake", runs)
    lake = Lake(tmp_path / "lake")
    session.range(1).collect()  # Spark itself adds settings at its first query
    before = (sorted(session.sparkContext.getConf().getAll()), session.sql("SET").collect())
    with replay(session, f"{runs}/*") as tables:
        assert list(tables) == list(RUN_TABLES)
        assert len(tables) == len(RUN_TABLES)
        assert_same_tables(tables, lake)
        with pytest.raises(KeyError, match="there is no table 'nothing'; there are settings"):
            tables["nothing"]
    assert (sorted(session.sparkContext.getConf().getAll()), session.sql("SET").collect()) == before
    assert rows_of(tables["failovers"]), "after its block a table is computed again"


def test_damage_mixed_files_and_conflicts_are_findings(session: SparkSession, tmp_path: Path) -> None:
    write_damaged(tmp_path / "damaged")
    write_mixed(tmp_path / "mixed")
    for copy, records in (("a", 30), ("b", 40)):
        write(RandomRun(7, records=records).logs, tmp_path / "conflict" / copy)
    expected = replay_in_python([tmp_path])
    with replay(session, tmp_path) as tables:
        found = tables[FINDINGS].collect()
        assert sorted((row["file"], row["line"], row["kind"], row["what"], row["count"]) for row in found) == [
            (finding.file, finding.line, finding.kind, finding.what, finding.count) for finding in expected.findings
        ]
        assert any(row["kind"] == DIFFERENT_RUNS for row in found) == any(
            finding.kind == DIFFERENT_RUNS for finding in expected.findings
        )
        totals = {row["run"]: row["records"] for row in tables["totals"].collect()}
        assert totals == {run.run: run.totals.records for run in expected.runs}


def test_columns_say_what_they_mean(session: SparkSession, runs: Path) -> None:
    with replay(session, runs / "killed") as tables:
        failovers = tables["failovers"].schema
    assert failovers["run"].metadata["comment"] == "The id of the run."
    for name, text in column_comments(RUN_TABLES["failovers"]).items():
        assert failovers[name].metadata["comment"] == text
    assert "ZooKeeper's session timeout" in failovers["detection_ms"].metadata["comment"]


def test_ingest_returns_a_row_for_each_run(session: SparkSession, runs: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "broker-1-0001-0001.jsonl").touch()
    some = [runs / "killed", runs / "random-0", tmp_path / "empty"]
    found = ingest(session, some, lake=tmp_path / "lake").collect()
    assert {row["run"]: row["outcome"] for row in found if row["run"]} == {"run-1": "added", "random-0": "added"}
    assert [(row["outcome"], Path(row["reason"]).parent.name) for row in found if not row["run"]] == [
        ("skipped", "empty")
    ]
    outcomes = {row["run"]: row["outcome"] for row in ingest(session, runs, lake=tmp_path / "lake").collect()}
    assert outcomes["run-1"] == "unchanged"
    assert outcomes["random-4"] == "added"
    assert_holds(tmp_path / "lake", runs)


def test_compare_returns_a_row_for_each_group_and_quantity(session: SparkSession, runs: Path, tmp_path: Path) -> None:
    take(tmp_path / "lake", runs)
    assert_compared(compare(session, tmp_path / "lake", by=["world"], incomplete=True), runs)
    with pytest.raises(CannotCompare, match="colour is no setting"):
        compare(session, tmp_path / "lake", by=["colour"])


def test_seeds_return_a_row_for_each_outcome_and_leave_logs(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    found = seeds(session, range(1, 4), seconds=6, logs=tmp_path / "logs").collect()
    expected = {outcome.seed: outcome for outcome in run_task(SeedTask((1, 2, 3), 6))}
    assert sorted(row["seed"] for row in found) == [1, 2, 3]
    for row in found:
        assert row.asDict() == {name: getattr(expected[row["seed"]], name) for name in row.asDict()}
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["seed-1", "seed-2", "seed-3"]


def test_paths_without_logs_are_named(session: SparkSession, tmp_path: Path) -> None:
    for call in (lambda: replay(session, tmp_path), lambda: ingest(session, tmp_path, lake=tmp_path / "lake")):
        with pytest.raises(BadSource, match=f"there are no event-log files at or below {tmp_path}; expected files"):
            call()
    with pytest.raises(BadSource, match="ftp://host/runs cannot be read"):
        replay(session, "ftp://host/runs")


def test_a_session_that_was_stopped_is_named(tmp_path: Path) -> None:
    stopped = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))
    with pytest.raises(SparkFailed, match="the session of Spark was stopped; open another"):
        replay(cast("SparkSession", stopped), tmp_path)


@at_night("other functions run in the same workers each time")
def test_a_package_that_workers_lack_is_named_with_the_host(session: SparkSession) -> None:
    lacks = f"{platform.node()} with Python {platform.python_version()} lacks no_such. understudy.spark.send_package"
    with pytest.raises(SparkFailed, match=f"No module named 'no_such'. {lacks}"), spark_errors("it failed", session):
        session.range(1).mapInArrow(importing("no_such"), "id BIGINT").collect()


def importing(name: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def work(batches: Iterator[Any]) -> Iterator[Any]:
        importlib.import_module(name)
        yield from batches

    return work


def test_jobs_have_a_description_and_their_progress_is_shown(session: SparkSession, tmp_path: Path) -> None:
    """The second task waits until the progress of the first has been shown."""
    lines: list[str] = []

    def progress(line: str) -> None:
        lines.append(line)
        if "3 of 5" in line:
            (tmp_path / "shown").touch()

    context = session.sparkContext
    context.setLocalProperty("spark.job.description", "mine")
    with shown(session, "measuring runs", [3, 2], progress):
        assert context.getLocalProperty("spark.job.description") == "Understudy: measuring runs"
        session.range(0, 2, 1, 2).mapInArrow(waiting_in_the_second_task(tmp_path / "shown"), "id BIGINT").collect()
    assert context.getLocalProperty("spark.job.description") == "mine"
    context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]  # None removes it
    assert "measuring runs: 3 of 5 runs done" in lines
    assert set(lines) <= {f"measuring runs: {done} of 5 runs done" for done in (0, 3, 5)}


def test_a_single_task_shows_no_progress(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """While it runs none of its runs is known to be done, and the step itself has been shown already."""
    monkeypatch.setattr(job_watch, "_LOOKS_EVERY_S", 0.01)
    lines: list[str] = []
    with shown(session, "measuring runs", [5], lines.append):
        session.range(1, 2, 1, 1).mapInArrow(waiting_in_the_second_task(tmp_path / "no", 0.3), "id BIGINT").collect()
    assert lines == []


def waiting_in_the_second_task(file: Path, timeout_s: float = 60.0) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def work(batches: Iterator[Any]) -> Iterator[Any]:
        deadline = time.monotonic() + timeout_s
        for batch in batches:
            while batch.column(0).to_pylist() == [1] and not file.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            yield batch

    return work
