"""Measures how a takeover grows with the cluster, in microseconds per partition, from 1,000 to 200,000 partitions.

The reference is the part that no controller can avoid: reading every partition state from the same ZooKeeper in the
same run, without decoding it. Draws `docs/pictures/takeover.svg`.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from benchmarks.arrangement import Arrangement, ours
from benchmarks.chart import Curve, chart
from benchmarks.controller import PARTITIONS_PER_TOPIC
from benchmarks.rows import Row
from benchmarks.store import open_store
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.zk.znodes import TopicPartitionStateZNode

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 200_000)
TAKEOVERS = 3
PICTURE = Path(__file__).parent.parent / "docs/pictures/takeover.svg"


def run() -> list[Row]:
    """A row per size of one growing cluster, in µs per partition, with the reading alone as its reference."""
    points: list[tuple[int, float, float]] = []
    with ours() as cluster:
        made = 0
        for size in SIZES:
            topics = size // PARTITIONS_PER_TOPIC
            cluster.create_topics(made, topics - made, PARTITIONS_PER_TOPIC, cluster_size=size)
            made = topics
            seconds = sorted(cluster.depose(cluster_size=size) for _ in range(TAKEOVERS))[TAKEOVERS // 2]
            points.append((size, seconds / size * 1e6, asyncio.run(_raw_read(cluster, topics)) / size * 1e6))
    curves = [
        Curve("takeover", "#1f6feb", [(size, micros) for size, micros, _ in points]),
        Curve("reading the states alone (MultiRead)", "#8b949e", [(size, floor) for size, _, floor in points]),
    ]
    PICTURE.write_text(chart("µs per partition", "partitions × 3 replicas", curves), encoding="utf-8")
    return [
        Row(f"takeover of {size:,} partitions, µs per partition", micros, floor, None) for size, micros, floor in points
    ]


async def _raw_read(cluster: Arrangement, topics: int) -> float:
    """The seconds it takes to read all partition states."""
    partitions = (
        TopicPartition(f"topic-{topic:05d}", index) for topic in range(topics) for index in range(PARTITIONS_PER_TOPIC)
    )
    paths = [TopicPartitionStateZNode.path(partition) for partition in partitions]
    store, session = await open_store(cluster.zookeeper)
    begun = time.perf_counter()
    await session.get_many(paths)
    seconds = time.perf_counter() - begun
    await store.close()
    return seconds
