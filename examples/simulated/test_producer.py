"""Every acknowledged order is delivered, although brokers fail meanwhile."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated

ORDERS = 60


async def bill(bootstrap, billed):
    """Read the orders from the first one on; `billed` stands for the table of a database."""
    async with AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        metadata_max_age_ms=5_000,
        group_id="billing",
        auto_offset_reset="earliest",
    ) as consumer:
        async for record in consumer:
            billed.append(record.value)


@simulated(seeds=200)
async def test_each_acknowledged_order_is_billed(cluster):
    await cluster.create_topic("orders", partitions=3, replication_factor=3)
    billed, orders = [], [b"order %d" % number for number in range(ORDERS)]
    cluster.start(bill, cluster.bootstrap, billed)
    # The default of aiokafka, acks=1, loses orders when a leader fails: see test_acks_1.py.
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for order in orders:
            await producer.send_and_wait("orders", order)
            await asyncio.sleep(0.5)
    await cluster.calm()
    await cluster.wait_until(lambda: set(billed) >= set(orders), "every order is billed")
