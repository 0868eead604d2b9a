"""A partitioner of one's own keeps the events of a customer in one partition, and so in order."""

import asyncio
import zlib
from collections import defaultdict

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated

CUSTOMERS = [b"ann", b"bob", b"cleo", b"dan"]
VIP = b"ann"


def vip_partitioner(key, all_partitions, available):
    """Give the important customer partition 0, and share the others among the rest.

    Only `all_partitions` may decide: those that are available change while a broker is down.
    """
    if key == VIP:
        return all_partitions[0]
    return all_partitions[1 + zlib.crc32(key) % (len(all_partitions) - 1)]


async def follow(bootstrap, events):
    async with AIOKafkaConsumer(
        "clicks", bootstrap_servers=bootstrap, metadata_max_age_ms=5_000, auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            events[record.key].append((record.partition, int(record.value)))


@simulated(seeds=200)
async def test_the_clicks_of_a_customer_are_in_one_partition_and_in_order(cluster):
    await cluster.create_topic("clicks", partitions=4, replication_factor=3)
    events = defaultdict(list)
    cluster.start(follow, cluster.bootstrap, events)
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap, enable_idempotence=True, partitioner=vip_partitioner
    ) as producer:
        for number in range(50):
            await asyncio.gather(
                *(producer.send_and_wait("clicks", b"%d" % number, key=customer) for customer in CUSTOMERS)
            )
            await asyncio.sleep(0.5)
    await cluster.calm()
    await cluster.wait_until(lambda: all(len(events[each]) >= 50 for each in CUSTOMERS), "all clicks are read")
    for customer in CUSTOMERS:
        assert list(dict.fromkeys(number for _, number in events[customer])) == list(range(50))
        assert len({partition for partition, _ in events[customer]}) == 1
    assert events[VIP][0][0] == 0
