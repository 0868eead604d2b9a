"""An idempotent producer writes each record once and in order, even if it has to send it several times."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from understudy.testing import simulated

PAYMENTS = 200


async def everything(bootstrap, topic):
    """Return the values in partition 0 of a topic."""
    partition, values = TopicPartition(topic, 0), []
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, metadata_max_age_ms=5_000) as consumer:
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            values.append((await consumer.getone()).value)
    return values


@simulated(seeds=200)
async def test_each_payment_is_written_once_and_in_order(cluster):
    await cluster.create_topic("payments", replication_factor=3)
    payments = [b"payment %d" % number for number in range(PAYMENTS)]
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, enable_idempotence=True) as producer:
        for payment in payments:
            await producer.send("payments", payment)  # waits for room in the buffer, not for the broker
            await asyncio.sleep(0.1)
        await producer.flush()
    await cluster.calm()
    assert await everything(cluster.bootstrap, "payments") == payments
