"""Replica counts and ISR meters of one broker. Mirrors the MBeans of `kafka.server.ReplicaManager`.

Partitions are counted at each scrape, in one pass. Kafka's gauges of single partitions are not served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from brokers.replication.partition import Partition, Role
from foundation.cluster.identifiers import TopicPartition
from foundation.eventlog.clock import Clock
from foundation.metrics.instruments import Meter
from foundation.metrics.mbeans import Kind, MBean, Reading


def _gauge(name: str, doc: str) -> MBean:
    return MBean("kafka.server", "ReplicaManager", name, Kind.GAUGE, doc)


def _meter(name: str, doc: str) -> MBean:
    return MBean("kafka.server", "ReplicaManager", name, Kind.METER, doc)


COUNTS: Mapping[str, MBean] = {
    "leaders": _gauge("LeaderCount", "Partitions this broker leads."),
    "partitions": _gauge("PartitionCount", "Partitions this broker has a replica of."),
    "offline": _gauge("OfflineReplicaCount", "Replicas in log directories that have failed."),
    "under_replicated": _gauge(
        "UnderReplicatedPartitions", "Partitions led here whose ISR is smaller than it should be."
    ),
    "under_min_isr": _gauge(
        "UnderMinIsrPartitionCount", "Partitions led here with fewer in sync than the broker's min.insync.replicas."
    ),
    "at_min_isr": _gauge(
        "AtMinIsrPartitionCount", "Partitions led here with just as many in sync as the broker's min.insync.replicas."
    ),
    "reassigning": _gauge("ReassigningPartitions", "Partitions led here that are on the move."),
}
"""By the field of `ReplicaCounts` that holds it."""

ISR_EXPANDS = _meter("IsrExpandsPerSec", "Followers that have joined an ISR.")
ISR_SHRINKS = _meter("IsrShrinksPerSec", "ISRs that followers have left because they lag.")
FAILED_ISR_UPDATES = _meter("FailedIsrUpdatesPerSec", "Changes of an ISR that the controller has refused.")

REPLICA_MBEANS: tuple[MBean, ...] = (*COUNTS.values(), ISR_EXPANDS, ISR_SHRINKS, FAILED_ISR_UPDATES)
"""In the order of docs/metrics.md."""


class ReplicaCounts(NamedTuple):
    leaders: int
    partitions: int
    offline: int
    under_replicated: int
    under_min_isr: int
    at_min_isr: int
    reassigning: int


def counted(hosted: Mapping[TopicPartition, Partition], min_insync_replicas: Callable[[str], int]) -> ReplicaCounts:
    """
    Args:
        min_insync_replicas: what is asked for, by topic.
    """
    leaders = under_replicated = under_min_isr = at_min_isr = reassigning = 0
    asked: dict[str, int] = {}
    for (topic, _), partition in hosted.items():
        if partition.role is not Role.LEADER:
            continue
        leaders += 1
        in_sync, replicas, expected = len(partition.isr), len(partition.replicas), len(partition.replicas)
        if partition.adding_replicas or partition.removing_replicas:
            reassigning += 1
            # Those that are still to join do not count as missing.
            expected -= len(partition.adding_replicas)
        if in_sync < expected:
            under_replicated += 1
        if (minimum := asked.get(topic)) is None:
            minimum = asked[topic] = min_insync_replicas(topic)
        # More than there are replicas cannot be asked for.
        if in_sync <= minimum or in_sync == replicas:
            under_min_isr += in_sync < min(minimum, replicas)
            at_min_isr += in_sync == min(minimum, replicas)
    return ReplicaCounts(
        leaders=leaders,
        partitions=len(hosted),
        # There is one log directory, and a broker that has lost it ends.
        offline=0,
        under_replicated=under_replicated,
        under_min_isr=under_min_isr,
        at_min_isr=at_min_isr,
        reassigning=reassigning,
    )


class IsrMeters:
    """What becomes of the ISR changes this broker asks for."""

    def __init__(self, clock: Clock) -> None:
        self.expands = Meter(clock)
        self.shrinks = Meter(clock)
        self.failed = Meter(clock)

    def readings(self) -> Iterator[Reading]:
        yield Reading(ISR_EXPANDS, self.expands)
        yield Reading(ISR_SHRINKS, self.shrinks)
        yield Reading(FAILED_ISR_UPDATES, self.failed)


def replica_readings(counts: ReplicaCounts) -> Iterator[Reading]:
    for field, mbean in COUNTS.items():
        yield Reading(mbean, getattr(counts, field))
