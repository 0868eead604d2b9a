"""A record that cannot be processed goes to a dead-letter topic, with the reason, and stops no other record."""

import asyncio
import contextlib
import json

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import CommitFailedError

from understudy.testing import simulated

ORDERS = [b'{"price": %d}' % n if n % 5 else b"not JSON %d" % n for n in range(60)]


async def price(bootstrap, prices):
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer,
        AIOKafkaConsumer(
            "orders",
            bootstrap_servers=bootstrap,
            metadata_max_age_ms=5_000,
            group_id="pricing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        async for record in consumer:
            try:
                prices.add(json.loads(record.value)["price"])
            except ValueError as error:
                await producer.send_and_wait("orders.dead", record.value, headers=[("reason", str(error).encode())])
            # If it is refused, the group has rebalanced: the record is read again.
            with contextlib.suppress(CommitFailedError):
                await consumer.commit({TopicPartition("orders", record.partition): record.offset + 1})


async def bury(bootstrap, dead):
    async with AIOKafkaConsumer(
        "orders.dead", bootstrap_servers=bootstrap, metadata_max_age_ms=5_000, auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            dead[record.value] = dict(record.headers)


@simulated(seeds=200, faults=["kill", "pause", "stop", "depose", "kill-service"])
async def test_each_order_is_priced_or_dead(cluster):
    for topic in ("orders", "orders.dead"):
        await cluster.create_topic(topic, partitions=2, replication_factor=3)
    prices, dead = set(), {}
    cluster.start(price, cluster.bootstrap, prices, restarts=True)
    cluster.start(bury, cluster.bootstrap, dead, restarts=True)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for order in ORDERS:
            await producer.send_and_wait("orders", order)
            await asyncio.sleep(0.5)
    await cluster.calm()
    await cluster.wait_until(lambda: len(prices) + len(dead) == len(ORDERS), "each order is priced or dead")
    assert set(dead) == {order for order in ORDERS if order.startswith(b"not")}
    assert all(b"Expecting value" in headers["reason"] for headers in dead.values())
