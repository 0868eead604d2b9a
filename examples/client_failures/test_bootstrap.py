"""A client reaches no broker, although bootstrap servers are up, after all brokers of its metadata have ended."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from understudy.testing import simulated


@simulated(seeds=2, faults="none")
async def test_a_client_asks_no_bootstrap_server_a_second_time(cluster):
    """Two brokers end, the client refreshes its metadata, and they return; the third ends meanwhile, and stays away."""
    await cluster.create_topic("orders", assignment={0: [1, 2, 3]})
    settings = {"request_timeout_ms": 5_000, "metadata_max_age_ms": 3_000}
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, **settings)
    await producer.start()
    await producer.send_and_wait("orders", b"first")

    for number in (2, 3):
        cluster.broker(number).kill()
    await cluster.wait_until(lambda: cluster.isr("orders") == (1,), "broker 1 is alone")
    await asyncio.sleep(10)
    cluster.broker(1).kill()
    for number in (2, 3):
        await cluster.broker(number).start()
    await asyncio.sleep(120)

    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, **settings) as new:
        assert {broker.nodeId for broker in new.client.cluster.brokers()} == {2, 3}
    assert {broker.nodeId for broker in producer.client.cluster.brokers()} == {1}
    with pytest.raises(KafkaError):
        await producer.send_and_wait("orders", b"second")
    await producer.stop()
