"""Compose files of the shapes that projects use for their Kafka tests, with our image in place of Kafka's.

Slow because each brings a whole cluster up, kills the container of its controller and brings it down. They alone see
that the image, with its scripts and under its user, does what those files expect.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from tests.compose.compose_cluster import eventually
from tests.compose.shape_cluster import SHAPES, ShapeCluster
from tests.shares import SHARES, share_of
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.admin_client import AdminClient

REPRESENTATIVE = ("zoo-official-three", "cp-kraft-init")
"""The shapes of the usual share: an old ZooKeeper and three brokers; KRaft and a container that creates topics."""
ALL = (*REPRESENTATIVE, *sorted(path.stem for path in SHAPES.glob("*.yaml") if path.stem not in REPRESENTATIVE))
TOPIC = "orders"
RECORDS = 20
TIMEOUT_S = 120.0


@pytest.fixture
def cluster(image: str, request: pytest.FixtureRequest) -> Iterator[ShapeCluster]:
    """Bring a shape up; bring it down with its volumes if the test has not done so."""
    cluster = ShapeCluster(SHAPES / f"{request.param}.yaml", project=f"shape-{uuid.uuid4().hex[:8]}", image=image)
    try:
        try:
            cluster.up()
        except Exception:
            print(cluster.logs())
            raise
        yield cluster
    finally:
        cluster.down()


def test_the_share_of_nightly_runs_has_every_shape() -> None:
    assert SHARES["compose-shapes"].whole == len(ALL) == len(set(ALL))
    assert SHARES["compose-shapes"].usual == len(REPRESENTATIVE)


def test_every_file_has_our_image_and_no_fixed_port() -> None:
    """A fixed port on this machine may be in use by another program."""
    for path in sorted(SHAPES.glob("*.yaml")):
        images = [line for line in path.read_text().splitlines() if line.strip().startswith("image:")]
        assert images, path
        assert {line.strip() for line in images} == {"image: ${UNDERSTUDY_IMAGE:-understudy}"}, path


@pytest.mark.docker
@pytest.mark.xdist_group("compose")
@pytest.mark.timeout(1800)  # for a first build that downloads Spark, on a machine with much else to do
@pytest.mark.parametrize("cluster", ALL[: share_of("compose-shapes")], indirect=True)
def test_a_shape_keeps_every_acknowledged_record_when_its_controller_is_killed(cluster: ShapeCluster) -> None:
    eventually(cluster.has_its_topics, "the topics of the file have been created")
    cluster.create_topic(TOPIC, 3)
    acknowledged = produce(cluster, "before")

    killed = cluster.kill_controller()
    acknowledged += produce(cluster, "after")
    if killed in cluster.not_ready():
        cluster.start(killed)
    acknowledged += produce(cluster, "again")

    assert len(acknowledged) == len(set(acknowledged))
    read = cluster.consume_inside(TOPIC, len(acknowledged))
    assert set(acknowledged) <= set(read), cluster.logs()
    if cluster.shape.host is not None:
        assert set(acknowledged) <= consumed_on_the_host(cluster.shape.host, len(acknowledged))
    assert cluster.down() == {}


def produce(cluster: ShapeCluster, when: str) -> list[str]:
    """Produce from this machine and from a container; return the values that were acknowledged."""
    from_inside = [f"inside-{when}-{number}" for number in range(RECORDS)]
    from_host = [f"host-{when}-{number}" for number in range(RECORDS)]
    if cluster.shape.host is None:
        # Clients would be sent to localhost:9092, so that this machine only sees that the address is advertised.
        admin = AdminClient(SocketNetwork(), [cluster.shape.published])
        [broker] = asyncio.run(admin.metadata()).brokers
        assert (broker.host, broker.port) == ("localhost", 9092)
        from_host = []
    else:
        produce_on_the_host(cluster.shape.host, from_host)
    cluster.produce_inside(TOPIC, from_inside)
    return from_host + from_inside


def produce_on_the_host(bootstrap: str, values: list[str]) -> None:
    """Produce with confluent-kafka, acknowledged by the whole ISR; fail if a record was not acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": int(TIMEOUT_S * 1000)})
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for value in values:
        producer.produce(TOPIC, value.encode(), on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    assert failed == []


def consumed_on_the_host(bootstrap: str, count: int) -> set[str]:
    """Read `count` records of the topic with a consumer group of confluent-kafka."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    read: set[str] = set()

    def has_read_all() -> bool:
        for message in consumer.consume(count, timeout=1.0):
            if message.error() is None:
                read.add((message.value() or b"").decode())
        return len(read) >= count

    try:
        eventually(has_read_all, f"a consumer on this machine has read {count} records", TIMEOUT_S)
    finally:
        consumer.close()
    return read
