"""A service that keeps counts in memory restores them from a compacted topic after it was killed."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from understudy.testing import simulated

WORDS = [b"to", b"be", b"or", b"not", b"to", b"be"] * 12
INPUT, CHANGELOG = TopicPartition("words", 0), TopicPartition("counts", 0)


async def restore(consumer):
    """Return the counts, and the offset of the next word, from the changelog."""
    counts, next_offset = {}, 0
    consumer.assign([CHANGELOG])
    await consumer.seek_to_beginning(CHANGELOG)
    end = (await consumer.end_offsets([CHANGELOG]))[CHANGELOG]
    while await consumer.position(CHANGELOG) < end:
        record = await consumer.getone()
        count, after = map(int, record.value.split())
        counts[record.key], next_offset = count, max(next_offset, after)
    return counts, next_offset


async def count(bootstrap):
    """Count words: one record of the changelog has the new count and the offset after its word."""
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer,
        AIOKafkaConsumer(bootstrap_servers=bootstrap, metadata_max_age_ms=5_000) as consumer,
    ):
        counts, next_offset = await restore(consumer)
        consumer.assign([INPUT])
        consumer.seek(INPUT, next_offset)
        async for record in consumer:
            counts[record.value] = counts.get(record.value, 0) + 1
            change = b"%d %d" % (counts[record.value], record.offset + 1)
            await producer.send_and_wait("counts", change, key=record.value)


@simulated(seeds=200, faults=["kill", "pause", "stop", "depose", "kill-service"])
async def test_each_word_is_counted_once(cluster):
    await cluster.create_topic("words", replication_factor=3)
    await cluster.create_topic("counts", replication_factor=3, configs={"cleanup.policy": "compact"})
    cluster.start(count, cluster.bootstrap, restarts=True)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, enable_idempotence=True) as producer:
        for word in WORDS:
            await producer.send_and_wait("words", word)
            await asyncio.sleep(0.3)
    await cluster.calm()
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, metadata_max_age_ms=5_000) as consumer:
        async with asyncio.timeout(60):
            while (await restore(consumer))[1] < len(WORDS):
                await asyncio.sleep(1)
        assert (await restore(consumer))[0] == {word: WORDS.count(word) for word in WORDS}
