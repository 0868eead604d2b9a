"""A consumer gets no record of any topic, and never stops, after one of its topics was deleted."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from understudy.testing import simulated


async def billing(bootstrap, read, may_stop, commits_itself):
    """Read orders of two regions, and commit their offsets, or let the client do it."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=not commits_itself,
        metadata_max_age_ms=2_000,
    )
    await consumer.start()
    consumer.subscribe(pattern="^orders-(east|west)$")
    while not may_stop:
        for records in (await consumer.getmany(timeout_ms=500)).values():
            read += [record.topic for record in records]
            if commits_itself:
                await consumer.commit()
    await consumer.stop()


async def send(cluster, topic):
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(5):
            await producer.send_and_wait(topic, b"%d" % number)


async def delete_one_of_two_topics(cluster, *, commits_itself):
    """Return how many records of the other are read after that, and whether the consumer stops within half a minute."""
    for topic in ("orders-east", "orders-west"):
        await cluster.create_topic(topic, partitions=1)
        await send(cluster, topic)
    service = cluster.start(billing, cluster.bootstrap, read := [], may_stop := [], commits_itself)
    await cluster.wait_until(lambda: len(read) == 10, "ten orders are read")
    await asyncio.sleep(1)
    admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await admin.start()
    await admin.delete_topics(["orders-west"])
    await admin.close()
    await asyncio.sleep(10)
    await send(cluster, "orders-east")
    await asyncio.sleep(30)
    may_stop.append(True)
    await asyncio.sleep(30)
    has_stopped = not service.is_running
    if not has_stopped:
        service.kill()
    return len(read) - 10, has_stopped


@simulated(seeds=2, faults="none")
async def test_a_consumer_reads_nothing_after_one_of_its_topics_was_deleted(cluster):
    assert await delete_one_of_two_topics(cluster, commits_itself=False) == (0, False)


@simulated(seeds=1, faults="none")
async def test_a_consumer_without_auto_commit_continues(cluster):
    assert await delete_one_of_two_topics(cluster, commits_itself=True) == (5, True)
