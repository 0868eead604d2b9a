"""Headers and timestamps reach the reader as they were sent, each with its record."""

import asyncio
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated


async def trace(bootstrap, traces):
    async with AIOKafkaConsumer(
        "requests", bootstrap_servers=bootstrap, metadata_max_age_ms=5_000, auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            traces[record.value] = (record.headers, record.timestamp)


@simulated(seeds=100, minutes=0.5)
async def test_each_request_keeps_its_headers(cluster):
    await cluster.create_topic("requests", partitions=2, replication_factor=3)
    # Older timestamps than retention.ms would let the brokers delete the records.
    start_ms = int(time.time() * 1_000)
    sent, traces = {}, {}
    cluster.start(trace, cluster.bootstrap, traces)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for number in range(40):
            # Several headers may have the same key, and they stay in order.
            headers = (("trace-id", b"%032x" % number), ("hop", b"edge"), ("hop", b"gateway"))
            sent[b"request %d" % number] = (headers, start_ms + number)
            await producer.send_and_wait(
                "requests", b"request %d" % number, headers=list(headers), timestamp_ms=start_ms + number
            )
            await asyncio.sleep(0.5)
    await cluster.calm()
    await cluster.wait_until(lambda: len(traces) >= len(sent), "all requests are read")
    assert traces == sent
