"""`stop()` of a consumer does not return if its coordinator has ended just before."""

import asyncio
import contextlib

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated

SETTINGS = {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 3}


async def billing(bootstrap, read, may_stop, *, timeout=None):
    """Read five orders, which are committed automatically five seconds later, and stop when it may."""
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=bootstrap, group_id="billing", auto_offset_reset="earliest")
    await consumer.start()
    for _ in range(5):
        read.append((await consumer.getone()).value)
    while not may_stop:
        await asyncio.sleep(0.01)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(consumer.stop(), timeout)


async def read_five_orders(cluster, **settings):
    """Return the service that has read them, a list that lets it stop, and the coordinator of its group."""
    await cluster.create_topic("orders", partitions=1)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(10):
            await producer.send_and_wait("orders", b"%d" % number)
    service = cluster.start(billing, cluster.bootstrap, read := [], may_stop := [], **settings)
    await cluster.wait_until(lambda: len(read) == 5, "five orders are read")
    return service, may_stop, cluster.leader("__consumer_offsets")


@simulated(seeds=2, faults="none", settings=SETTINGS)
async def test_a_consumer_never_stops_after_its_coordinator_was_killed(cluster):
    service, may_stop, coordinator = await read_five_orders(cluster)
    coordinator.kill(for_s=1)
    may_stop.append(True)
    await cluster.calm()
    await asyncio.sleep(120)
    assert service.is_running
    service.kill()


@simulated(seeds=2, faults="none", settings=SETTINGS)
async def test_a_consumer_never_stops_after_its_coordinator_has_stopped(cluster):
    """As in a rolling restart: the broker ends in an orderly way, and is back a second later."""
    service, may_stop, coordinator = await read_five_orders(cluster)
    await coordinator.stop()
    may_stop.append(True)
    await asyncio.sleep(1)
    await coordinator.start()
    await cluster.calm()
    await asyncio.sleep(120)
    assert service.is_running
    service.kill()


@simulated(seeds=1, faults="none", settings=SETTINGS)
async def test_a_timeout_ends_the_wait(cluster):
    service, may_stop, coordinator = await read_five_orders(cluster, timeout=10)
    coordinator.kill(for_s=1)
    may_stop.append(True)
    await cluster.wait_until(lambda: not service.is_running, "the service has ended")
