"""A worker that takes longer than max.poll.interval.ms loses its partitions, and its record is processed again."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import CommitFailedError

from understudy.testing import simulated

FILMS = 20


async def cut(bootstrap, cuts, refused):
    """Cut films. The third one of the first worker takes half a minute."""
    async with AIOKafkaConsumer(
        "films",
        bootstrap_servers=bootstrap,
        metadata_max_age_ms=5_000,
        group_id="cutters",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_interval_ms=10_000,
    ) as consumer:
        async for record in consumer:
            await asyncio.sleep(30 if record.value == b"film 2" and not refused else 0.1)
            try:
                await consumer.commit({TopicPartition("films", record.partition): record.offset + 1})
                cuts.append(record.value)
            except CommitFailedError:
                refused.append(record.value)


@simulated(seeds=200)
async def test_each_film_is_cut_and_no_late_commit_counts(cluster):
    await cluster.create_topic("films", partitions=2, replication_factor=3)
    cuts, refused = [], []
    for name in ("cutter-1", "cutter-2"):
        cluster.start(cut, cluster.bootstrap, cuts, refused, name=name, restarts=True)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for number in range(FILMS):
            await producer.send_and_wait("films", b"film %d" % number)
            await asyncio.sleep(1)
    await cluster.calm()
    await cluster.wait_until(lambda: len(set(cuts)) == FILMS, "every film is cut")
