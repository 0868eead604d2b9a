"""Spark on a real standalone cluster, by its master and by a Spark Connect server: the same results, also when a worker
is killed, and no endless waiting."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyspark
import pytest

from devtools.spark_versions import FOLDER
from devtools.standalone_spark import StandaloneCluster
from tests.devtools.process_groups import assert_ends
from tests.foundation.eventlog.stories import RandomRun
from tests.shares import at_night, only_nightly
from tests.understudy.history.lake.lakes import (
    assert_counts_once,
    assert_holds,
    content,
    counted_files,
    rows_below,
    take,
)
from tests.understudy.spark.connect_servers import connect_server
from tests.understudy.spark.standalone_cluster import KillInTheMiddle, port_of_no_server
from tests.understudy.spark.test_functions import assert_same_tables
from understudy.cli.main import main
from understudy.clusters.java import choose_java
from understudy.history.compare.comparison import compare
from understudy.history.compare.groups import command_in_lake, observe
from understudy.history.compare.html_page import html_page
from understudy.history.lake import ingest as ingesting
from understudy.history.lake import writer
from understudy.history.lake.ingest import find_logs, ingest
from understudy.history.lake.lake import Lake
from understudy.history.report.replay import replay_in_python
from understudy.history.report.runs import find_logs as find_run_logs
from understudy.history.report.runs import pack
from understudy.spark import compare_job, measured_tables, replay, replay_job, seeds_job
from understudy.spark.failures import SparkFailed
from understudy.spark.ingest_job import SparkEngine
from understudy.spark.kernels import comparing, measuring, simulating, writing
from understudy.spark.replay_job import SparkReplay
from understudy.spark.running import spark_running
from understudy.spark.seeds_job import run_seeds
from understudy.spark.settings import SparkSettings
from understudy.trials.hunt.seed_tasks import SeedTask, run_task

pytestmark = pytest.mark.xdist_group("spark cluster")

RUNS = 20


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for seed in range(RUNS):
        folder = tmp_path / "logs" / str(seed)
        folder.mkdir(parents=True)
        for name, lines in RandomRun(seed, records=500).logs.lines.items():
            (folder / name).write_bytes(b"".join(lines))
    return tmp_path / "logs"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    with StandaloneCluster(folder, choose_java(), workers=2) as running:
        yield running


@pytest.fixture(params=["classic", pytest.param("connect", marks=only_nightly("spark-clusters"))])
def settings(request: pytest.FixtureRequest, cluster: StandaloneCluster, tmp_path: Path) -> Iterator[SparkSettings]:
    """The settings of a session that runs on the executors of the cluster."""
    if request.param == "classic":
        yield SparkSettings(java=choose_java(), master=cluster.master)
        return
    with connect_server(tmp_path / "server", cluster.master) as server:
        yield SparkSettings.chosen(master=server.url)


def test_a_killed_worker_changes_no_result(
    cluster: StandaloneCluster, settings: SparkSettings, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_job, "pack", partial(pack, task_bytes=1))
    with KillInTheMiddle(tmp_path, cluster) as kill:
        monkeypatch.setattr(measuring, "measure", kill.waiting(measuring.measure))
        with spark_running(settings) as spark:
            found = SparkReplay(spark, "Spark").replay(find_run_logs([logs]), whole=True)
    assert cluster.workers[0].poll() is not None
    expected = replay_in_python([logs])
    assert found.runs == expected.runs
    assert (found.findings, found.lines) == (expected.findings, expected.lines)


@only_nightly("spark-clusters")
def test_a_killed_worker_changes_no_table(
    cluster: StandaloneCluster, settings: SparkSettings, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results that the killed worker has kept are computed again."""
    monkeypatch.setattr(measured_tables, "pack", partial(pack, task_bytes=1))
    take(tmp_path / "lake", logs)
    lake = Lake(tmp_path / "lake")
    with spark_running(settings) as spark, KillInTheMiddle(tmp_path, cluster) as kill:
        monkeypatch.setattr(measured_tables, "tabulate", kill.waiting(measuring.tabulate))
        with replay(spark, logs) as tables:
            assert cluster.workers[0].poll() is not None
            assert_same_tables(tables, lake)


@at_night("a killed worker changes no result of a replay each time, by the same tasks")
def test_a_killed_worker_changes_no_lake(
    cluster: StandaloneCluster, settings: SparkSettings, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run is a task and a part; what the killed worker has written does not count, and is deleted later."""
    monkeypatch.setattr(ingesting, "_MAX_TASK_BYTES", 1)
    monkeypatch.setattr(writer, "SMALL_FILES", RUNS + 1)
    take(tmp_path / "expected", logs)
    with spark_running(settings) as spark, KillInTheMiddle(tmp_path, cluster) as kill:
        monkeypatch.setattr(writing, "write_parts", kill.waiting(writing.write_parts))
        result = ingest(find_logs([logs]), tmp_path / "lake", lambda _: SparkEngine(spark))
    assert cluster.workers[0].poll() is not None
    assert (len(result.added), result.refused) == (RUNS, [])
    assert len(Lake(tmp_path / "lake").files("tables", "totals")) == RUNS
    assert content(tmp_path / "lake") == content(tmp_path / "expected")
    assert_holds(tmp_path / "lake", logs)
    assert_counts_once(tmp_path / "lake")
    writer.LakeWriter(tmp_path / "lake").vacuum(kept_hours=0, unknown_hours=0)
    assert rows_below(tmp_path / "lake") == counted_files(Lake(tmp_path / "lake"))


@at_night("a killed worker changes no result of a replay each time, by the same tasks")
def test_a_killed_worker_changes_no_comparison(
    cluster: StandaloneCluster, settings: SparkSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = str(tmp_path / "runs")
    assert (
        main(["sweep", "--session-timeout-ms", "2000,6000", "--fault", "kill,pause", "--repeat", "3", "--dir", runs])
        == 0
    )
    lake = tmp_path / "lake"
    take(lake, Path(runs))
    by, baseline = ("session_timeout_ms", "fault"), {"session_timeout_ms": "6000"}
    observed = [
        observe(found, command_in_lake(str(lake), found.run)) for found in Lake(lake).run_metrics(incomplete=True)
    ]
    expected = compare(observed, by, baseline)
    assert expected.tests > 0
    with KillInTheMiddle(tmp_path, cluster) as kill:
        monkeypatch.setattr(comparing, "summarise", kill.waiting(comparing.summarise))
        found = compare_job.compare_folder(lake, by, baseline, settings)
    assert cluster.workers[0].poll() is not None
    assert found == expected
    assert html_page(found) == html_page(expected)


@at_night("a killed worker changes no result of a replay each time, by the same tasks")
def test_a_killed_worker_changes_no_outcome_of_a_seed(
    cluster: StandaloneCluster, settings: SparkSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeds_job, "SEEDS_PER_TASK", 1)
    seeds, seconds, logs = range(1, 13), 6, tmp_path / "logs"
    logs.mkdir()
    with spark_running(settings) as spark, KillInTheMiddle(tmp_path, cluster) as kill:
        monkeypatch.setattr(simulating, "run_seeds", kill.waiting(simulating.run_seeds))
        rounds = run_seeds(spark, seeds, seconds, events=logs, keep_all=True)
        found = [outcome for outcomes in rounds for outcome in outcomes]
    assert cluster.workers[0].poll() is not None
    assert sorted(found, key=lambda outcome: outcome.seed) == list(run_task(SeedTask(tuple(seeds), seconds)))
    left = {path.name for path in logs.iterdir() if not path.name.startswith(".")}
    assert left == {f"seed-{seed}" for seed in seeds}


@at_night("a master that is not there is named each time")
def test_a_cluster_without_workers_is_given_up(tmp_path: Path, logs: Path) -> None:
    with StandaloneCluster(tmp_path, choose_java(), workers=0) as cluster:
        settings = SparkSettings(java=choose_java(), master=cluster.master, executor_timeout_s=2)
        with (
            pytest.raises(SparkFailed, match="has given no executor for 2 s: its workers may be gone"),
            spark_running(settings) as spark,
        ):
            SparkReplay(spark, "Spark").replay(find_run_logs([logs]))


@pytest.mark.parametrize("master", ["spark://127.0.0.1:{port}", "spark://127.0.0.1:{port},127.0.0.1:{port}"])
def test_a_master_that_is_not_there_is_named_at_once(master: str) -> None:
    with port_of_no_server() as port:
        url = master.format(port=port)
        with (
            pytest.raises(SparkFailed, match=f"no Spark master listens at {url} .*refused"),
            spark_running(SparkSettings(java=choose_java(), master=url)),
        ):
            pass


@only_nightly("spark-clusters")
def test_a_master_of_another_version_is_named(tmp_path: Path) -> None:
    jars, version = another_spark()
    with StandaloneCluster(tmp_path, choose_java(), workers=0, jars=jars) as cluster:
        message = (
            f"^{cluster.master} listens, but has not registered this program within a minute: probably it has another "
            f"version of Spark than the {pyspark.__version__} here. The master's page"
        )
        with (
            pytest.raises(SparkFailed, match=message),
            spark_running(SparkSettings(java=choose_java(), master=cluster.master)),
        ):
            pass
        assert "java.io.InvalidClassException" in cluster.log("master"), version


def another_spark() -> tuple[Path, str]:
    """Return the jars and the version of the newest other Spark in an environment of `make spark-versions`."""
    for jars in sorted(FOLDER.glob("*/lib/python3*/site-packages/pyspark/jars"), reverse=True):
        (core,) = jars.glob("spark-core_*.jar")
        version = core.stem.partition("-core_")[2].partition("-")[2]
        if version != pyspark.__version__:
            return jars, version
    pytest.skip(f"there is no other Spark in {FOLDER}; `make spark-versions` installs some")


@pytest.mark.parametrize("master", ["spark://", "spark://host", "spark://host:port", "spark://host:99999999"])
def test_a_master_without_a_port_is_named(master: str) -> None:
    with (
        pytest.raises(SparkFailed, match="no Spark master listens"),
        spark_running(SparkSettings(java=choose_java(), master=master)),
    ):
        pass


STARTED_AND_KILLED = """
import os, signal, sys
from pathlib import Path
from understudy.clusters.java import choose_java
from devtools.standalone_spark import StandaloneCluster

with StandaloneCluster(Path(sys.argv[1]), choose_java(), workers=1) as cluster:
    print(cluster.workers[0].pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_cluster_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTED_AND_KILLED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert_ends(int(done.stdout))
