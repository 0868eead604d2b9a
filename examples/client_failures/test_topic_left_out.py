"""A consumer without a group reads nothing for five minutes after one answer to Metadata without its topic."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated


async def read(consumer, seen):
    async for record in consumer:
        seen.append(record.value)


@simulated(seeds=2, faults="none")
async def test_one_answer_without_the_topic_stops_a_consumer_for_five_minutes(cluster):
    await cluster.create_topic("orders", replication_factor=1)
    seen = []
    async with (
        AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer,
        AIOKafkaConsumer(
            "orders", bootstrap_servers=cluster.bootstrap, client_id="reader", auto_offset_reset="earliest"
        ) as consumer,
    ):
        reading = asyncio.create_task(read(consumer, seen))
        await asyncio.sleep(10)
        await producer.send_and_wait("orders", b"first")
        await cluster.wait_until(lambda: seen == [b"first"], "the first order is read")

        # A broker that has just started gives this answer before a new controller has sent it the partition.
        cluster.answer("Metadata", "LEADER_NOT_AVAILABLE", topic="orders", client_id="reader")
        cluster.leader("orders").kill(for_s=10)
        await asyncio.sleep(20)
        await cluster.calm()

        await producer.send_and_wait("orders", b"second")
        await asyncio.sleep(200)
        assert seen == [b"first"]
        assert not reading.done()
        await cluster.wait_until(lambda: len(seen) > 1, "the metadata is five minutes old", timeout_s=120)
        assert seen[1] == b"first", "its positions are lost as well"
        reading.cancel()
        await asyncio.wait([reading])
