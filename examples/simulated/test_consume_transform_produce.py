"""A service that reads a topic and writes another loses nothing, because it commits after its result is written."""

import asyncio
import contextlib

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import CommitFailedError

from understudy.testing import simulated

TEXTS = 60


async def shout(bootstrap):
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer,
        AIOKafkaConsumer(
            "texts",
            bootstrap_servers=bootstrap,
            metadata_max_age_ms=5_000,
            group_id="shouters",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        async for record in consumer:
            await producer.send_and_wait("shouts", record.value.upper(), key=record.key)
            # If it is refused, the group has rebalanced: the text is shouted again.
            with contextlib.suppress(CommitFailedError):
                await consumer.commit({TopicPartition("texts", record.partition): record.offset + 1})


async def read_shouts(bootstrap, shouts):
    async with AIOKafkaConsumer(
        "shouts", bootstrap_servers=bootstrap, metadata_max_age_ms=5_000, auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            shouts.setdefault(record.value, record.key)


@simulated(seeds=200, faults=["kill", "pause", "stop", "depose", "kill-service", "pause-service"])
async def test_each_text_is_shouted_at_least_once(cluster):
    for topic in ("texts", "shouts"):
        await cluster.create_topic(topic, partitions=3, replication_factor=3)
    shouts, expected = {}, {}
    for name in ("shouter-1", "shouter-2"):
        cluster.start(shout, cluster.bootstrap, name=name, restarts=True)
    cluster.start(read_shouts, cluster.bootstrap, shouts, restarts=True)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for number in range(TEXTS):
            await producer.send_and_wait("texts", b"text %d" % number, key=b"%d" % (number % 7))
            expected[b"TEXT %d" % number] = b"%d" % (number % 7)
            await asyncio.sleep(0.4)
    await cluster.calm()
    await cluster.wait_until(lambda: len(shouts) == TEXTS, "every text is shouted")
    assert shouts == expected
