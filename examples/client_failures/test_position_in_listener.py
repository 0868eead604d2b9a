"""A consumer gets no record any more after its listener has asked for a position while the coordinator ended."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener

from understudy.testing import simulated

SETTINGS = {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 3}


class Positions(ConsumerRebalanceListener):
    """Asks for `position` or `committed` of each partition that is assigned."""

    def __init__(self, ask, assigned):
        self.ask, self.assigned = ask, assigned

    async def on_partitions_revoked(self, revoked):
        pass

    async def on_partitions_assigned(self, assigned):
        self.assigned()
        for partition in assigned:
            await self.ask(partition)


async def billing(bootstrap, assigned, read, asks_for):
    group = {"group_id": "billing", "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, **group) as consumer:
        consumer.subscribe(["orders"], listener=Positions(getattr(consumer, asks_for), assigned))
        async for record in consumer:
            read.append(record.value)


async def kill_the_coordinator_while_the_listener_asks(cluster, asks_for):
    """Return what is read within two minutes after the cluster has healed."""
    await cluster.create_topic("orders", partitions=1)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(10):
            await producer.send_and_wait("orders", b"%d" % number)

    struck = []

    def strike():
        # The coordinator has answered SyncGroup. It stands still before it gets OffsetFetch, and is killed.
        if not struck:
            struck.append(cluster.leader("__consumer_offsets"))
            struck[0].pause()

    service = cluster.start(billing, cluster.bootstrap, strike, read := [], asks_for)
    await cluster.wait_until(lambda: struck, "partitions are assigned")
    await asyncio.sleep(1)
    struck[0].kill()
    await asyncio.sleep(1)
    await struck[0].start()
    await cluster.calm()

    await asyncio.sleep(120)
    service.kill()
    return read


@simulated(seeds=2, faults="none", settings=SETTINGS)
async def test_a_listener_that_asks_for_a_position_waits_without_end(cluster):
    assert await kill_the_coordinator_while_the_listener_asks(cluster, "position") == []


@simulated(seeds=1, faults="none", settings=SETTINGS)
async def test_a_listener_that_asks_for_a_committed_offset_recovers(cluster):
    assert len(await kill_the_coordinator_while_the_listener_asks(cluster, "committed")) == 10
