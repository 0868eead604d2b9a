"""A faust application counts words in a table with a changelog, while it is paused and its links are slow."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer

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


@simulated(seeds=100, faults=["pause-service", "delay-service"])
async def test_each_word_is_counted(cluster):
    await cluster.create_topic("lines", partitions=2, replication_factor=3)
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
