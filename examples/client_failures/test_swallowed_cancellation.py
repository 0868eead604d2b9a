"""A program that returns, or fails, just after its consumer has lost its assignment never ends."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated


async def leaves(bootstrap, read):
    """Read from three leaders, unsubscribe, and return: `asyncio.run` cancels the tasks that are left."""
    consumer = AIOKafkaConsumer("ticks", bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    read.append((consumer, await consumer.getone()))  # kept: a consumer that is collected would be reported
    await asyncio.sleep(1)
    consumer.unsubscribe()


@simulated(seeds=2, faults="none")
async def test_a_program_never_ends_that_returns_after_unsubscribe(cluster):
    await cluster.create_topic("ticks", assignment={0: [1], 1: [2], 2: [3]})
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        await producer.send_and_wait("ticks", b"tick")
    service = cluster.start(leaves, cluster.bootstrap, read := [])
    await cluster.wait_until(lambda: read, "a record is read")
    await asyncio.sleep(120)
    assert service.is_running
    service.kill()
