"""Consumer groups of unmodified clients and broker processes: join, commit, leave, and a coordinator that is killed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Protocol

import confluent_kafka
import pytest

from tests.clients.clients import KafkaPython
from understudy.brokers.coordinator.coordinators import partition_for
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.local_cluster import LocalCluster

with warnings.catch_warnings():
    # kafka-python reads its message definitions by a function of importlib that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.errors import KafkaError

pytestmark = [
    pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning"),
]

PARTITIONS, RECORDS = 4, 40
OFFSETS_PARTITIONS = 5
SETTINGS = {"offsets.topic.num.partitions": str(OFFSETS_PARTITIONS), "group.initial.rebalance.delay.ms": "500"}
PATIENCE_S = 90.0


class GroupConsumer(Protocol):
    """A member of a group. Its offsets are committed only when `commit` is called."""

    def poll(self) -> int:
        """Take part in the group for some time; return how many records came."""

    def assigned(self) -> set[int]:
        """The partitions it has."""

    def commit(self) -> None:
        """Commit what it has consumed. Retried while the group is being rebalanced."""

    def committed(self) -> list[int]:
        """The committed offset of every partition."""

    def close(self) -> None:
        """Leave the group."""


class KafkaPythonConsumer:
    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._topic = topic
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=500,
        )

    def poll(self) -> int:
        return sum(len(records) for records in self._consumer.poll(timeout_ms=200).values())

    def assigned(self) -> set[int]:
        return {partition.partition for partition in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit()

    def committed(self) -> list[int]:
        found = (self._consumer.committed(TopicPartition(self._topic, number)) for number in range(PARTITIONS))
        return [-1 if offset is None else int(offset) for offset in found]

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class ConfluentConsumer:
    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._topic = topic
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 500,
            }
        )
        self._consumer.subscribe([topic])

    def poll(self) -> int:
        return sum(message.error() is None for message in self._consumer.consume(100, timeout=0.2))

    def assigned(self) -> set[int]:
        return {partition.partition for partition in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def committed(self) -> list[int]:
        asked = [confluent_kafka.TopicPartition(self._topic, number) for number in range(PARTITIONS)]
        return [max(partition.offset, -1) for partition in self._consumer.committed(asked, timeout=10)]

    def close(self) -> None:
        self._consumer.close()


Connect = Callable[[str, str, str], GroupConsumer]
CLIENTS = pytest.mark.parametrize(
    "connect",
    [pytest.param(KafkaPythonConsumer, id="kafka-python"), pytest.param(ConfluentConsumer, id="confluent-kafka")],
)
NO_ANSWER = (KafkaError, confluent_kafka.KafkaException)


@pytest.fixture
def cluster(zookeeper: EmbeddedZooKeeper) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, zookeeper=zookeeper, properties=SETTINGS) as cluster:
        yield cluster


def filled(cluster: LocalCluster, topic: str) -> None:
    """Create a topic with `RECORDS` records, evenly over its partitions."""
    admin = KafkaPython(cluster.bootstrap)
    admin.create_topic(topic, PARTITIONS, 3)
    admin.close()
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    for number in range(RECORDS):
        producer.send(topic, str(number).encode(), partition=number % PARTITIONS)
    producer.flush()
    producer.close()


@CLIENTS
@pytest.mark.spec("CO-3", "CO-4")
def test_two_members_share_a_topic_and_its_offsets_outlive_their_coordinator(
    cluster: LocalCluster, connect: Connect
) -> None:
    filled(cluster, "orders")
    group, each = "readers", [RECORDS // PARTITIONS] * PARTITIONS
    first = connect(cluster.bootstrap, group, "orders")
    consumed = 0

    def all_are_consumed() -> bool:
        nonlocal consumed
        consumed += first.poll()
        return consumed == RECORDS

    cluster.wait_until(all_are_consumed, "the only member consumes every record", PATIENCE_S)
    assert first.committed() == [-1] * PARTITIONS
    first.commit()
    assert first.committed() == each

    second = connect(cluster.bootstrap, group, "orders")

    def are_shared() -> bool:
        for member in (first, second):
            member.poll()
        shares = first.assigned(), second.assigned()
        return sorted(map(len, shares)) == [2, 2] and not shares[0] & shares[1]

    cluster.wait_until(are_shared, "two members have two partitions each", PATIENCE_S)
    first.close()

    def has_all() -> bool:
        second.poll()
        return len(second.assigned()) == PARTITIONS

    cluster.wait_until(has_all, "the member that is left has every partition", PATIENCE_S)
    coordinator = cluster.leader("__consumer_offsets", partition_for(group, OFFSETS_PARTITIONS))
    coordinator.kill()

    def offsets_are_there() -> bool:
        try:
            second.poll()
            return second.committed() == each
        except NO_ANSWER:
            return False

    cluster.wait_until(offsets_are_there, "another coordinator has the committed offsets", PATIENCE_S)

    def commits_again() -> bool:
        try:
            second.poll()
            second.commit()
        except NO_ANSWER as error:
            if "NO_OFFSET" not in str(error):
                return False
        return len(second.assigned()) == PARTITIONS

    cluster.wait_until(commits_again, "the member commits at its new coordinator", PATIENCE_S)
    assert second.committed() == each
    second.close()


@CLIENTS
def test_a_cluster_of_one_broker_has_groups(zookeeper: EmbeddedZooKeeper, connect: Connect) -> None:
    with LocalCluster(brokers=1, zookeeper=zookeeper, properties=SETTINGS) as cluster:
        admin = KafkaPython(cluster.bootstrap)
        admin.create_topic("orders", PARTITIONS, 1)
        admin.close()
        only = connect(cluster.bootstrap, "readers", "orders")

        def has_all() -> bool:
            only.poll()
            return len(only.assigned()) == PARTITIONS

        cluster.wait_until(has_all, "the member has every partition", PATIENCE_S)
        only.close()
