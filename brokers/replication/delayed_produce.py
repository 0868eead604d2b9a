"""Appends records to partitions that this broker leads, and waits until the in-sync replicas have them.

Produce and the group coordinator share it. Mirrors `ReplicaManager.appendRecords` and `kafka.server.DelayedProduce`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from understudy.brokers.log.append_info import LogAppendInfo
from understudy.brokers.log.log_validator import CheckedBatches
from understudy.brokers.replication.partition import Partition
from understudy.brokers.replication.replica_manager import ALL_ACKS, ReplicaManager
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.varint import Buffer


class Appended(NamedTuple):
    """What was appended to one partition, or where a batch that is sent again had been appended."""

    partition: Partition
    info: LogAppendInfo
    isr: tuple[int, ...]
    """The committed ISR at that time."""

    @property
    def end_offset(self) -> int:
        return self.info.last_offset + 1


def led_partition(replicas: ReplicaManager, topic_partition: TopicPartition) -> Partition:
    """Return a partition that this broker leads.

    Raises:
        ApiError: NOT_LEADER_OR_FOLLOWER.
    """
    partition = replicas.partitions.get(topic_partition)
    if partition is None or not partition.is_leader:
        raise ApiError(Errors.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {topic_partition}")
    return partition


def append_records(
    replicas: ReplicaManager,
    partition: Partition,
    data: Buffer | CheckedBatches,
    *,
    required_acks: int,
    from_client: bool = True,
) -> Appended:
    """Append batches to a partition that this broker leads.

    Args:
        required_acks: -1 for all, as in Produce.
        from_client: whether a client produced the batches, and no coordinator of this broker.

    Raises:
        ApiError: they are refused, as by `ReplicaManager.append_as_leader`.
    """
    isr = partition.state.isr
    info = replicas.append_as_leader(partition, data, required_acks=required_acks, from_client=from_client)
    return Appended(partition, info, isr)


def record_acknowledgement(replicas: ReplicaManager, appended: Appended, acks: int) -> None:
    """Write into the event log that records are acknowledged, before their producer is answered."""
    replicas.log_events.acknowledged(appended.partition, appended.info, acks=acks, isr_at_append=appended.isr)


async def wait_until_replicated(
    replicas: ReplicaManager, appended: Mapping[TopicPartition, Appended], *, timeout_ms: float
) -> dict[TopicPartition, Errors]:
    """Wait until the records of every partition are replicated or cannot be; return how it ended for each.

    Records that have been appended stay in the log, however it ended: NONE; REQUEST_TIMED_OUT after `timeout_ms`;
    NOT_LEADER_OR_FOLLOWER; NOT_ENOUGH_REPLICAS_AFTER_APPEND.
    """
    pending = dict(appended)
    results: dict[TopicPartition, Errors] = {}

    def settle() -> bool:
        for topic_partition, each in tuple(pending.items()):
            error = replicas.replication_error(topic_partition, each.end_offset)
            if error is not None:
                del pending[topic_partition]
                results[topic_partition] = error
                if error is Errors.NONE:
                    record_acknowledgement(replicas, each, ALL_ACKS)
        return not pending

    await replicas.delayed_produces.wait_until(tuple(pending), settle, timeout_ms=timeout_ms)
    return results | dict.fromkeys(pending, Errors.REQUEST_TIMED_OUT)
