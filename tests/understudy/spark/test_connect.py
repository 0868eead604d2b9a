"""Everything that runs in classic Spark runs in a session of a real Spark Connect server, with the same results."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from devtools.connect_server import ConnectServer
from devtools.standalone_spark import StandaloneCluster
from tests.shares import at_night
from tests.understudy.history.lake.lakes import assert_holds, content, take
from tests.understudy.spark.connect_servers import connect_server
from tests.understudy.spark.older_spark import needs_data_sources, needs_progress_handlers
from tests.understudy.spark.oracle.sql_tables import assert_same_rows
from tests.understudy.spark.standalone_cluster import port_of_no_server
from tests.understudy.spark.test_functions import (
    assert_compared,
    assert_same_tables,
    in_order,
    rows_of,
    write_six_runs,
)
from understudy.clusters.java import choose_java
from understudy.history.lake.lake import Lake
from understudy.history.report.replay import replay_in_python
from understudy.history.report.runs import find_logs
from understudy.spark import compare, ingest, read_lake, read_records, register, replay, seeds, tables
from understudy.spark.failures import SparkFailed
from understudy.spark.replay_job import SparkReplay
from understudy.spark.running import spark_running
from understudy.spark.settings import SparkSettings
from understudy.trials.hunt.seed_tasks import SeedTask, run_task

pytestmark = pytest.mark.xdist_group("spark connect")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with connect_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def remote(server: ConnectServer) -> Iterator[SparkSession]:
    with spark_running(SparkSettings.chosen(master=server.url)) as running:
        yield running


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_six_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def lake(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lakes") / "lake"
    take(folder, runs)
    return folder


def test_every_table_is_that_of_a_lake(remote: SparkSession, runs: Path, lake: Path) -> None:
    with replay(remote, runs) as tables:
        assert_same_tables(tables, Lake(lake))
        assert "session timeout" in tables["failovers"].schema["detection_ms"].metadata["comment"]


@at_night("the same SQL and the same kernels run in a session of classic Spark")
def test_the_page_is_that_of_plain_python(remote: SparkSession, runs: Path, tmp_path: Path) -> None:
    expected = replay_in_python([runs])
    for output in (None, tmp_path / "tables"):
        found = SparkReplay(remote, "Spark").replay(find_logs([runs]), output=output, whole=True)
        assert (found.runs, found.findings, found.lines) == (expected.runs, expected.findings, expected.lines)
    written = remote.read.parquet(str(tmp_path / "tables" / "totals"))
    assert {row["run"]: row["records"] for row in written.collect()} == {
        run.run: run.totals.records for run in expected.runs
    }


@at_night("the same SQL and the same kernels run in a session of classic Spark")
def test_the_lake_is_that_of_one_process(remote: SparkSession, runs: Path, lake: Path, tmp_path: Path) -> None:
    found = ingest(remote, runs, lake=tmp_path / "lake").collect()
    assert [row["outcome"] for row in found] == ["added"] * 6
    assert_holds(tmp_path / "lake", runs)
    assert content(tmp_path / "lake") == content(lake)


def test_a_lake_is_read_and_compared(remote: SparkSession, runs: Path, lake: Path) -> None:
    opened = Lake(lake)
    for name in ("failovers", "RequestSent"):
        assert rows_of(read_lake(remote, lake, name, incomplete=True)) == in_order(
            opened.read(name, incomplete=True).to_pylist()
        )
    types = read_records(remote, lake, incomplete=True).select("type").distinct().collect()
    assert sorted(row["type"] for row in types) == sorted(opened.record_types)
    assert_compared(compare(remote, lake, by=["world"], incomplete=True), runs)


@at_night("the same SQL runs in a session of classic Spark")
def test_sql_computes_tables_of_a_lake(remote: SparkSession, lake: Path) -> None:
    """A table that reads views which are kept, and a definition with an added condition."""
    found = tables(remote, lake, incomplete=True)
    rows = [row.asDict(recursive=True) for row in found["reigns"].collect()]
    assert_same_rows("reigns", rows, Lake(lake).read("reigns", incomplete=True).to_pylist())
    sent = found.query(found.definition("request_log") + "WHERE api = 'LeaderAndIsr'").collect()
    apis = Lake(lake).read("RequestSent", incomplete=True)["api"].to_pylist()
    assert len(sent) == apis.count("LeaderAndIsr") > 0
    left = [table.name for table in remote.catalog.listTables()]
    assert [name for name in left if not name.startswith("understudy_")] == []


@at_night("the same SQL and the same kernels run in a session of classic Spark")
def test_seeds_have_the_outcomes_of_this_process(remote: SparkSession) -> None:
    expected = [outcome.seed for outcome in run_task(SeedTask((1, 2, 3), 6))]
    assert sorted(row["seed"] for row in seeds(remote, range(1, 4), seconds=6).collect()) == expected


@needs_data_sources
@at_night("classic Spark reads batches and streams each time")
def test_the_data_source_reads_a_batch_and_a_stream(remote: SparkSession, runs: Path, tmp_path: Path) -> None:
    register(remote)
    lines = sum(len(file.read_bytes().splitlines()) for file in runs.rglob("*.jsonl"))
    assert remote.read.format("understudy").load(str(runs)).count() == lines
    query = (
        remote.readStream.format("understudy")
        .load(str(runs))
        .select("run", "seq")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "stream"))
    )
    assert query.awaitTermination(120)
    assert remote.read.parquet(str(tmp_path / "stream")).count() == lines


def test_commands_take_the_url_of_a_server(server: ConnectServer, runs: Path) -> None:
    def page(*options: str) -> str:
        command = [sys.executable, "-m", "understudy.cli.main", "replay", str(runs), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
        assert done.returncode == 0, done.stderr
        return done.stdout

    found, expected = page("--master", server.url), page("--engine", "python")
    assert f"{server.url}" in found
    assert found.replace(found.partition("Spark")[2].partition("\n")[0], "").split("\n")[2:] == expected.split("\n")[2:]


def test_a_server_that_does_not_answer_is_named_at_once() -> None:
    with port_of_no_server() as port:
        settings = SparkSettings.chosen(master=f"sc://127.0.0.1:{port}/;token=s3cret")
        with (
            pytest.raises(SparkFailed, match=f"no Spark Connect server listens at sc://127.0.0.1:{port}") as raised,
            spark_running(settings),
        ):
            pass
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("url", ["sc://", "sc://:15002", "sc://host:port", "sc://host:99999999"])
def test_a_url_without_a_host_or_port_is_named(url: str) -> None:
    with (
        pytest.raises(SparkFailed, match="no Spark Connect server listens"),
        spark_running(SparkSettings.chosen(master=url)),
    ):
        pass


def test_a_session_that_was_stopped_is_named(server: ConnectServer, runs: Path) -> None:
    from pyspark.sql.connect.session import SparkSession as Remote  # noqa: PLC0415  before 4.0 it gives a warning

    session = Remote.builder.remote(server.url).create()
    session.stop()
    with pytest.raises(SparkFailed, match="the session of Spark was stopped; open another"):
        replay(cast("SparkSession", session), runs)


@at_night("a standalone cluster without workers is given up each time")
@needs_progress_handlers
def test_a_cluster_without_executors_is_given_up(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    with (
        StandaloneCluster(tmp_path / "cluster", choose_java(), workers=0) as cluster,
        connect_server(tmp_path / "server", cluster.master) as served,
        pytest.raises(SparkFailed, match=r"sc://127.0.0.1:\d+ has run no task for 2 s: its executors may be gone"),
        spark_running(SparkSettings(java=None, master=served.url, executor_timeout_s=2)) as spark,
    ):
        SparkReplay(spark, "Spark").replay(find_logs([runs]))
