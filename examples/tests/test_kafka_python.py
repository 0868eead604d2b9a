"""kafka-python continues when the controller, and then the leader of its partition, is killed.

pip install pytest kafka-python                  # and Understudy, from its repository
pytest test_kafka_python.py
"""

import pytest
from kafka import KafkaConsumer, KafkaProducer

from understudy.testing import controller_change, leader_change

pytestmark = pytest.mark.understudy(topics={"orders": 1}, scope="session")


def produce_and_read(cluster, hurt):
    """Produce before and after a fault, and return how many of the records a consumer reads."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", retries=100)
    sent = [producer.send("orders", b"before").get(timeout=30)]
    hurt()
    sent.append(producer.send("orders", b"after").get(timeout=30))
    producer.close()
    settings = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 5_000, "group_id": None}
    consumer = KafkaConsumer("orders", bootstrap_servers=cluster.bootstrap, **settings)
    offsets = {record.offset for record in consumer}
    consumer.close()
    return [each.offset in offsets for each in sent]


def test_it_goes_on_when_the_controller_is_killed(understudy_cluster):
    def kill_the_controller():
        understudy_cluster.controller.kill()
        understudy_cluster.wait_for(controller_change())

    assert produce_and_read(understudy_cluster, kill_the_controller) == [True, True]
    understudy_cluster.assert_injected("kill", role="controller")


def test_it_goes_on_when_the_leader_is_killed(understudy_cluster):
    def kill_the_leader():
        understudy_cluster.leader("orders", 0).kill()
        understudy_cluster.wait_for(leader_change("orders", 0))

    assert produce_and_read(understudy_cluster, kill_the_leader) == [True, True]
    understudy_cluster.assert_injected("kill", role="leader of orders-0")
