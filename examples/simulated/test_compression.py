"""Each kind of compression gives back what was sent. Kinds other than gzip need `pip install aiokafka[all]`."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated

PAGE = b"the same words again and again " * 50


async def archive(bootstrap, pages):
    async with AIOKafkaConsumer(
        "pages", bootstrap_servers=bootstrap, metadata_max_age_ms=5_000, auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            pages[record.key] = record.value


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
@simulated(seeds=50, minutes=0.5)
async def test_each_page_is_read_as_it_was_sent(cluster, compression):
    await cluster.create_topic("pages", partitions=2, replication_factor=3)
    sent, pages = {}, {}
    cluster.start(archive, cluster.bootstrap, pages)
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap, acks="all", compression_type=compression, linger_ms=20
    ) as producer:
        for number in range(10):
            batch = {b"page %d-%d" % (number, line): PAGE + b"%d" % line for line in range(10)}
            await asyncio.gather(*(producer.send_and_wait("pages", text, key=key) for key, text in batch.items()))
            sent.update(batch)
            await asyncio.sleep(1)
    await cluster.calm()
    await cluster.wait_until(lambda: len(pages) == len(sent), "all pages are read")
    assert pages == sent
