"""Two consumers with one `group_instance_id` take the place in the group from each other, and read the same records."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from understudy.testing import simulated


async def billing(bootstrap, billed):
    group = {"group_id": "billing", "group_instance_id": "billing-0", "auto_offset_reset": "earliest"}
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=bootstrap, **group)
    await consumer.start()
    try:
        async for order in consumer:
            billed.append(int(order.value))
    except KafkaError as error:
        # In the end one of the two is refused with FENCED_INSTANCE_ID, a code that the client has no name for.
        billed.append(repr(error))
        await asyncio.sleep(1_000)


@simulated(seeds=2, faults="none")
async def test_a_static_member_that_was_replaced_takes_its_place_back(cluster):
    """An orchestrator starts the second one because the first stands still; then the first continues."""
    await cluster.create_topic("orders", partitions=1)
    first = cluster.start(billing, cluster.bootstrap, billed := [], name="first")
    await asyncio.sleep(10)
    first.pause()
    second = cluster.start(billing, cluster.bootstrap, again := [], name="second")
    await asyncio.sleep(10)
    first.resume()
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(100):
            await producer.send_and_wait("orders", b"%d" % number)
            await asyncio.sleep(0.2)
    await asyncio.sleep(10)
    assert len(set(billed) & set(again)) > 10
    first.kill()
    second.kill()
