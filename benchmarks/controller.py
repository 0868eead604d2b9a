"""Measures a controller of 10,000 and of 100,000 partitions × 3 replicas: takeover, broker changes, topics, memory.

`arrangement.py` describes the cluster. The reference is Apache Kafka 3.9 in the same kind of cluster: measured in the
same run if `KAFKA_LIBS` names its jars, otherwise the figures of an earlier run on a 2-core machine.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.arrangement import Arrangement, kafkas, ours
from benchmarks.kafka_beside import kafka_libs
from benchmarks.rows import Row

PARTITIONS_PER_TOPIC = 100
SIZES = (10_000, 100_000)
TAKEOVERS = 5
MORE_TOPICS, PARTITIONS_OF_THOSE = 1_000, 10


class Measured(NamedTuple):
    """The measurements of one cluster: seconds, and MB."""

    warm: float
    """Takeover by a broker that has been controller before; the median."""
    cold: float
    death: float
    back: float
    controlled_shutdown: float
    more_topics: float
    memory: float


KAFKAS = {
    10_000: Measured(1.6, 3.5, 1.5, 0.17, 2.7, 4.7, 510),
    100_000: Measured(12.0, 16.0, 10.1, 1.05, 21.6, 4.3, 1_250),
}
"""Kafka's figures by number of partitions, for runs without its jars."""

WHAT = (
    "takeover, warm, s",
    "takeover, cold, s",
    "death of a leader of a third, s",
    "its return, s",
    "controlled shutdown of a leader of a third, s",
    "1,000 topics × 10 more, s",
    "memory of the active controller, MB",
)
TARGETS = (0.2, 0.2, 0.25, 0.7, 0.2, 0.25, 0.33)


def run() -> list[Row]:
    rows = []
    libs = kafka_libs()
    for size in SIZES:
        with ours() as arrangement:
            measured = measure(arrangement, size)
        reference = KAFKAS[size]
        if libs:
            with kafkas(libs) as arrangement:
                reference = measure(arrangement, size)
        for what, seconds, kafka_seconds, target in zip(WHAT, measured, reference, TARGETS, strict=True):
            rows.append(Row(f"{size:,} partitions: {what}", seconds, kafka_seconds, target))
    return rows


def measure(cluster: Arrangement, size: int) -> Measured:
    """Measure everything, one thing after the other, in one cluster."""
    cluster.create_topics(0, size // PARTITIONS_PER_TOPIC, PARTITIONS_PER_TOPIC, cluster_size=size)
    warm, cold = takeovers(cluster, size)
    memory = cluster.controller_memory_mb()
    death = cluster.stop_stub(1001, cluster_size=size)
    back = cluster.start_stub(1001, cluster_size=size)
    controlled_shutdown = cluster.controlled_shutdown(1003, cluster_size=size)
    # A broker that is shutting down is given no replica of a new topic, so it leaves and registers again.
    cluster.stop_stub(1003, cluster_size=size)
    cluster.start_stub(1003, cluster_size=size)
    more = cluster.create_topics(size, MORE_TOPICS, PARTITIONS_OF_THOSE, cluster_size=size)
    return Measured(warm, cold, death, back, controlled_shutdown, more, memory)


def takeovers(cluster: Arrangement, size: int) -> tuple[float, float]:
    """The median of the warm takeovers and the slowest of the cold ones; chance decides which broker is elected."""
    seen = {cluster.controller_id()}
    warm: list[float] = []
    cold: list[float] = []
    while len(warm) < TAKEOVERS:
        seconds = cluster.depose(cluster_size=size)
        winner = cluster.controller_id()
        (warm if winner in seen else cold).append(seconds)
        seen.add(winner)
    return sorted(warm)[len(warm) // 2], max(cold, default=float("nan"))


if __name__ == "__main__":
    from benchmarks.rows import print_rows

    print_rows(run())
