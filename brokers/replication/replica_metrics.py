"""Replica counts and ISR meters of one broker. Mirrors the MBeans of `kafka.server.ReplicaManager`.

Partitions are counted at each scrape, in one pass. Kafka's gauges per partition are not served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from understudy.brokers.replication.partition import LocalPartitionState, Role
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.metrics.instruments import Meter
from understudy.foundation.metrics.mbeans import MBean, MetricKind, MetricReading


def _gauge(name: str, doc: str) -> MBean:
    return MBean("kafka.server", "ReplicaManager", name, MetricKind.GAUGE, doc)


def _meter(name: str, doc: str) -> MBean:
    return MBean("kafka.server", "ReplicaManager", name, MetricKind.METER, doc)


LEADERS = _gauge("LeaderCount", "Partitions this broker leads.")
PARTITIONS = _gauge("PartitionCount", "Partitions this broker has a replica of.")
OFFLINE = _gauge("OfflineReplicaCount", "Replicas in log directories that have failed.")
UNDER_REPLICATED = _gauge("UnderReplicatedPartitions", "Partitions led here whose ISR is smaller than it should be.")
UNDER_MIN_ISR = _gauge(
    "UnderMinIsrPartitionCount", "Partitions led here with fewer replicas in sync than their min.insync.replicas."
)
AT_MIN_ISR = _gauge(
    "AtMinIsrPartitionCount", "Partitions led here with just as many replicas in sync as their min.insync.replicas."
)
REASSIGNING = _gauge("ReassigningPartitions", "Partitions led here that are being reassigned.")

ISR_EXPANDS = _meter("IsrExpandsPerSec", "Followers that have joined an ISR.")
ISR_SHRINKS = _meter("IsrShrinksPerSec", "ISRs that lagging followers have left.")
FAILED_ISR_UPDATES = _meter("FailedIsrUpdatesPerSec", "Changes of an ISR that the controller has refused.")

REPLICA_MBEANS: tuple[MBean, ...] = (
    LEADERS,
    PARTITIONS,
    OFFLINE,
    UNDER_REPLICATED,
    UNDER_MIN_ISR,
    AT_MIN_ISR,
    REASSIGNING,
    ISR_EXPANDS,
    ISR_SHRINKS,
    FAILED_ISR_UPDATES,
)
"""MBeans of replicas, in the order of docs/reference/metrics.md."""


def replica_readings(
    hosted: Iterable[LocalPartitionState], min_insync_replicas: Callable[[str], int]
) -> Iterator[MetricReading]:
    """The gauges of the partitions that a broker hosts.

    Args:
        min_insync_replicas: `min.insync.replicas` by topic.
    """
    partitions = leaders = under_replicated = under_min_isr = at_min_isr = reassigning = 0
    minima: dict[str, int] = {}
    for partition in hosted:
        partitions += 1
        if partition.role is not Role.LEADER:
            continue
        leaders += 1
        in_sync, replicas, expected = len(partition.isr), len(partition.replicas), len(partition.replicas)
        if partition.adding_replicas or partition.removing_replicas:
            reassigning += 1
            # Replicas that the reassignment adds do not count as missing yet.
            expected -= len(partition.adding_replicas)
        if in_sync < expected:
            under_replicated += 1
        topic = partition.topic_partition.topic
        if (minimum := minima.get(topic)) is None:
            minimum = minima[topic] = min_insync_replicas(topic)
        # `min.insync.replicas` counts only up to the number of replicas; `effectiveMinIsr`.
        if in_sync <= minimum or in_sync == replicas:
            under_min_isr += in_sync < min(minimum, replicas)
            at_min_isr += in_sync == min(minimum, replicas)
    yield MetricReading(LEADERS, leaders)
    yield MetricReading(PARTITIONS, partitions)
    # There is one log directory, and a broker whose log directory fails stops.
    yield MetricReading(OFFLINE, 0)
    yield MetricReading(UNDER_REPLICATED, under_replicated)
    yield MetricReading(UNDER_MIN_ISR, under_min_isr)
    yield MetricReading(AT_MIN_ISR, at_min_isr)
    yield MetricReading(REASSIGNING, reassigning)


class IsrMeters:
    """Counts the ISR changes that this broker has proposed, by outcome."""

    def __init__(self, clock: Clock) -> None:
        self.expands = Meter(clock)
        self.shrinks = Meter(clock)
        self.failed = Meter(clock)

    def readings(self) -> Iterator[MetricReading]:
        yield MetricReading(ISR_EXPANDS, self.expands)
        yield MetricReading(ISR_SHRINKS, self.shrinks)
        yield MetricReading(FAILED_ISR_UPDATES, self.failed)
