"""A consumer that commits after processing does not lose a record when it is killed; it may process some again."""

import asyncio
import contextlib

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import CommitFailedError

from understudy.testing import simulated

ORDERS = 60


async def ship(bootstrap, shipped):
    async with AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap,
        metadata_max_age_ms=5_000,
        group_id="shipping",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        async for record in consumer:
            await asyncio.sleep(0.02)  # the work
            shipped.append(record.value)
            # If it is refused, the partition belongs to another member now, which reads this record again.
            with contextlib.suppress(CommitFailedError):
                await consumer.commit({TopicPartition(record.topic, record.partition): record.offset + 1})


@simulated(seeds=200, faults=["kill", "pause", "stop", "depose", "kill-service", "pause-service", "isolate-service"])
async def test_each_order_is_shipped_at_least_once(cluster):
    await cluster.create_topic("orders", partitions=3, replication_factor=3)
    shipped, orders = [], {b"order %d" % number for number in range(ORDERS)}
    for name in ("shipping-1", "shipping-2"):
        cluster.start(ship, cluster.bootstrap, shipped, name=name, restarts=True)
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap,
        acks="all",
        request_timeout_ms=120_000,  # a partition is without a leader for longer than the default of 40 s in some seeds
    )
    async with producer:
        for order in sorted(orders):
            await producer.send_and_wait("orders", order)
            await asyncio.sleep(0.4)
    await cluster.calm()
    await cluster.wait_until(lambda: set(shipped) >= orders, "every order is shipped")
