"""A client that starts at a broker without metadata gets no brokers, and never finds one again."""

import asyncio
import contextlib

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError

from understudy.testing import simulated


async def started(bootstrap):
    """Return a producer, as soon as a broker takes its connection."""
    while True:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", request_timeout_ms=5_000)
        with contextlib.suppress(KafkaConnectionError):
            await producer.start()
            return producer
        await producer.stop()
        await asyncio.sleep(0.001)


@simulated(seeds=2, faults="none")
async def test_a_client_that_has_got_no_brokers_at_its_start_finds_none(cluster):
    await cluster.create_topic("orders", partitions=1)
    # All brokers end, and the first to return answers before a controller has sent it UpdateMetadata.
    for broker in cluster.brokers:
        broker.kill(for_s=10 if broker.id == 1 else 20)
    producer = await started(cluster.bootstrap)
    cluster.broker(1).kill(for_s=10)
    await asyncio.sleep(30)
    await cluster.calm()

    for _ in range(3):
        with pytest.raises(KafkaError):
            await producer.send_and_wait("orders", b"lost")
        await asyncio.sleep(60)
    await producer.stop()
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as new:
        await new.send_and_wait("orders", b"written")
