"""A consumer with a manual assignment ends if it gets another one while it looks for its coordinator."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from understudy.testing import simulated

ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


@simulated(seeds=2, faults="none")
async def test_an_assignment_during_a_lookup_ends_the_consumer(cluster):
    """No broker fails: the group is the cluster's first, and its coordinator is there a moment later."""
    await cluster.create_topic("orders", partitions=2)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(10):
            await producer.send_and_wait("orders", b"%d" % number)

    group = {"group_id": "billing", "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, **group) as consumer:
        consumer.assign(ORDERS[:1])
        await asyncio.sleep(0.01)
        consumer.assign(ORDERS)
        await cluster.calm()
        await asyncio.sleep(10)
        for _ in range(5):
            with pytest.raises(KafkaError, match=r"Unexpected error during coordination AssertionError\(\)"):
                await consumer.getone()
            await asyncio.sleep(10)
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, **group) as new:
        new.assign(ORDERS)
        await new.getone()
