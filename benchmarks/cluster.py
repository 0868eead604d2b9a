"""Measures the start of ZooKeeper and three brokers, until a stock client sees all three, and the memory of all four.

The reference is Apache Kafka 3.9 in the same kind of cluster: measured in the same run if `KAFKA_LIBS` names its jars,
otherwise the figures of an earlier run on a 2-core machine, 7.2–8.8 s and 1,090 MB.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from benchmarks.arrangement import resident_mb
from benchmarks.kafka_beside import KafkaCluster, kafka_libs
from benchmarks.rows import Row
from understudy.clusters.processes.local_cluster import LocalCluster

KAFKA_START_S = 8.0
KAFKA_MEMORY_MB = 1_090.0
ROUNDS = 5
SETTLE_S = 5.0
PATIENCE_S = 120.0


def run() -> list[Row]:
    """Median seconds and median resident memory in MB over several starts."""
    ours = [_ours() for _ in range(ROUNDS)]
    libs = kafka_libs()
    kafkas = [_kafkas(libs) for _ in range(ROUNDS)] if libs else [(KAFKA_START_S, KAFKA_MEMORY_MB)]
    return [
        Row("ZooKeeper + 3 brokers, until kafka-python sees all 3, s", _median(ours, 0), _median(kafkas, 0), 0.2),
        Row("memory of the four processes, idle, MB", _median(ours, 1), _median(kafkas, 1), 0.2),
    ]


def _ours() -> tuple[float, float]:
    begun = time.monotonic()
    with LocalCluster(brokers=3) as cluster:
        seconds = _seen(begun, lambda: cluster.bootstrap)
        assert cluster.embedded_zookeeper is not None
        brokers = [broker.process.process.pid for broker in cluster.brokers if broker.process.process is not None]
        return seconds, _memory([cluster.embedded_zookeeper.servers[1].process.pid, *brokers])


def _kafkas(libs: Path) -> tuple[float, float]:
    begun = time.monotonic()
    with KafkaCluster(libs, brokers=3, session_timeout_ms=3_000) as cluster:
        seconds = _seen(begun, lambda: cluster.bootstrap)
        return seconds, _memory([cluster.zookeeper.pid, *(process.pid for process in cluster.processes)])


def _seen(begun: float, bootstrap: Callable[[], str]) -> float:
    """Seconds until a stock client sees three brokers."""
    while _brokers_seen(bootstrap()) < 3:
        if time.monotonic() - begun > PATIENCE_S:
            raise SystemExit(f"no client saw 3 brokers within {PATIENCE_S:.0f} s")
        time.sleep(0.02)
    return time.monotonic() - begun


def _memory(pids: list[int]) -> float:
    time.sleep(SETTLE_S)
    return sum(map(resident_mb, pids))


def _median(measured: list[tuple[float, float]], which: int) -> float:
    return sorted(figures[which] for figures in measured)[len(measured) // 2]


def _brokers_seen(bootstrap: str) -> int:
    try:
        client = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    except KafkaError:
        return 0
    try:
        return len(client.describe_cluster()["brokers"])
    except KafkaError:
        return 0  # a broker is registered before it accepts connections
    finally:
        client.close()
