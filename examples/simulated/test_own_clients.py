"""Understudy's own producer and group consumer, as a service that needs no other client uses them."""

import asyncio
import random

from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.batching_producer import BatchingProducer, ProducerSettings
from understudy.clusters.clients.group_consumer import ConsumerSettings, GroupConsumer
from understudy.clusters.clients.group_member import MemberSettings
from understudy.testing import simulated

ORDERS = 60


async def bill(bootstrap, billed):
    settings = ConsumerSettings(
        bootstrap=tuple(bootstrap.split(",")),
        client_id="billing",
        member=MemberSettings(group_id="billing", topics=("orders",), assignors=("cooperative-sticky",)),
        resets_to_earliest=True,
    )
    consumer = GroupConsumer(SocketNetwork(), MachineClock(), settings)
    while True:
        billed.extend(consumed.record.value for consumed in await consumer.poll(500))


@simulated(seeds=200, faults=["kill", "pause", "stop", "depose", "expire", "kill-service"])
async def test_each_order_is_billed(cluster):
    await cluster.create_topic("orders", partitions=3, replication_factor=3)
    billed, orders = [], {b"order %d" % number for number in range(ORDERS)}
    for name in ("billing-1", "billing-2"):
        cluster.start(bill, cluster.bootstrap, billed, name=name, restarts=True)
    settings = ProducerSettings(bootstrap=cluster.bootstrap.split(","), client_id="shop")
    producer = BatchingProducer(SocketNetwork(), MachineClock(), "orders", settings, random.Random())
    for order in sorted(orders):
        await producer.send(None, order)
        await asyncio.sleep(0.4)
    await producer.flush()
    await cluster.calm()
    await cluster.wait_until(lambda: set(billed) >= orders, "every order is billed")
    await producer.abort()
