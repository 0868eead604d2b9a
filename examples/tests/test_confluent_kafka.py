"""confluent-kafka continues when the controller, and then the leader of its partition, is killed.

pip install pytest confluent-kafka               # and Understudy, from its repository
pytest test_confluent_kafka.py
"""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from understudy.testing import controller_change, leader_change

pytestmark = pytest.mark.understudy(topics={"orders": 1})


def produce(producer, value):
    """Produce a record, and return its offset once it is acknowledged."""
    acknowledged = []
    producer.produce("orders", value, on_delivery=lambda error, message: acknowledged.append((error, message)))
    assert producer.flush(30) == 0
    [(error, message)] = acknowledged
    assert error is None
    return message.offset()


def read(cluster, offset):
    """Return the value of the record at an offset."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition("orders", 0, offset)])
    message = consumer.poll(30)
    consumer.close()
    return message.value()


def test_it_goes_on_when_the_controller_is_killed(understudy_cluster):
    producer = Producer({"bootstrap.servers": understudy_cluster.bootstrap, "acks": "all"})
    before = produce(producer, b"before")
    understudy_cluster.controller.kill()
    understudy_cluster.wait_for(controller_change())
    after = produce(producer, b"after")
    assert (read(understudy_cluster, before), read(understudy_cluster, after)) == (b"before", b"after")
    understudy_cluster.assert_injected("kill", role="controller")


def test_it_goes_on_when_the_leader_is_killed(understudy_cluster):
    producer = Producer({"bootstrap.servers": understudy_cluster.bootstrap, "acks": "all"})
    before = produce(producer, b"before")
    understudy_cluster.leader("orders", 0).kill()
    understudy_cluster.wait_for(leader_change("orders", 0))
    after = produce(producer, b"after")
    assert (read(understudy_cluster, before), read(understudy_cluster, after)) == (b"before", b"after")
    understudy_cluster.assert_injected("kill", role="leader")
