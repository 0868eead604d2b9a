"""An outbox: a service writes an order and its event in one transaction, and a relay sends the events in order."""

import asyncio
import json

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated

ORDERS = 40


async def database(tables):
    """A database over a socket, in one process. `tables` stands for its disk, which outlives a kill."""

    async def serve(reader, writer):
        while line := await reader.readline():
            match json.loads(line):
                case ["insert", order]:  # one transaction for both tables
                    if order not in tables["orders"]:
                        tables["orders"].append(order)
                        tables["outbox"].append(order)
                    answer = "ok"
                case ["first"]:
                    answer = tables["outbox"][0] if tables["outbox"] else None
                case ["delete", order]:
                    answer = "ok"
                    if order in tables["outbox"]:
                        tables["outbox"].remove(order)
            writer.write(json.dumps(answer).encode() + b"\n")
        writer.close()

    async with await asyncio.start_server(serve, "0.0.0.0", 5432) as server:
        await server.serve_forever()


async def query(*statement):
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection("database", 5432)
        writer.write(json.dumps(statement).encode() + b"\n")
        answer = await reader.readline()
        writer.close()
    if not answer:
        raise ConnectionError("the database has closed the connection")
    return json.loads(answer)


async def relay(bootstrap):
    """Send the first event, and delete it when it is written: at least once, and in order."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    async with asyncio.timeout(30):  # a client that has started without brokers finds none
        await producer.start()
    try:
        while True:
            if (order := await query("first")) is None:
                await asyncio.sleep(0.2)
                continue
            await producer.send_and_wait("orders", order.encode())
            await query("delete", order)
    finally:
        await producer.stop()


async def sell():
    for number in range(ORDERS):
        while True:
            try:
                await query("insert", f"order {number}")
                break
            except (OSError, TimeoutError):
                await asyncio.sleep(0.5)
        await asyncio.sleep(0.5)


async def bill(bootstrap, billed):
    async with AIOKafkaConsumer(
        "orders", bootstrap_servers=bootstrap, metadata_max_age_ms=5_000, auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            billed.setdefault(record.value.decode(), record.offset)


@simulated(seeds=200, faults=["kill", "pause", "stop", "kill-service", "pause-service", "isolate-service"])
async def test_each_order_of_the_database_is_billed_in_order(cluster):
    await cluster.create_topic("orders", replication_factor=3)
    tables, billed = {"orders": [], "outbox": []}, {}
    cluster.start(database, tables)
    cluster.start(relay, cluster.bootstrap, restarts=True)
    cluster.start(bill, cluster.bootstrap, billed, restarts=True)
    await sell()
    await cluster.calm()
    await cluster.wait_until(lambda: len(billed) == ORDERS, "every order is billed")
    assert list(billed) == tables["orders"] == [f"order {number}" for number in range(ORDERS)]
