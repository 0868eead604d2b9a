"""Takeover of 10,000 partitions × 3 replicas: from the loss of `/controller` to the last request received.

Two brokers that hold no replica race for the role; three stub brokers (`stub_brokers.py`) hold all the replicas and only
answer. `/controller` is deleted, as an operator would, several times over: the first takeover of each controller is cold,
later ones are warm. The reference is Apache Kafka 3.9 in the same arrangement, in the same run where `KAFKA_LIBS` names its
jars, else as it was measured on a 2-core machine: 1.4–1.8 s warm, 3.5 s cold.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.kafka_beside import KafkaCluster, kafka_libs
from benchmarks.rows import Row
from benchmarks.store import open_store
from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.identifiers import BrokerId, topic_id_from_bytes
from foundation.zk.client import Delete
from understudy.testbed.cluster_view import ClusterView
from understudy.testbed.local_cluster import LocalCluster
from understudy.testbed.processes import ChildProcess

STUBS = (1001, 1002, 1003)
TOPICS, PARTITIONS_PER_TOPIC = 100, 100
KAFKA_WARM_S, KAFKA_COLD_S = 1.6, 3.5
FIRST_TOPIC_ID = 1 << 64
ROUNDS = 6
QUIET_MS, CREATION_QUIET_MS = 1_500.0, 6_000.0
"""Silence after which everything has been heard. Kafka is silent for seconds between creating states and telling of them."""
PATIENCE_S = 180.0


class Measured(NamedTuple):
    """Seconds; `warm` and `cold` takeovers in the order they happened."""

    created: float
    warm: list[float]
    cold: list[float]


def run(topics: int = TOPICS) -> list[Row]:
    """Measure; medians of the warm takeovers, the worst of the cold ones, in seconds."""
    with LocalCluster(brokers=2, session_timeout_ms=6_000) as cluster:
        ours = _measure(cluster.zookeeper_connect, cluster.view, topics)
    kafkas = Measured(0.0, [KAFKA_WARM_S], [KAFKA_COLD_S])
    libs = kafka_libs()
    if libs:
        with KafkaCluster(libs, brokers=2, session_timeout_ms=6_000) as kafka:
            kafkas = _measure(kafka.zookeeper.connect_string, kafka.view, topics)
    name = f"{topics * PARTITIONS_PER_TOPIC:,} partitions"
    rows = [Row(f"{name} written as znodes, until all are told, s", ours.created, kafkas.created or None, None)]
    if ours.warm and kafkas.warm:
        row = Row(f"takeover of {name}, warm (median of {len(ours.warm)}), s", _median(ours.warm), _median(kafkas.warm), 0.3)
        rows.append(row)
    if ours.cold and kafkas.cold:
        rows.append(Row(f"takeover of {name}, cold, s", max(ours.cold), max(kafkas.cold), None))
    return rows


def _measure(zookeeper: str, view: ClusterView, topics: int) -> Measured:
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        log = Path(folder) / "requests.jsonl"
        command = [sys.executable, "-m", "benchmarks.stub_brokers", zookeeper, str(log), *map(str, STUBS)]
        _until(lambda: {1, 2} <= set(view.brokers()) and view.controller_id() is not None)
        stubs = ChildProcess("stubs", command, log=Path(folder) / "stubs.log", directory=Path.cwd())
        try:
            _until(lambda: set(STUBS) <= set(view.brokers()))
            created = _timed(log, lambda: asyncio.run(_create_topics(zookeeper, topics)), CREATION_QUIET_MS)
            seen: set[int | None] = {view.controller_id()}
            measured = Measured(created, [], [])
            for _ in range(ROUNDS):
                seconds = _timed(log, lambda: asyncio.run(_delete_controller(zookeeper)))
                winner = view.controller_id()
                (measured.warm if winner in seen else measured.cold).append(seconds)
                seen.add(winner)
        finally:
            stubs.kill()
    return measured


def _median(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) // 2]


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit(f"the cluster did not come to rest within {PATIENCE_S:.0f} s")
        time.sleep(0.05)


def _timed(log: Path, act: Callable[[], None], quiet_ms: float = QUIET_MS) -> float:
    """Seconds from just before `act` to the last request that any stub received because of it."""
    offset = log.stat().st_size if log.exists() else 0
    begun = time.monotonic() * 1000
    act()
    last = begun

    def quiet() -> bool:
        nonlocal last
        times = [json.loads(line)["ms"] for line in log.read_bytes()[offset:].splitlines() if line.endswith(b"}")]
        last = max(times, default=begun)
        return bool(times) and time.monotonic() * 1000 - last > quiet_ms

    _until(quiet)
    return (last - begun) / 1000


async def _create_topics(zookeeper: str, topics: int) -> None:
    store, _ = await open_store(zookeeper)
    brokers = [BrokerId(stub) for stub in STUBS]
    rotated = [tuple(brokers[shift:] + brokers[:shift]) for shift in range(len(brokers))]
    for number in range(topics):
        assignment = {partition: ReplicaAssignment(rotated[partition % 3]) for partition in range(PARTITIONS_PER_TOPIC)}
        await store.create_topic(f"topic-{number:04d}", topic_id_from_bytes((FIRST_TOPIC_ID + number).to_bytes(16)), assignment)
    await store.close()


async def _delete_controller(zookeeper: str) -> None:
    store, session = await open_store(zookeeper)
    await session.write(Delete("/controller"))
    await store.close()
