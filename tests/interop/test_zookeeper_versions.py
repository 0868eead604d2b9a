"""Our brokers, and one of Apache Kafka beside them, on the ZooKeepers that older clusters have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from kazoo.client import KazooClient

from devtools.judges.maven import ZOOKEEPERS
from tests import zookeeper_versions
from tests.interop.mixed import PATIENCE_S, SESSION_TIMEOUT_MS, hand_over, new_controller, settle
from tests.interop.steps import whole
from tests.shares import SHARES, share_of
from understudy.checks.history import OpKind, ZnodeOp
from understudy.clusters.processes.apache_kafka import SMALL_BROKER, ApacheKafka
from understudy.clusters.processes.embedded_zookeeper import four_letter_word
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.history.reading.transaction_log import read_transaction_logs

OURS = (1, 2, 3)
KAFKAS = 4
EVERYONE = (*OURS, KAFKAS)

pytestmark = pytest.mark.xdist_group("zookeeper versions")


def test_the_share_of_nightly_runs_has_every_version() -> None:
    assert SHARES["zookeeper-versions"].whole == len(ZOOKEEPERS)


@pytest.fixture(params=ZOOKEEPERS[: share_of("zookeeper-versions")])
def cluster(kafka: ApacheKafka, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with zookeeper_versions.running(request.param, tmp_path / "zookeeper") as server:
        answer = four_letter_word(server.host, server.port, "srvr")
        assert answer.startswith(f"Zookeeper version: {request.param}")
        with LocalCluster(
            len(EVERYONE),
            zookeeper=server,
            kafka_brokers={KAFKAS: kafka},
            directory=tmp_path / "run",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            properties={
                "inter.broker.protocol.version": "3.9",
                "auto.leader.rebalance.enable": "false",
                **SMALL_BROKER,
            },
        ) as cluster:
            yield cluster


def test_brokers_start_and_the_controller_fails_over_beside_kafka(cluster: LocalCluster) -> None:
    """Our controller is killed; Kafka's broker becomes controller; it is killed, and ours take over again."""
    cluster.create_topic("orders", partitions=4, replication_factor=3)
    settle(cluster, EVERYONE)
    sent = produce(cluster, range(100))
    ours = cluster.controller()
    assert ours.id in OURS
    epoch = cluster.picture().controller_epoch
    ours.kill()
    new_controller(cluster, epoch)
    sent += produce(cluster, range(100, 200))
    ours.start()
    cluster.wait_until(lambda: whole(cluster.picture(), "orders"), "the killed broker is in sync again")
    hand_over(cluster, to=[KAFKAS])
    epoch = settle(cluster, EVERYONE).controller_epoch
    cluster.broker(KAFKAS).kill()
    assert new_controller(cluster, epoch) in OURS
    sent += produce(cluster, range(200, 300))
    cluster.create_topic("later", partitions=2, replication_factor=3)
    settle(cluster, OURS)
    assert sorted(consumed(cluster, len(sent))) == sent


def produce(cluster: LocalCluster, numbers: range) -> list[int]:
    """Write numbers, acknowledged by all in-sync replicas; return them."""
    failures: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0}
    )
    for number in numbers:
        producer.produce("orders", str(number), on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []
    return list(numbers)


def consumed(cluster: LocalCluster, count: int) -> list[int]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe(["orders"])
        return [int(message.value() or b"") for message in consumer.consume(count, PATIENCE_S)]
    finally:
        consumer.close()


@pytest.mark.interop
@pytest.mark.parametrize("version", ZOOKEEPERS)
def test_the_transaction_log_of_each_version_is_read(version: str, tmp_path: Path) -> None:
    """Before 3.6 the log does not name the ephemeral znodes that the end of a session deletes."""
    with zookeeper_versions.running(version, tmp_path) as server:
        client = KazooClient(server.connect_string)
        client.start()
        session = client.client_id[0]
        client.create("/a", b"1")
        client.create("/a/e", b"", ephemeral=True)
        with client.transaction() as together:
            together.check("/a", 0)
            together.set_data("/a", b"2")
        client.stop()
        client.close()
        history = read_transaction_logs(server.transaction_log_dir)
    assert [read.ops for read in history if read.session_id == session] == [
        (ZnodeOp(OpKind.CREATE, "/a", b"1"),),
        (ZnodeOp(OpKind.CREATE, "/a/e", b"", 0, session),),
        (ZnodeOp(OpKind.CHECK, "/a", None, 0), ZnodeOp(OpKind.SET, "/a", b"2", 1)),
        (ZnodeOp(OpKind.DELETE, "/a/e"),),
    ]
