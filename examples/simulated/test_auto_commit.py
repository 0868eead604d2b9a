"""With auto commit each record is processed at least once, if nothing is awaited between reading and processing it."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated

VISITS = 80


async def count(bootstrap, counted):
    """aiokafka commits in a task of its own: an `await` before the record is counted would let it commit too early."""
    async with AIOKafkaConsumer(
        "visits",
        bootstrap_servers=bootstrap,
        metadata_max_age_ms=5_000,
        group_id="counters",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1_000,
    ) as consumer:
        async for record in consumer:
            counted.append(record.value)


@simulated(seeds=200, faults=["kill", "pause", "stop", "expire", "kill-service", "pause-service"])
async def test_each_visit_is_counted_at_least_once(cluster):
    await cluster.create_topic("visits", partitions=3, replication_factor=3)
    counted, visits = [], {b"visit %d" % number for number in range(VISITS)}
    cluster.start(count, cluster.bootstrap, counted, restarts=True)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for visit in sorted(visits):
            await producer.send_and_wait("visits", visit)
            await asyncio.sleep(0.3)
    await cluster.calm()
    await cluster.wait_until(lambda: set(counted) >= visits, "every visit is counted")
