"""Computes the partition that stores a group or a transactional id; its leader is the coordinator. Mirrors
`partitionFor` of `GroupMetadataManager` and `TransactionStateManager`.

These brokers coordinate nothing themselves. In a cluster with Kafka's brokers they name the Kafka broker that does.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.metadata.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from understudy.foundation.cluster.java import java_hash
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient
from understudy.foundation.zk.znodes import TopicAssignment


class CoordinatorType(IntEnum):
    """Mirrors `FindCoordinatorRequest.CoordinatorType`; the number goes over the wire."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


TOPICS: Mapping[CoordinatorType, str] = {
    CoordinatorType.GROUP: GROUP_METADATA_TOPIC,
    CoordinatorType.TRANSACTION: TRANSACTION_STATE_TOPIC,
}
"""Topics that store the state of coordinators, by type. Share groups have none in ZooKeeper mode."""

_MIN_INT = -(1 << 31)


def partition_for(key: str, partitions: int) -> int:
    """Return the partition that stores the group or transactional id `key` (CO-1). The hash −2³¹ counts as 0: it has no
    absolute value in 32 bits."""
    hashed = java_hash(key)
    return (0 if hashed == _MIN_INT else abs(hashed)) % partitions


def partition_counts(existing: Mapping[str, TopicAssignment], config: KafkaConfig) -> dict[str, int]:
    """Return how many partitions each of `TOPICS` has, or will have when it is created (CO-2).

    Args:
        existing: the assignments of the coordinators' topics that exist.
    """
    configured = {
        GROUP_METADATA_TOPIC: config.offsets_topic_num_partitions,
        TRANSACTION_STATE_TOPIC: config.transaction_state_log_num_partitions,
    }
    counted = {topic: len(assignment.partitions) for topic, assignment in existing.items()}
    return {topic: counted.get(topic) or partitions for topic, partitions in configured.items()}


async def read_partition_counts(zk: KafkaZkClient, config: KafkaConfig) -> dict[str, int]:
    """Return `partition_counts` as of now. A broker reads them once, at its start, as Kafka's coordinators do: a topic
    that grows later would move every group."""
    return partition_counts(await zk.topics.assignments(tuple(TOPICS.values())), config)
