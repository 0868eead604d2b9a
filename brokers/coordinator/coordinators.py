"""Which partition of which topic keeps a group, or a transactional id; whoever leads it coordinates. Mirrors
`partitionFor` of `GroupMetadataManager` and `TransactionStateManager`.

These brokers coordinate nothing themselves: they know who does, as long as that is one of Kafka's.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum

from brokers.config.kafka_config import KafkaConfig
from brokers.metadata.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from foundation.zk.kafka_zk_client import KafkaZkClient
from foundation.zk.znodes import TopicAssignment


class CoordinatorType(IntEnum):
    """Mirrors `FindCoordinatorRequest.CoordinatorType`; the number goes over the wire."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


TOPICS: Mapping[CoordinatorType, str] = {
    CoordinatorType.GROUP: GROUP_METADATA_TOPIC,
    CoordinatorType.TRANSACTION: TRANSACTION_STATE_TOPIC,
}
"""Where each kind of coordinator keeps what it knows; none for share groups, which need a cluster without ZooKeeper."""

_MIN_INT = -(1 << 31)


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: 31 times what there was, plus each UTF-16 unit, in 32 signed bits that wrap (CO-1)."""
    units = text.encode("utf-16-le")
    hashed = 0
    for (unit,) in struct.iter_unpack("<H", units):
        hashed = (31 * hashed + unit) & 0xFFFF_FFFF
    return hashed - (1 << 32) if hashed >> 31 else hashed


def partition_for(key: str, partitions: int) -> int:
    """CO-1: the partition, of so many, that keeps the group or transactional id `key`. The one hash without a positive
    counterpart counts as 0."""
    hashed = java_hash(key)
    return (0 if hashed == _MIN_INT else abs(hashed)) % partitions


def partition_counts(existing: Mapping[str, TopicAssignment], config: KafkaConfig) -> dict[str, int]:
    """CO-2: how many partitions each of `TOPICS` has, or will have once somebody asks for it.

    Args:
        existing: those of the topics that there are.
    """
    configured = {
        GROUP_METADATA_TOPIC: config.offsets_topic_num_partitions,
        TRANSACTION_STATE_TOPIC: config.transaction_state_log_num_partitions,
    }
    counted = {topic: len(assignment.partitions) for topic, assignment in existing.items()}
    return {topic: counted.get(topic) or partitions for topic, partitions in configured.items()}


async def read_partition_counts(zk: KafkaZkClient, config: KafkaConfig) -> dict[str, int]:
    """`partition_counts` as of now. Asked once, when a broker starts: a topic that grows afterwards would move every
    group, and whoever coordinates asks no more often."""
    return partition_counts(await zk.topics.assignments(tuple(TOPICS.values())), config)
