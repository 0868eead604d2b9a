"""A FastStream application reads orders and publishes an invoice of each, while brokers fail."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated

faststream = pytest.importorskip("faststream", reason="needs `pip install faststream[kafka]`")
from faststream.kafka import KafkaBroker  # noqa: E402  after the check that it is there

ORDERS = 40


async def invoice(bootstrap):
    """One broker and one subscriber, made in the process that runs them."""
    broker = KafkaBroker(bootstrap.split(","), acks="all", metadata_max_age_ms=5_000)

    @broker.subscriber("orders", group_id="invoicing", auto_offset_reset="earliest")
    @broker.publisher("invoices")
    async def handle(order: str) -> str:
        return f"invoice of {order}"

    await faststream.FastStream(broker).run()


async def post(bootstrap, posted):
    async with AIOKafkaConsumer(
        "invoices", bootstrap_servers=bootstrap, metadata_max_age_ms=5_000, auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            posted.add(record.value.decode())


@simulated(seeds=200, faults=["kill", "pause", "stop", "depose"])
async def test_each_order_has_an_invoice(cluster):
    for topic in ("orders", "invoices"):
        await cluster.create_topic(topic, partitions=2, replication_factor=3)
    posted = set()
    cluster.start(invoice, cluster.bootstrap, restarts=True)
    cluster.start(post, cluster.bootstrap, posted)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for number in range(ORDERS):
            await producer.send_and_wait("orders", b"order %d" % number)
            await asyncio.sleep(0.5)
    await cluster.calm()
    expected = {f"invoice of order {number}" for number in range(ORDERS)}
    await cluster.wait_until(lambda: posted >= expected, "each order has an invoice")
