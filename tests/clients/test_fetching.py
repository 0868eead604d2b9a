"""Unmodified consumers that do not fetch as by default: from their rack, and with the protocol of old clients."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # as its documentation does

from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.local_cluster import LocalCluster

with warnings.catch_warnings():
    # As in tests/clients/clients.py.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer
    from kafka import TopicPartition as KafkaPythonPartition
    from kafka.errors import UnsupportedVersionError

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

RACK_AWARE = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
RECORDS = 300


@pytest.fixture(scope="module")
def cluster(zookeeper: EmbeddedZooKeeper) -> Iterator[LocalCluster]:
    """Three brokers in racks a, b and c, with the topics `near`, and `unconverted` whose batches are not converted."""
    with LocalCluster(
        3, racks=["a", "b", "c"], zookeeper=zookeeper, session_timeout_ms=30_000, properties=RACK_AWARE
    ) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        unconverted = NewTopic("unconverted", 3, 3, config={"message.downconversion.enable": "false"})
        for created in admin.create_topics([NewTopic("near", 3, 3), unconverted]).values():
            created.result(30)
        cluster.settle()
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": "gzip"})
        for number in range(RECORDS):
            for topic in ("near", "unconverted"):
                producer.produce(topic, b"%d" % number, partition=number % 3)
        assert producer.flush(30) == 0
        yield cluster


@pytest.mark.parametrize(("rack", "broker"), [("b", 2), ("elsewhere", None)])
def test_librdkafka_reads_from_the_replica_in_its_rack(cluster: LocalCluster, rack: str, broker: int | None) -> None:
    fetched_from: dict[str, tuple[int, int]] = {}
    """The leader of each partition, and the broker that it is fetched from."""

    def note(statistics: str) -> None:
        for name, partition in json.loads(statistics)["topics"].get("near", {}).get("partitions", {}).items():
            if name != "-1":
                fetched_from[name] = (partition["leader"], partition["broker"])

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "none",
            "client.rack": rack,
            "statistics.interval.ms": 100,
            "stats_cb": note,
        }
    )
    consumer.assign([TopicPartition("near", partition, OFFSET_BEGINNING) for partition in range(3)])
    found: list[int] = []

    def is_read() -> bool:
        found.extend(int(message.value() or b"") for message in consumer.consume(RECORDS, 0.2))
        wanted = all(source == (broker or leader) for leader, source in fetched_from.values())
        return len(found) >= RECORDS and len(fetched_from) == 3 and wanted

    try:
        cluster.wait_until(is_read, "all records are read from the replicas in the rack")
    finally:
        consumer.close()
    assert sorted(found) == list(range(RECORDS))


@pytest.mark.parametrize("version", [(0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 1), (0, 11), (2, 5)])
def test_kafka_python_reads_with_the_protocol_of_old_brokers(cluster: LocalCluster, version: tuple[int, ...]) -> None:
    assert _values(cluster, version, "near") == list(range(RECORDS))
    if version < (0, 11):
        with pytest.raises(UnsupportedVersionError):
            _values(cluster, version, "unconverted")
    else:
        assert _values(cluster, version, "unconverted") == list(range(RECORDS))


def _values(cluster: LocalCluster, version: tuple[int, ...], topic: str) -> list[int]:
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap.split(","), api_version=version, group_id=None, enable_auto_commit=False
    )
    found: list[int] = []
    try:
        partitions = [KafkaPythonPartition(topic, partition) for partition in range(3)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)

        def is_read() -> bool:
            for messages in consumer.poll(200).values():
                found.extend(int(message.value) for message in messages)
            return len(found) >= RECORDS

        cluster.wait_until(is_read, f"the records of {topic} are read")
    finally:
        consumer.close()
    return sorted(found)
