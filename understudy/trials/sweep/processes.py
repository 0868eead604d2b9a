"""Runs cells of a sweep on processes of this machine, one after the other."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.cluster import ClusterError
from understudy.clusters.java import JavaRuntime
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.foundation.cluster.errors import ApiError
from understudy.trials.sweep.apache_kafka import KAFKA_RUNS, KafkaFailed
from understudy.trials.sweep.cells import OURS, Cell, CellReport, FailoverCluster, Software, fail_over, run_folder_of


def run_cells(
    cells: Sequence[Cell],
    output: Path,
    *,
    java: JavaRuntime | None = None,
    libs: Mapping[Software, Path] | None = None,
) -> Iterator[CellReport]:
    """Run cells, and report each when it has ended. One ZooKeeper serves all cells of Understudy.

    A run ends with all processes killed at once: a controlled shutdown would still move leaderships, and the partitions
    of the last brokers would be without a leader for a reason that is not the experiment's.

    Args:
        libs: the folder with the jars of each Apache Kafka among the cells.

    Raises:
        ZooKeeperNotStarted, ZooKeeperUnreachable: ZooKeeper cannot be started or reached.
    """
    with ExitStack() as stack:
        server: EmbeddedZooKeeper | None = None
        for cell in cells:
            problem = ""
            try:
                with run_folder_of(cell, output) as folder:
                    if cell.software == OURS:
                        server = server or stack.enter_context(EmbeddedZooKeeper(java=java))
                        _run(cell, folder, server)
                    else:
                        KAFKA_RUNS[cell.software.mode](cell, folder, (libs or {})[cell.software], java, _experiment)
            except (ApiError, ClusterError, KafkaFailed, NoBrokerAnswers) as error:
                problem = str(error)
            yield CellReport(cell, problem)


def _run(cell: Cell, folder: Path, server: EmbeddedZooKeeper) -> None:
    with LocalCluster(
        cell.brokers,
        zookeeper=server,
        directory=folder,
        session_timeout_ms=cell.session_timeout_ms,
        run=cell.name,
        described=cell.described(),
    ) as cluster:
        _experiment(cluster, cell)


def _experiment(cluster: FailoverCluster, cell: Cell) -> None:
    drawn = random.Random(cell.seed).uniform(0, cell.session_timeout_ms)
    fail_over(cluster, cell, lambda ms: time.sleep(ms / 1_000), drawn)
