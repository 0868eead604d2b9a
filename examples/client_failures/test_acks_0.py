"""A producer with acks=0 sends nothing any more after its connection was lost while it waited for the socket."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from understudy.testing import simulated


async def flood(producer):
    while True:
        await producer.send("ticks", b"x" * 60_000)


@simulated(seeds=2, faults="none", brokers=1)
async def test_a_producer_without_acknowledgements_ends_with_its_connection(cluster):
    await cluster.create_topic("ticks", replication_factor=1)
    settings = {"acks": 0, "max_batch_size": 65_536, "request_timeout_ms": 5_000}
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, **settings)
    await producer.start()
    await producer.send_and_wait("ticks", b"first")

    leader = cluster.leader("ticks")
    leader.pause()
    flooding = asyncio.create_task(flood(producer))
    await asyncio.sleep(4)
    leader.kill()
    await asyncio.sleep(1)
    flooding.cancel()
    await leader.start()
    await cluster.calm()

    for _ in range(5):
        with pytest.raises(KafkaError, match="Unexpected error during batch delivery"):
            await producer.send_and_wait("ticks", b"small")
        await asyncio.sleep(10)
    await producer.stop()
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, **settings) as new:
        await new.send_and_wait("ticks", b"small")
