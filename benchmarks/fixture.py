"""Measures how long a test waits for the cluster of the pytest fixture `understudy_cluster`.

The first cluster of a pytest process starts ZooKeeper too, the second shares it. Each time ends when the fixture gives
the cluster to the test: all brokers registered, a controller elected, the topics created. The references are the goals.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.rows import Row
from understudy.clusters.testing.arguments import ClusterArguments
from understudy.clusters.testing.cluster_pool import ClusterPool

ROUNDS: Final = 5
GOAL_FIRST_S: Final = 2.0
GOAL_SECOND_S: Final = 1.0


def run() -> list[Row]:
    """Median seconds over several pools, of three brokers and a topic of three partitions."""
    firsts, seconds = zip(*(_starts() for _ in range(ROUNDS)), strict=True)
    return [
        Row("first cluster of a pytest process, s; reference: the goal", statistics.median(firsts), GOAL_FIRST_S, 1.0),
        Row("second cluster, s; reference: the goal", statistics.median(seconds), GOAL_SECOND_S, 1.0),
    ]


def _starts() -> tuple[float, float]:
    """Seconds until the first cluster of a pool, and until the second."""
    arguments = ClusterArguments.of({"brokers": 3, "topics": {"orders": 3}})
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        pool = ClusterPool(lambda test: Path(tempfile.mkdtemp(prefix=test, dir=folder)))
        try:
            return _start(pool, arguments, "first"), _start(pool, arguments, "second")
        finally:
            pool.close()


def _start(pool: ClusterPool, arguments: ClusterArguments, test: str) -> float:
    began = time.monotonic()
    loan = pool.lend(arguments, test)
    took = time.monotonic() - began
    pool.give_back(loan)
    return took
