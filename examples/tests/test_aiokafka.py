"""aiokafka continues when the controller, and then the leader of its partition, is killed.

pip install pytest aiokafka                      # and Understudy, from its repository
pytest test_aiokafka.py
"""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from understudy.testing import controller_change, leader_change

pytestmark = pytest.mark.understudy(topics={"orders": 1})


async def produce_and_read(cluster, hurt):
    """Produce before and after a fault with one producer, and return the values that a consumer reads."""
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", enable_idempotence=True) as producer:
        first = await producer.send_and_wait("orders", b"before", partition=0)
        await asyncio.to_thread(hurt)
        last = await asyncio.wait_for(producer.send_and_wait("orders", b"after", partition=0), 60)
    partition = TopicPartition("orders", 0)
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, group_id=None) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, first.offset)
        return [(await asyncio.wait_for(consumer.getone(), 30)).value for _ in range(last.offset - first.offset + 1)]


def test_it_goes_on_when_the_controller_is_killed(understudy_cluster):
    def kill_the_controller():
        understudy_cluster.controller.kill()
        understudy_cluster.wait_for(controller_change())

    assert asyncio.run(produce_and_read(understudy_cluster, kill_the_controller)) == [b"before", b"after"]
    understudy_cluster.assert_injected("kill", role="controller")


def test_it_goes_on_when_the_leader_is_killed(understudy_cluster):
    def kill_the_leader():
        understudy_cluster.leader("orders", 0).kill()
        understudy_cluster.wait_for(leader_change("orders", 0))

    assert asyncio.run(produce_and_read(understudy_cluster, kill_the_leader)) == [b"before", b"after"]
    understudy_cluster.assert_injected("kill", role="leader")
