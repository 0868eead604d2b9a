"""A real Spark Connect server runs the functions of a client on its workers, also after one of them is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from pyspark.sql.connect.session import SparkSession

from devtools.connect_server import ConnectServer
from devtools.java_processes import ProcessFailed
from tests.understudy.spark.standalone_cluster import KillInTheMiddle, StandaloneCluster
from understudy.clusters.java import choose_java

pytestmark = pytest.mark.xdist_group("spark connect")

TASKS = 20
DOUBLED = [2 * number for number in range(TASKS)]


Work: TypeAlias = Callable[[Iterable[Any]], Iterator[Any]]


def doubling() -> Work:
    """Return a function that doubles the ids of batches. It is sent to workers by value: they lack this module."""

    def doubled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"id": [2 * number for number in batch.column("id").to_pylist()]})

    return doubled


def results_of(work: Work, url: str) -> list[int]:
    """Return the results of `work` for the ids 0 to 19, each a task of the server's workers, in ascending order.

    It uses the client's own class: `pyspark.sql.SparkSession` would make the whole process one of Spark Connect, in
    which no SparkContext starts, and refuses to if there was a SparkSession before.
    """
    spark = SparkSession.builder.remote(url).getOrCreate()
    try:
        return sorted(row.id for row in spark.range(0, TASKS, 1, TASKS).mapInArrow(work, "id long").collect())
    finally:
        spark.stop()


def test_a_server_runs_a_function_of_its_client(tmp_path: Path) -> None:
    with ConnectServer(tmp_path, choose_java()) as server:
        assert server.url.startswith("sc://127.0.0.1:")
        assert results_of(doubling(), server.url) == DOUBLED


def test_a_killed_worker_of_its_cluster_changes_no_result(tmp_path: Path) -> None:
    for name in ("cluster", "server", "kill"):
        (tmp_path / name).mkdir()
    java = choose_java()
    with (
        StandaloneCluster(tmp_path / "cluster", java, workers=2) as cluster,
        ConnectServer(tmp_path / "server", java, cluster.master) as server,
        KillInTheMiddle(tmp_path / "kill", cluster) as kill,
    ):
        assert results_of(kill.waiting(doubling()), server.url) == DOUBLED
        assert cluster.workers[0].poll() is not None
        assert "Lost executor" in server.log()


def test_a_server_that_does_not_start_is_reported_at_once(tmp_path: Path) -> None:
    with (
        pytest.raises(ProcessFailed, match=r"the server ended:\n(.|\n)*Could not parse Master URL: 'nowhere'"),
        ConnectServer(tmp_path, choose_java(), "nowhere"),
    ):
        pass
