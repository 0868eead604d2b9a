"""A service that calls a webhook delivers each event at least once; the webhook is a fake in the same network."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated

EVENTS = 40


async def webhook(received):
    """A server of HTTP that notes the bodies of POST, and fails now and then with 503."""
    requests = 0

    async def serve(reader, writer):
        nonlocal requests
        requests += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].split()[0])
            body = await reader.readexactly(length)
            if requests % 4:
                received.append(body)
            status = b"204 No Content" if requests % 4 else b"503 Service Unavailable"
            writer.write(b"HTTP/1.1 %b\r\nConnection: close\r\n\r\n" % status)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the sender was killed, or its connection was reset
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "0.0.0.0", 80) as server:
        await server.serve_forever()


async def post(body):
    """Return the status of an answer to POST."""
    reader, writer = await asyncio.open_connection("webhook", 80)
    try:
        writer.write(b"POST / HTTP/1.1\r\nHost: webhook\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        return int((await reader.readline()).split()[1])
    finally:
        writer.close()


async def notify(bootstrap):
    async with AIOKafkaConsumer(
        "events",
        bootstrap_servers=bootstrap,
        metadata_max_age_ms=5_000,
        group_id="notifiers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        async for record in consumer:
            async with asyncio.timeout(20):
                while await post(record.value) != 204:
                    await asyncio.sleep(1)
            await consumer.commit()


@simulated(
    seeds=200,
    faults=["kill", "pause", "stop", "kill-service", "delay-service", "isolate-service", "reset-service"],
)
async def test_each_event_reaches_the_webhook(cluster):
    await cluster.create_topic("events", partitions=2, replication_factor=3)
    received, events = [], {b"event %d" % number for number in range(EVENTS)}
    cluster.start(webhook, received)
    cluster.start(notify, cluster.bootstrap, restarts=True)
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap,
        acks="all",
        request_timeout_ms=120_000,  # a partition is without a leader for longer than the default of 40 s in some seeds
    )
    async with producer:
        for event in sorted(events):
            await producer.send_and_wait("events", event)
            await asyncio.sleep(0.5)
    await cluster.calm()
    await cluster.wait_until(lambda: set(received) >= events, "every event has reached the webhook")
