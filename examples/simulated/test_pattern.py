"""A consumer of a pattern also reads topics that are created after it has started."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated

SHOPS = ["berlin", "lima", "oslo"]


async def watch(bootstrap, seen):
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id="watchers",
        auto_offset_reset="earliest",
        metadata_max_age_ms=5_000,  # new topics are found when the metadata is read again, after 5 minutes by default
    )
    consumer.subscribe(pattern="^shop-.*$")
    async with consumer:
        async for record in consumer:
            seen.add((record.topic, record.value))


@simulated(seeds=200)
async def test_each_new_shop_is_watched(cluster):
    seen, sent = set(), set()
    # aiokafka ends with an AssertionError if the topics change while it looks up the coordinator of its group.
    cluster.start(watch, cluster.bootstrap, seen, restarts=True)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for shop in SHOPS:
            await cluster.create_topic(f"shop-{shop}", partitions=2, replication_factor=3)
            for number in range(20):
                await producer.send_and_wait(f"shop-{shop}", b"%d" % number)
                sent.add((f"shop-{shop}", b"%d" % number))
                await asyncio.sleep(0.5)
    await cluster.calm()
    await cluster.wait_until(lambda: seen == sent, "every visit of every shop is seen")
