"""A caller that sends a request over a topic gets the reply with its own number, or sends the request again."""

import asyncio
import uuid

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated


async def squares(bootstrap):
    """Answer each request on the topic of replies, with the caller's number in a header."""
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer,
        AIOKafkaConsumer(
            "requests",
            bootstrap_servers=bootstrap,
            metadata_max_age_ms=5_000,
            group_id="squares",
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        async for record in consumer:
            reply = b"%d" % int(record.value) ** 2
            await producer.send_and_wait("replies", reply, headers=list(record.headers))


async def take_replies(consumer, waiting):
    async for record in consumer:
        future = waiting.pop(dict(record.headers)["request-id"], None)
        if future is not None and not future.done():  # a call that has timed out may have a late reply
            future.set_result(int(record.value))


async def call(producer, waiting, number):
    for _ in range(10):
        request_id = uuid.uuid4().bytes
        reply = waiting[request_id] = asyncio.get_running_loop().create_future()
        await producer.send_and_wait("requests", b"%d" % number, headers=[("request-id", request_id)])
        try:
            async with asyncio.timeout(15):
                return await reply
        except TimeoutError:
            continue
    raise TimeoutError(f"no reply to {number}")


@simulated(seeds=200, faults=["kill", "pause", "stop", "expire", "kill-service"])
async def test_each_request_gets_its_own_reply(cluster):
    for topic in ("requests", "replies"):
        await cluster.create_topic(topic, partitions=2, replication_factor=3)
    cluster.start(squares, cluster.bootstrap, restarts=True)
    waiting = {}
    async with (
        AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer,
        AIOKafkaConsumer(
            "replies", bootstrap_servers=cluster.bootstrap, metadata_max_age_ms=5_000, auto_offset_reset="earliest"
        ) as consumer,
    ):
        replies = asyncio.create_task(take_replies(consumer, waiting))
        for number in range(0, 40, 4):
            calls = (call(producer, waiting, number + each) for each in range(4))
            assert await asyncio.gather(*calls) == [(number + each) ** 2 for each in range(4)]
            await asyncio.sleep(3)
        await cluster.calm()  # the consumer's stop() raises CancelledError while a leader is down
        replies.cancel()
