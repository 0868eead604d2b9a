"""Understudy in place of cp-kafka in Python's testcontainers: one broker, and three of which the controller is killed.

docker tag understudy understudy:7.9.0           # testcontainers compares the tag with versions of cp-kafka
pip install -r requirements.txt
UNDERSTUDY_IMAGE=understudy:7.9.0 pytest test_failover.py
"""

import contextlib
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network
from testcontainers.kafka import KafkaContainer

IMAGE = os.environ.get("UNDERSTUDY_IMAGE", "understudy:7.9.0")
IDS = (1, 2, 3)


def controller(bootstrap, timeout_s=60, other_than=None):
    """Return the id of the controller, as soon as it is another one than the broker `other_than`."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with contextlib.suppress(KafkaException):  # the broker that was asked may be the one that was killed
            found = admin.list_topics(timeout=5).controller_id
            if found not in (-1, other_than):
                return found
        time.sleep(0.2)
    raise AssertionError(f"no controller other than {other_than} within {timeout_s} s")


def create_topic(bootstrap, topic, replicas):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=replicas)])[topic].result(60)


def produce(bootstrap, topic, *values):
    """Produce records that the whole ISR acknowledges."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    errors = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None] * len(values)


def read(bootstrap, topic, count):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = [message.value() for message in consumer.consume(count, timeout=60)]
    consumer.close()
    return found


@pytest.mark.parametrize("mode", ["zookeeper", "kraft"])
def test_one_container(mode):
    kafka = KafkaContainer(IMAGE)
    if mode == "kraft":
        kafka.with_kraft()
    with kafka:
        bootstrap = kafka.get_bootstrap_server()
        create_topic(bootstrap, "orders", replicas=1)
        produce(bootstrap, "orders", b"one", b"two")
        assert read(bootstrap, "orders", 2) == [b"one", b"two"]


class Broker(KafkaContainer):
    """A broker of a cluster: its ZooKeeper is another container, not one of its own."""

    def __init__(self, broker_id, network):
        super().__init__(IMAGE)
        self.with_network(network)
        self.with_env("KAFKA_BROKER_ID", str(broker_id))
        self.with_env("KAFKA_ZOOKEEPER_CONNECT", "zookeeper:2181")
        self.with_env("KAFKA_ZOOKEEPER_SESSION_TIMEOUT_MS", "6000")  # how long a killed broker stays registered

    def configure(self):
        self.boot_command = ""

    def kill(self):
        self.get_wrapped_container().kill()


@pytest.fixture
def cluster():
    """Start a ZooKeeper and three brokers in a network of their own; give the brokers by id."""
    with Network() as network:
        zookeeper = DockerContainer(IMAGE).with_network(network).with_network_aliases("zookeeper")
        with zookeeper.with_env("ZOOKEEPER_CLIENT_PORT", "2181"):
            brokers = {broker_id: Broker(broker_id, network) for broker_id in IDS}
            try:
                with ThreadPoolExecutor() as threads:
                    list(threads.map(lambda broker: broker.start(timeout=90), brokers.values()))
                yield brokers
            finally:
                for broker in brokers.values():
                    broker.stop()


def test_three_containers_go_on_when_the_controller_is_killed(cluster):
    bootstrap = ",".join(broker.get_bootstrap_server() for broker in cluster.values())
    create_topic(bootstrap, "orders", replicas=3)
    produce(bootstrap, "orders", b"before")

    killed = controller(bootstrap)
    cluster[killed].kill()
    assert controller(bootstrap, other_than=killed) in IDS

    produce(bootstrap, "orders", b"after")
    create_topic(bootstrap, "made-by-the-new-controller", replicas=2)
    assert read(bootstrap, "orders", 2) == [b"before", b"after"]
