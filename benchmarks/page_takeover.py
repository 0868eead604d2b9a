"""Measures whether a controller takes over more slowly while the page of its cluster is served and read.

Takeovers with and without `understudy watch` come in pairs, in one cluster, so that a slow minute of the machine is one
of both. What reads the events is a program: a browser on the same two cores would be measured with it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

from benchmarks.arrangement import Arrangement, ours, until
from benchmarks.rows import Row
from benchmarks.watched import Watched, watched

PARTITIONS: Final = 10_000
PER_TOPIC: Final = 100
WARM_UP: Final = 4
PAIRS: Final = 16
GOAL: Final = 1.02
_QUIET_S: Final = 0.5
_QUIET_PROCESSOR_S: Final = 0.04
_READ: Final = "import sys, urllib.request\nfor line in urllib.request.urlopen(sys.argv[1]): pass"


def takeovers() -> Iterator[Row]:
    """The medians of both kinds, and the spread of what the pairs differ by."""
    with ours() as cluster:
        cluster.create_topics(0, PARTITIONS // PER_TOPIC, PER_TOPIC, cluster_size=PARTITIONS)
        for _ in range(WARM_UP):
            cluster.depose(cluster_size=PARTITIONS)
        pairs = [_pair(cluster, watched_first=number % 2 == 1) for number in range(PAIRS)]
    alone, beside = (statistics.median(side) for side in zip(*pairs, strict=True))
    yield Row(f"takeover of {PARTITIONS:,} partitions, watched; reference: not watched, s", beside, alone, GOAL)
    low, middle, high = statistics.quantiles([beside / alone for alone, beside in pairs], n=4)
    yield Row(f"  of {PAIRS} pairs, watched to not: median", middle, None, None)
    yield Row("    first quartile", low, None, None)
    yield Row("    third quartile", high, None, None)


def _pair(cluster: Arrangement, *, watched_first: bool) -> tuple[float, float]:
    """Seconds of a takeover without a watcher, and of one with it."""
    if watched_first:
        beside = _watched(cluster)
        return cluster.depose(cluster_size=PARTITIONS), beside
    return cluster.depose(cluster_size=PARTITIONS), _watched(cluster)


def _watched(cluster: Arrangement) -> float:
    assert cluster.run_folder is not None
    with watched(cluster.run_folder) as served:
        command = [sys.executable, "-c", _READ, f"{served.address.partition('#')[0]}events"]
        with subprocess.Popen(command) as reader:
            try:
                until(lambda: _is_quiet(served))
                return cluster.depose(cluster_size=PARTITIONS)
            finally:
                reader.kill()


def _is_quiet(served: Watched) -> bool:
    """Whether the server has read what there was."""
    before = served.processor_seconds()
    time.sleep(_QUIET_S)
    return served.processor_seconds() - before < _QUIET_PROCESSOR_S
