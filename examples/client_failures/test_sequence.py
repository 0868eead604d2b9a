"""An idempotent producer writes no record to a partition any more after one of its batches has failed."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import LeaderNotAvailableError, MessageSizeTooLargeError, OutOfOrderSequenceNumber

from understudy.testing import simulated


@simulated(seeds=2, faults="none", brokers=1)
async def test_a_refused_record_leaves_a_gap_in_the_sequence(cluster):
    """No broker fails: one record is larger than `max.message.bytes` of the topic."""
    await cluster.create_topic("orders", replication_factor=1)
    settings = {"enable_idempotence": True, "max_request_size": 3_000_000}
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, **settings) as producer:
        await producer.send_and_wait("orders", b"first")
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait("orders", b"x" * 1_500_000)
        for _ in range(5):
            with pytest.raises(OutOfOrderSequenceNumber):
                await producer.send_and_wait("orders", b"small")
            await asyncio.sleep(10)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, **settings) as new:
        await new.send_and_wait("orders", b"small")


@simulated(seeds=2, faults="none")
async def test_an_expired_batch_leaves_a_gap_in_the_sequence(cluster):
    """The only replica of a partition is away for longer than `request_timeout_ms`."""
    await cluster.create_topic("orders", replication_factor=1)
    settings = {"enable_idempotence": True, "request_timeout_ms": 3_000}
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, **settings) as producer:
        await producer.send_and_wait("orders", b"first")
        leader = cluster.leader("orders")
        leader.kill()
        await cluster.wait_until(lambda: cluster.leader_id("orders") is None, "the partition has no leader")
        for _ in range(2):
            with pytest.raises(LeaderNotAvailableError):
                await producer.send_and_wait("orders", b"expires")
        await leader.start()
        await cluster.calm()
        for _ in range(5):
            with pytest.raises(OutOfOrderSequenceNumber):
                await producer.send_and_wait("orders", b"small")
            await asyncio.sleep(10)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, **settings) as new:
        await new.send_and_wait("orders", b"small")
