"""Members with the sticky assignor share all partitions, also after one of them has died."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from understudy.testing import simulated

LETTERS = 80


async def deliver(bootstrap, delivered):
    async with AIOKafkaConsumer(
        "letters",
        bootstrap_servers=bootstrap,
        metadata_max_age_ms=5_000,
        group_id="postmen",
        auto_offset_reset="earliest",
        partition_assignment_strategy=[StickyPartitionAssignor],
    ) as consumer:
        async for record in consumer:
            delivered.append(record.value)


@simulated(seeds=200)
async def test_each_letter_is_delivered_although_a_postman_dies(cluster):
    await cluster.create_topic("letters", partitions=6, replication_factor=3)
    delivered, letters = [], {b"letter %d" % number for number in range(LETTERS)}
    postmen = [cluster.start(deliver, cluster.bootstrap, delivered, name=f"postman-{number}") for number in range(3)]
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for letter in sorted(letters):
            await producer.send_and_wait("letters", letter)
            await asyncio.sleep(0.3)
            if len(delivered) > LETTERS // 2 and postmen[0].is_running:
                postmen[0].kill()
    await cluster.calm()
    await cluster.wait_until(lambda: set(delivered) >= letters, "every letter is delivered")
