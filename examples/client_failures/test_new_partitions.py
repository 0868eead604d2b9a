"""A consumer without a group loses its positions when a partition is added to its topic."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from understudy.testing import simulated

TICKS = TopicPartition("ticks", 0)


async def read_five_and_add_a_partition(cluster, reset, *, assigns=False):
    """Return the numbers that are read before and after a partition is added. Ten were sent; no broker fails."""
    await cluster.create_topic("ticks", partitions=1)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(10):
            await producer.send_and_wait("ticks", b"%d" % number)
    settings = {"auto_offset_reset": reset, "metadata_max_age_ms": 2_000}
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, **settings) as consumer:
        if assigns:
            consumer.assign([TICKS])
        else:
            consumer.subscribe(["ticks"])
            await asyncio.sleep(1)
        await consumer.seek_to_beginning(TICKS)
        before = [int((await consumer.getone()).value) for _ in range(5)]
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await admin.start()
        await admin.create_partitions({"ticks": NewPartitions(2)})
        await admin.close()
        await asyncio.sleep(10)
        after = [
            int(record.value)
            for _ in range(20)
            for records in (await consumer.getmany(timeout_ms=500)).values()
            for record in records
        ]
    return before, after


@simulated(seeds=2, faults="none")
async def test_a_new_partition_makes_a_consumer_skip_records_of_the_old(cluster):
    before, after = await read_five_and_add_a_partition(cluster, "latest")
    assert before == [0, 1, 2, 3, 4]
    assert after == []


@simulated(seeds=2, faults="none")
async def test_a_new_partition_makes_a_consumer_read_the_old_again(cluster):
    before, after = await read_five_and_add_a_partition(cluster, "earliest")
    assert before == [0, 1, 2, 3, 4]
    assert after == list(range(10))


@simulated(seeds=1, faults="none")
async def test_a_new_partition_does_not_affect_a_manual_assignment(cluster):
    before, after = await read_five_and_add_a_partition(cluster, "latest", assigns=True)
    assert before + after == list(range(10))
