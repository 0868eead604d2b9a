"""A faust application counts words in a table with a changelog, while it is killed, paused and its links are slow."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from understudy.testing import simulated

faust = pytest.importorskip("faust", reason="needs `pip install faust-streaming 'kafka-understudy[blocking]'`")

WORDS = ("apple", "pear", "plum")
LINES = 40


def count_words(bootstrap, counted):
    """The main function of `faust worker`; faust runs its consumer in a thread with a loop of its own."""
    app = faust.App(
        "words",
        broker=[f"kafka://{address}" for address in bootstrap.split(",")],
        store="memory://",
        topic_partitions=2,
        topic_replication_factor=3,
        broker_session_timeout=10,
        broker_heartbeat_interval=1,
        web_enabled=False,
    )
    counts = app.Table("counts", default=int, partitions=2)

    @app.agent(app.topic("lines", value_type=bytes, value_serializer="raw"))
    async def count(lines):
        async for line in lines:
            word = line.decode()
            counts[word] += 1
            counted[word] = counts[word]

    faust.Worker(app, override_logging=False, redirect_stdouts=False, quiet=True).execute_from_commandline()


async def commit_behind_a_first_record(bootstrap):
    """Let the group have an offset of each partition: faust may skip records of a partition without one.

    See docs/reference/client-failures.md.
    """
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        sent = [await producer.send_and_wait("lines", b"", partition=partition) for partition in range(2)]
    settings = {"group_id": "words", "enable_auto_commit": False}
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, **settings) as consumer:
        consumer.assign([TopicPartition("lines", partition) for partition in range(2)])
        await consumer.commit({TopicPartition(each.topic, each.partition): each.offset + 1 for each in sent})


@simulated(seeds=100, faults=["kill-service", "pause-service", "delay-service"])
async def test_each_word_is_counted(cluster):
    await cluster.create_topic("lines", partitions=2, replication_factor=3)
    await commit_behind_a_first_record(cluster.bootstrap)
    counted = {}
    cluster.start(count_words, cluster.bootstrap, counted, restarts=True)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for number in range(LINES):
            word = WORDS[number % len(WORDS)].encode()
            await producer.send_and_wait("lines", word, key=word)
            await asyncio.sleep(1)
    await cluster.calm()
    sent = {word: len(range(place, LINES, len(WORDS))) for place, word in enumerate(WORDS)}
    # A record whose offset was not committed before a rebalance is counted twice.
    await cluster.wait_until(
        lambda: all(counted.get(word, 0) >= number for word, number in sent.items()),
        "each word is counted",
        timeout_s=300,
    )
