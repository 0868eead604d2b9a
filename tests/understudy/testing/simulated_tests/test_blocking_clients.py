"""kafka-python, which blocks and has threads, runs in virtual time: a producer and a group across failovers."""

from __future__ import annotations

import time

import pytest

from understudy.testing import simulated

pytest.importorskip("kafka", reason="kafka-python is not installed")
pytest.importorskip("greenlet", reason="greenlet is not installed: kafka-understudy[blocking] has it")

RECORDS = 40


def produce(bootstrap: str) -> int:
    """Send records one after the other, each when the one before is acknowledged."""
    from kafka import KafkaProducer  # noqa: PLC0415  an optional client

    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all")
    for number in range(RECORDS):
        producer.send("orders", b"%d" % number).get(60)
        time.sleep(0.25)
    producer.close()
    return RECORDS


def consume(bootstrap: str, got: set[bytes]) -> None:
    """Read as a member of a group, with the client's own threads for heartbeats and requests."""
    from kafka import KafkaConsumer  # noqa: PLC0415  an optional client

    consumer = KafkaConsumer(
        "orders", bootstrap_servers=bootstrap.split(","), group_id="billing", auto_offset_reset="earliest"
    )
    for record in consumer:
        got.add(record.value)


@simulated(seeds=2, faults=["kill", "pause"], minutes=0.2)
async def test_a_producer_and_a_group_of_kafka_python_survive_failovers(cluster):  # type: ignore[no-untyped-def]  # as users write it
    await cluster.create_topic("orders", partitions=3, replication_factor=3)
    got: set[bytes] = set()
    producer = cluster.start(produce, cluster.bootstrap)
    consumer = cluster.start(consume, cluster.bootstrap, got, restarts=True)
    assert await producer.wait() == RECORDS
    await cluster.calm()
    await cluster.wait_until(lambda: len(got) == RECORDS, "every record was consumed", 120)
    consumer.kill()
