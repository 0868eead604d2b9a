"""Spark on a real standalone cluster: the same results, also when a worker is killed, and no endless waiting."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.foundation.eventlog.stories import RandomRun
from tests.understudy.spark.standalone_cluster import KillInTheMiddle, StandaloneCluster, port_of_no_server
from understudy.java import choose_java
from understudy.replay.result import replay_in_python
from understudy.replay.runs import pack
from understudy.replay.tasks import measure_task
from understudy.spark import replay_job
from understudy.spark.context import SparkFailed, SparkSettings
from understudy.spark.replay_job import SparkReplay

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark cluster")]

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


def test_a_killed_worker_changes_no_result(
    cluster: StandaloneCluster, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_job, "pack", partial(pack, task_bytes=1))
    with KillInTheMiddle(tmp_path, cluster) as kill:
        monkeypatch.setattr(replay_job, "measure_task", kill.waiting(measure_task))
        with SparkReplay(SparkSettings(java=choose_java(), master=cluster.master)) as spark:
            found = spark.replay([logs], whole=True)
    assert cluster.workers[0].poll() is not None
    expected = replay_in_python([logs])
    assert found.runs == expected.runs
    assert (found.findings, found.lines) == (expected.findings, expected.lines)


def test_a_cluster_without_workers_is_given_up(tmp_path: Path, logs: Path) -> None:
    with StandaloneCluster(tmp_path, choose_java(), workers=0) as cluster:
        settings = SparkSettings(java=choose_java(), master=cluster.master, executor_timeout_s=2)
        with (
            pytest.raises(SparkFailed, match="has given no executor for 2 s: its workers may be gone"),
            SparkReplay(settings) as spark,
        ):
            spark.replay([logs])


@pytest.mark.parametrize("master", ["spark://127.0.0.1:{port}", "spark://127.0.0.1:{port},127.0.0.1:{port}"])
def test_a_master_that_is_not_there_is_named_at_once(master: str) -> None:
    with port_of_no_server() as port:
        url = master.format(port=port)
        with (
            pytest.raises(SparkFailed, match=f"no Spark master listens at {url} .*refused"),
            SparkReplay(SparkSettings(java=choose_java(), master=url)),
        ):
            pass


@pytest.mark.parametrize("master", ["spark://", "spark://host", "spark://host:port", "spark://host:99999999"])
def test_a_master_without_a_port_is_named(master: str) -> None:
    with (
        pytest.raises(SparkFailed, match="no Spark master listens"),
        SparkReplay(SparkSettings(java=choose_java(), master=master)),
    ):
        pass
