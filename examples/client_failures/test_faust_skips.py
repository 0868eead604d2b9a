"""A faust application skips the records of a partition without a committed offset when its table has recovered."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer

from understudy.testing import simulated

faust = pytest.importorskip("faust", reason="needs `pip install faust-streaming 'kafka-understudy[blocking]'`")


def count_words(bootstrap, counted):
    app = faust.App(
        "words",
        broker=f"kafka://{bootstrap}",
        store="memory://",
        topic_partitions=1,
        topic_replication_factor=1,
        web_enabled=False,
        broker_session_timeout=10,
        broker_heartbeat_interval=1,
        broker_commit_interval=60,
    )
    counts = app.Table("counts", default=int, partitions=1)

    @app.agent(app.topic("lines", value_type=bytes, value_serializer="raw"))
    async def count(lines):
        async for line in lines:
            word = line.decode()
            counts[word] += 1
            counted[word] = counts[word]

    faust.Worker(app, override_logging=False, redirect_stdouts=False, quiet=True).execute_from_commandline()


@simulated(seeds=2, faults="none", brokers=1)
async def test_records_are_skipped_that_came_before_the_first_commit(cluster):
    """The application is killed after its first record, and before it commits."""
    await cluster.create_topic("lines", replication_factor=1)
    counted = {}
    service = cluster.start(count_words, cluster.bootstrap, counted)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        await producer.send_and_wait("lines", b"apple")
        await cluster.wait_until(lambda: "apple" in counted, "the first line is counted")
        await asyncio.sleep(1)
        service.kill()
        for _ in range(5):
            await producer.send_and_wait("lines", b"pear")
        service.restart()
        await asyncio.sleep(45)
        await producer.send_and_wait("lines", b"plum")
        await cluster.wait_until(lambda: "plum" in counted, "a line is counted that came after the restart")
    assert counted == {"apple": 1, "plum": 1}
