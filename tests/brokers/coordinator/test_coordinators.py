"""Tests of the partition that a group or transactional id belongs to: Java's hash and the number of partitions."""

from __future__ import annotations

import pytest

from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.coordinator.coordinators import partition_counts, partition_for
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.java import java_hash
from understudy.foundation.zk.znodes import TopicAssignment

MIN_INT = -(2**31)
CONFIG = KafkaConfig(offsets_topic_num_partitions=7, transaction_state_log_num_partitions=9)


@pytest.mark.spec("CO-1")
@pytest.mark.parametrize(
    ("group", "hashed", "partition"),
    [
        ("my-group", -1_906_497_762, 12),
        ("group1", -1_237_460_590, 40),
        ("test", 3_556_498, 48),
        ("orders-service", None, 17),
        ("connect-cluster", None, 13),
        ("console-consumer-1", None, 24),
        ("", 0, 0),
        ("polygenelubricants", MIN_INT, 0),
        # Two UTF-16 units, U+D83D and U+DE00.
        ("😀", 31 * 0xD83D + 0xDE00, 49),
        ("\uffff" * 3, 0xFFFF * (31 * 31 + 31 + 1), 5),
    ],
)
def test_group_belongs_to_the_partition_that_kafka_computes(group: str, hashed: int | None, partition: int) -> None:
    assert partition_for(group, 50) == partition
    if hashed is not None:
        assert java_hash(group) == hashed


def existing(**partitions: int) -> dict[str, TopicAssignment]:
    replicas = ReplicaAssignment((BrokerId(1),))
    return {
        topic: TopicAssignment(None, {TopicPartition(topic, index): replicas for index in range(count)})
        for topic, count in partitions.items()
    }


@pytest.mark.spec("CO-2")
def test_partition_count_is_that_of_the_topic_or_else_the_configured_one() -> None:
    assert partition_counts({}, CONFIG) == {"__consumer_offsets": 7, "__transaction_state": 9}
    assert partition_counts(existing(__consumer_offsets=4), CONFIG) == {
        "__consumer_offsets": 4,
        "__transaction_state": 9,
    }
    # A topic znode edited by hand may have no partitions; no group could belong to one of them.
    assert partition_counts(existing(__transaction_state=0), CONFIG) == {
        "__consumer_offsets": 7,
        "__transaction_state": 9,
    }
