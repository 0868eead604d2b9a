"""A report that is asked for again seeks back to a time, and reads the same records."""

import asyncio
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from understudy.testing import simulated

SALES = 60
PLACE = TopicPartition("sales", 0)


async def report(consumer, since_ms):
    """Return the values of all records from a time on."""
    found = await consumer.offsets_for_times({PLACE: since_ms})
    end = (await consumer.end_offsets([PLACE]))[PLACE]
    consumer.seek(PLACE, end if found[PLACE] is None else found[PLACE].offset)
    values = []
    while await consumer.position(PLACE) < end:
        values.append((await consumer.getone()).value)
    return values


@simulated(seeds=200)
async def test_a_report_is_the_same_when_it_is_made_again(cluster):
    await cluster.create_topic("sales", replication_factor=3)
    # Older timestamps than retention.ms would let the brokers delete the records.
    start_ms = int(time.time() * 1_000)
    sales = [b"sale %d" % number for number in range(SALES)]
    async with (
        AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, enable_idempotence=True) as producer,
        AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap, metadata_max_age_ms=5_000, auto_offset_reset="earliest"
        ) as consumer,
    ):
        consumer.assign([PLACE])
        for number, sale in enumerate(sales):
            await producer.send_and_wait("sales", sale, timestamp_ms=start_ms + 1_000 * number)
            await asyncio.sleep(0.5)
            if number % 20 == 19:
                assert await report(consumer, start_ms + 5_000) == sales[5 : number + 1]
        await cluster.calm()
        assert await report(consumer, start_ms + 5_000) == sales[5:]
        assert await report(consumer, start_ms + 1_000 * SALES) == []
