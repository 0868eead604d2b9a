"""A group whose members start, stop and die all the time still reads every record."""

import asyncio
import random

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated

EVENTS = 100


async def read(bootstrap, seen):
    async with AIOKafkaConsumer(
        "events",
        bootstrap_servers=bootstrap,
        metadata_max_age_ms=5_000,
        group_id="readers",
        auto_offset_reset="earliest",
    ) as consumer:
        async for record in consumer:
            seen.append(record.value)


async def change(cluster, seen):
    """Start, stop or kill a member every two seconds. The module random follows from the seed."""
    members = []
    while True:
        running = [member for member in members if member.is_running]
        if len(running) < 2 or (len(running) < 4 and random.random() < 0.5):
            members.append(cluster.start(read, cluster.bootstrap, seen, restarts=True))
        elif random.random() < 0.5:
            await random.choice(running).stop()
        else:
            random.choice(running).kill()
        await asyncio.sleep(2)


@simulated(seeds=200)
async def test_each_event_is_read(cluster):
    await cluster.create_topic("events", partitions=4, replication_factor=3)
    seen, events = [], {b"event %d" % number for number in range(EVENTS)}
    changes = asyncio.create_task(change(cluster, seen))
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for event in sorted(events):
            await producer.send_and_wait("events", event)
            await asyncio.sleep(0.3)
    await cluster.calm()
    changes.cancel()
    await cluster.wait_until(lambda: set(seen) >= events, "every event is read")
