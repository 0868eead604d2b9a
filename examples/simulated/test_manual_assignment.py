"""A reader that keeps its offset beside its results, in one step, counts each record once even if it is killed."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from understudy.testing import simulated

AMOUNTS = range(1, 101)


async def add_up(bootstrap, partition, table):
    """Add amounts to a total; `table` stands for a database, and each assignment to it for a transaction."""
    place = TopicPartition("amounts", partition)
    async with AIOKafkaConsumer(
        bootstrap_servers=bootstrap, metadata_max_age_ms=5_000, auto_offset_reset="none"
    ) as consumer:
        consumer.assign([place])
        total, next_offset = table.get(partition, (0, 0))
        consumer.seek(place, next_offset)
        async for record in consumer:
            total += int(record.value)
            await asyncio.sleep(0.01)
            table[partition] = total, record.offset + 1


@simulated(seeds=200, faults=["kill", "pause", "stop", "depose", "expire", "kill-service", "pause-service"])
async def test_each_amount_is_added_once(cluster):
    await cluster.create_topic("amounts", partitions=2, replication_factor=3)
    table = {}
    for partition in (0, 1):
        cluster.start(add_up, cluster.bootstrap, partition, table, name=f"adder-{partition}", restarts=True)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, enable_idempotence=True) as producer:
        for amount in AMOUNTS:
            await producer.send_and_wait("amounts", b"%d" % amount, partition=amount % 2)
            await asyncio.sleep(0.3)
    await cluster.calm()
    await cluster.wait_until(lambda: sum(at for _, at in table.values()) == len(AMOUNTS), "each amount is read")
    assert sum(total for total, _ in table.values()) == sum(AMOUNTS)
