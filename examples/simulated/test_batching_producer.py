"""A producer that collects records for 50 ms sends few batches, and gets the offset or error of each record."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated

READINGS = 1_000


async def store(bootstrap, stored):
    async with AIOKafkaConsumer(
        "readings", bootstrap_servers=bootstrap, metadata_max_age_ms=5_000, auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            stored.add((record.partition, record.offset, record.value))


@simulated(seeds=200, minutes=0.5)
async def test_each_reading_has_the_offset_of_its_acknowledgement(cluster):
    await cluster.create_topic("readings", partitions=6, replication_factor=3)
    stored, sent = set(), []
    cluster.start(store, cluster.bootstrap, stored)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all", linger_ms=50) as producer:
        for number in range(READINGS):
            reading = b"%d degrees" % number
            sent.append((reading, await producer.send("readings", reading)))
            if number % 100 == 99:
                await asyncio.sleep(2)
        acknowledged = await asyncio.gather(*(future for _, future in sent))
    await cluster.calm()
    expected = {
        (place.partition, place.offset, reading) for (reading, _), place in zip(sent, acknowledged, strict=True)
    }
    await cluster.wait_until(lambda: stored >= expected, "each reading is read at its offset")
