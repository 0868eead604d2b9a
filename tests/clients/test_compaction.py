"""An unmodified producer and consumer of a compacted topic, on broker processes of which one is killed and replaced."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # as its documentation does

from understudy.brokers.log.checkpoint_file import decode_offsets
from understudy.brokers.log.log_manager import CLEANER_OFFSETS
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.foundation.cluster.identifiers import TopicPartition

with warnings.catch_warnings():
    # As in tests/clients/clients.py.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer
    from kafka import TopicPartition as KafkaPythonPartition

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

PROPERTIES = {"log.cleaner.backoff.ms": "200"}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
    "min.insync.replicas": "2",
}
KEYS = 50
ROUNDS = 200
DELETED = (7, 8)
TABLE_0 = TopicPartition("table", 0)


@pytest.fixture
def cluster(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(
        3, zookeeper=zookeeper, directory=tmp_path, session_timeout_ms=6_000, properties=PROPERTIES
    ) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for created in admin.create_topics([NewTopic("table", 1, 3, config=COMPACTED)]).values():
            created.result(30)
        cluster.settle()
        yield cluster


def test_the_newest_value_of_each_key_is_read(cluster: LocalCluster, tmp_path: Path) -> None:
    newest = produce(cluster, 0)
    cluster.wait_until(lambda: is_compacted_everywhere(tmp_path, ROUNDS * KEYS // 2), "all replicas are compacted")
    found, records = read(cluster)
    assert found == newest
    assert records < ROUNDS * KEYS / 2
    leader = cluster.leader("table", 0)
    leader.kill()
    newest = produce(cluster, ROUNDS)
    assert read(cluster)[0] == newest
    leader.start()
    cluster.settle(timeout_s=60)
    cluster.wait_until(
        lambda: is_compacted_everywhere(tmp_path, ROUNDS * KEYS), "the broker that was killed has compacted, too"
    )
    assert read(cluster)[0] == newest
    cluster.check()


def produce(cluster: LocalCluster, first: int) -> dict[bytes, bytes]:
    """Write every key in each round, and delete two of them in the end; return the values that are left."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "compression.type": "gzip"}
    )
    for number in range(first, first + ROUNDS):
        for key in range(KEYS):
            producer.produce("table", b"%d-%d" % (key, number), key=b"%d" % key)
        assert producer.flush(60) == 0
    for key in DELETED:
        producer.produce("table", None, key=b"%d" % key)
    assert producer.flush(60) == 0
    last = first + ROUNDS - 1
    return {b"%d" % key: b"%d-%d" % (key, last) for key in range(KEYS) if key not in DELETED}


def read(cluster: LocalCluster) -> tuple[dict[bytes, bytes], int]:
    """Return the newest value of each key as a consumer sees them, and how many records it has read."""
    partition = KafkaPythonPartition("table", 0)
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), group_id=None, enable_auto_commit=False)
    found: dict[bytes, bytes] = {}
    offsets: list[int] = []
    try:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end_offset = consumer.end_offsets([partition])[partition]

        def is_read() -> bool:
            for record in consumer.poll(200).get(partition, ()):
                offsets.append(record.offset)
                if record.value is None:
                    found.pop(record.key, None)
                else:
                    found[record.key] = record.value
            return bool(consumer.position(partition) >= end_offset)

        cluster.wait_until(is_read, "the topic is read to its end")
    finally:
        consumer.close()
    assert offsets == sorted(set(offsets))
    return found, len(offsets)


def is_compacted_everywhere(directory: Path, offset: int) -> bool:
    """Whether every broker's checkpoint of the cleaner is above an offset."""
    checkpoints = sorted(directory.rglob(CLEANER_OFFSETS))
    offsets = [decode_offsets(str(path), path.read_bytes()).get(TABLE_0, 0) for path in checkpoints]
    return len(offsets) == 3 and min(offsets) > offset
