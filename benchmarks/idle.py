"""Measures what an idle cluster costs: three brokers that replicate partitions to which nothing is produced.

Every broker leads a third of the partitions and follows the others. Followers send a Fetch to each leader twice a
second, so the cost should follow from the number of brokers, not of partitions.
"""

from __future__ import annotations

import os
import time

from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from benchmarks.arrangement import processor_seconds
from benchmarks.rows import Row
from understudy.clusters.processes.local_cluster import LocalCluster

SIZES = tuple(int(size) for size in os.environ.get("UNDERSTUDY_BENCH_IDLE", "1000,3000").split(","))
SETTLE_S = 25.0
MEASURED_S = 30.0
TARGET_CORE = 0.02


def run() -> list[Row]:
    """Processor seconds per second of a broker, the mean of three."""
    return [
        Row(f"idle broker, {size:,} partitions × 3 on 3 brokers, share of a core", _share(size), TARGET_CORE, 1.0)
        for size in SIZES
    ]


def _share(partitions: int) -> float:
    with LocalCluster(brokers=3) as cluster:
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","), request_timeout_ms=120_000)
        for first in range(0, partitions, 500):
            count = min(500, partitions - first)
            admin.create_topics([NewTopic(f"idle-{first}", num_partitions=count, replication_factor=3)])
        admin.close()
        time.sleep(SETTLE_S)
        pids = [broker.process.process.pid for broker in cluster.brokers if broker.process.process is not None]
        before = sum(map(processor_seconds, pids))
        time.sleep(MEASURED_S)
        return (sum(map(processor_seconds, pids)) - before) / MEASURED_S / len(pids)
