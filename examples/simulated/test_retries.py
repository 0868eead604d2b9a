"""A service that calls a flaky program tries again with longer and longer waits, and keeps the order of its records."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated

PAYMENTS = 40


async def bank(paid):
    """A bank that refuses every third connection. It books a payment once, by its number."""
    refused = 0

    async def serve(reader, writer):
        nonlocal refused
        refused += 1
        if refused % 3:
            paid.setdefault((await reader.readline()).strip(), len(paid))
            writer.write(b"OK\n")
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "0.0.0.0", 7000) as server:
        await server.serve_forever()


async def book(payment):
    reader, writer = await asyncio.open_connection("bank", 7000)
    try:
        writer.write(payment + b"\n")
        if await reader.readline() != b"OK\n":
            raise ConnectionError("the bank has closed the connection")
    finally:
        writer.close()


async def pay(bootstrap):
    async with AIOKafkaConsumer(
        "payments",
        bootstrap_servers=bootstrap,
        metadata_max_age_ms=5_000,
        group_id="payers",
        auto_offset_reset="earliest",
    ) as consumer:
        async for record in consumer:
            wait_s = 0.1
            while True:
                try:
                    async with asyncio.timeout(5):
                        await book(record.value)
                    break
                except (OSError, TimeoutError):
                    await asyncio.sleep(wait_s)
                    wait_s = min(2 * wait_s, 5)


@simulated(seeds=200)
async def test_each_payment_is_booked_in_order(cluster):
    await cluster.create_topic("payments", replication_factor=3)
    paid, payments = {}, [b"payment %d" % number for number in range(PAYMENTS)]
    cluster.start(bank, paid)
    cluster.start(pay, cluster.bootstrap, restarts=True)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, enable_idempotence=True) as producer:
        for payment in payments:
            await producer.send_and_wait("payments", payment)
            await asyncio.sleep(0.5)
    await cluster.calm()
    await cluster.wait_until(lambda: len(paid) == PAYMENTS, "every payment is booked")
    assert list(paid) == payments
