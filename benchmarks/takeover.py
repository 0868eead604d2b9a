"""Takeover of 10,000 partitions × 3 replicas: from the loss of `/controller` to the last request received.

Two brokers that hold no replica race for the role; three stub brokers (`stub_brokers.py`) hold all the replicas and only
answer. `/controller` is deleted, as an operator would, several times over: the first takeover of each controller is cold,
later ones are warm. Kafka 3.9.1 in the same arrangement, measured on a 2-core machine: 1.4–1.8 s warm, 3.5 s cold.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.rows import Row
from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.identifiers import BrokerId, TopicId
from foundation.eventlog.fences import Fences
from foundation.eventlog.log import EventLog
from foundation.zk.client import Delete
from foundation.zk.kafka_zk_client import KafkaZkClient
from foundation.zk.kazoo_client import KazooZooKeeper
from understudy.testbed.clock import MachineClock
from understudy.testbed.local_cluster import LocalCluster
from understudy.testbed.processes import ChildProcess

STUBS = (1001, 1002, 1003)
TOPICS, PARTITIONS_PER_TOPIC = 100, 100
KAFKA_WARM_S = 1.6
"""The middle of what was measured for Apache Kafka 3.9.1; it does not run beside us here."""
ROUNDS = 6
QUIET_MS = 1_000.0


def run(topics: int = TOPICS) -> list[Row]:
    """Measure; the rows give the median of the warm takeovers and the worst of the cold ones, in seconds."""
    with (
        tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder,
        LocalCluster(brokers=2, session_timeout_ms=6_000) as cluster,
    ):
        log = Path(folder) / "requests.jsonl"
        command = [sys.executable, "-m", "benchmarks.stub_brokers", cluster.zookeeper_connect, str(log), *map(str, STUBS)]
        stubs = ChildProcess("stubs", command, log=Path(folder) / "stubs.log", directory=Path.cwd())
        try:
            cluster.wait_until(lambda: set(STUBS) <= set(cluster.view.brokers()), "the stub brokers have registered")
            created = _timed(cluster, log, lambda: asyncio.run(_create_topics(cluster.zookeeper_connect, topics)))
            seen: set[int | None] = {cluster.controller_id()}
            warm, cold = [], []
            for _ in range(ROUNDS):
                seconds = _timed(cluster, log, lambda: asyncio.run(_delete_controller(cluster.zookeeper_connect)))
                winner = cluster.controller_id()
                (warm if winner in seen else cold).append(seconds)
                seen.add(winner)
        finally:
            stubs.kill()
    partitions = topics * PARTITIONS_PER_TOPIC
    rows = [Row(f"{partitions:,} partitions written as znodes, until all are told, s", created, None, None)]
    if warm:
        median = sorted(warm)[len(warm) // 2]
        rows.append(Row(f"takeover of {partitions:,} partitions, warm (median of {len(warm)}), s", median, KAFKA_WARM_S, 0.3))
    if cold:
        rows.append(Row(f"takeover of {partitions:,} partitions, cold, s", max(cold), None, None))
    return rows


def _timed(cluster: LocalCluster, log: Path, act) -> float:  # type: ignore[no-untyped-def]  # a thunk
    """Seconds from just before `act` to the last request that any stub received because of it."""
    offset = log.stat().st_size if log.exists() else 0
    begun = time.monotonic() * 1000
    act()
    last = begun

    def quiet() -> bool:
        nonlocal last
        times = [json.loads(line)["ms"] for line in log.read_bytes()[offset:].splitlines() if line.endswith(b"}")]
        last = max(times, default=begun)
        return bool(times) and time.monotonic() * 1000 - last > QUIET_MS

    cluster.wait_until(quiet, "the stub brokers have heard everything", 120.0)
    return (last - begun) / 1000


async def _store(zookeeper: str) -> tuple[KafkaZkClient, object]:
    session = await KazooZooKeeper(zookeeper, session_timeout_ms=30_000).connect(lambda _: None)
    events = EventLog(run="", node="bench", incarnation=1, clock=MachineClock(), write=len)
    return KafkaZkClient(session, events=events, fences=Fences(events)), session


async def _create_topics(zookeeper: str, topics: int) -> None:
    store, _ = await _store(zookeeper)
    brokers = [BrokerId(stub) for stub in STUBS]
    rotated = [tuple(brokers[shift:] + brokers[:shift]) for shift in range(len(brokers))]
    for number in range(topics):
        assignment = {partition: ReplicaAssignment(rotated[partition % 3]) for partition in range(PARTITIONS_PER_TOPIC)}
        await store.create_topic(f"topic-{number:04d}", TopicId(f"{number:022d}"), assignment)
    await store.close()


async def _delete_controller(zookeeper: str) -> None:
    store, session = await _store(zookeeper)
    await session.write(Delete("/controller"))  # type: ignore[attr-defined]  # the handle under the store
    await store.close()
