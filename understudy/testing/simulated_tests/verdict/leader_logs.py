"""Reads the logs of partitions directly from the simulated brokers that lead them."""

from __future__ import annotations

from understudy.checks.facts import Partition
from understudy.checks.replica_logs import partitions_that_may_have_lost
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import FaultInjected, LogOpened
from understudy.testing.simulated_tests.history.final_logs import read_final_log
from understudy.testing.simulated_tests.history.wire_records import FinalLog

_EVERYTHING = 1 << 40
_LOSS = "a loss of power or an unclean election"


def leader_logs(cluster: SimulatedCluster) -> dict[Partition, FinalLog]:
    """Return the log of each partition up to the offset that all in-sync replicas have, as its leader has it now.

    That is the high watermark or ahead of it: a leader that was restarted reads an old one from its disk, and moves it
    when its followers fetch. Topics of the brokers themselves are left out, and partitions without a leader that runs.
    """
    found: dict[Partition, FinalLog] = {}
    may_have_lost = _may_have_lost(cluster)
    for topic, placed in cluster.znodes.topics().items():
        if topic.startswith("__"):
            continue
        for partition in sorted(each.partition for each in placed.partitions):
            leader = cluster.leader_id(topic, partition)
            broker = None if leader is None else cluster.broker(leader).instance
            replica = None if broker is None else broker.hosted.get(TopicPartition(topic, partition))
            if replica is None:
                continue
            log = replica.log
            start, end = log.log_start_offset, max(log.high_watermark, _replicated_end(cluster, topic, partition))
            found[topic, partition] = read_final_log(
                log.read(start, _EVERYTHING, end_offset=end),
                start=start,
                end=end,
                is_compacted=log.config.is_compacted,
                may_have_lost=_LOSS if may_have_lost is None or (topic, partition) in may_have_lost else "",
            )
    return found


def _replicated_end(cluster: SimulatedCluster, topic: str, partition: int) -> int:
    """Return the lowest log end offset of the in-sync replicas; 0 if one of them cannot be read."""
    ends = []
    for each in cluster.isr(topic, partition):
        broker = cluster.broker(each).instance
        replica = None if broker is None else broker.hosted.get(TopicPartition(topic, partition))
        ends.append(0 if replica is None else replica.log.log_end_offset)
    return min(ends, default=0)


def _may_have_lost(cluster: SimulatedCluster) -> set[Partition] | None:
    """Return the partitions that may have lost acknowledged records; None if all may.

    A loss of power shows its effects only in the records of logs, which brokers write with `understudy.events.logs`.
    """
    records = cluster.records()
    has_lost_power = any(isinstance(each.data, FaultInjected) and each.data.fault == "power_loss" for each in records)
    if has_lost_power and not any(isinstance(each.data, LogOpened) for each in records):
        return None
    return partitions_that_may_have_lost(records)
