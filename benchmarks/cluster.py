"""Starting ZooKeeper and three brokers until a stock client sees all three, and what the four processes take when idle.

Apache Kafka 3.9.1 in the same arrangement on a 2-core machine: 7.2–8.8 s and 1,090 MB.
"""

from __future__ import annotations

import time
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from benchmarks.rows import Row
from understudy.testbed.local_cluster import LocalCluster

KAFKA_START_S = 8.0
KAFKA_MEMORY_MB = 1_090.0
ROUNDS = 5
SETTLE_S = 5.0


def run() -> list[Row]:
    """Median seconds over some starts, and the resident memory of the last cluster, in MB."""
    seconds, memory = [], 0.0
    for _ in range(ROUNDS):
        begun = time.monotonic()
        with LocalCluster(brokers=3) as cluster:
            cluster.wait_until(lambda: _brokers_seen(cluster.bootstrap) == 3, "a stock client sees 3 brokers")
            seconds.append(time.monotonic() - begun)
            time.sleep(SETTLE_S)
            memory = sum(map(_resident_mb, _pids(cluster)))
    median = sorted(seconds)[len(seconds) // 2]
    return [
        Row("ZooKeeper + 3 brokers, until kafka-python sees all 3, s", median, KAFKA_START_S, 0.2),
        Row("memory of the four processes, idle, MB", memory, KAFKA_MEMORY_MB, 0.2),
    ]


def _brokers_seen(bootstrap: str) -> int:
    try:
        client = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    except KafkaError:
        return 0
    try:
        return len(client.describe_cluster()["brokers"])
    finally:
        client.close()


def _pids(cluster: LocalCluster) -> list[int]:
    assert cluster.embedded_zookeeper is not None
    brokers = [broker.process.process.pid for broker in cluster.brokers if broker.process.process is not None]
    return [cluster.embedded_zookeeper.pid, *brokers]


def _resident_mb(pid: int) -> float:
    """Resident set size from the kernel's book-keeping."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return int(fields["VmRSS"].split()[0]) / 1024
