"""`cluster.history` with the bytes of aiokafka: it shows what the client has returned to its user."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from understudy.testing import simulated
from understudy.testing.simulated_tests.cluster import SimulatedTestCluster
from understudy.testing.simulated_tests.history.wire_records import NO_ANSWER

RECORDS = 30


@simulated(seeds=1, faults=(), minutes=0.2)
async def test_what_aiokafka_has_returned_is_in_the_history(cluster: SimulatedTestCluster) -> None:
    """A broker is killed under the producer; the member of a group commits after each poll."""
    await cluster.create_topic("orders", 2)
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap,
        client_id="billing",
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap, client_id="shop", enable_idempotence=True, compression_type="gzip"
    )
    history = cluster.history
    acknowledged: set[tuple[int, int, bytes]] = set()
    given: list[tuple[int, int, bytes]] = []
    async with producer:
        for number in range(RECORDS):
            if number == RECORDS // 2:
                cluster.leader("orders").kill(for_s=5)
            value = b"%d" % number
            sent = await producer.send_and_wait("orders", value, partition=number % 2)
            acknowledged.add((sent.partition, sent.offset, value))
    await cluster.calm()
    async with consumer:
        while len(given) < RECORDS:
            for partition, records in (await consumer.getmany(timeout_ms=500)).items():
                for record in records:
                    given.append((record.partition, record.offset, record.value))
                    history.processed(record.topic, record.partition, record.offset)
                await consumer.commit({partition: records[-1].offset + 1})

    assert history.unreadable == []
    assert {(each.partition, each.offset, each.value) for each in history.acknowledged} == acknowledged
    assert {each.client.client_id for each in history.sent} == {"shop"}
    assert {(each.partition, each.offset, each.value) for each in history.delivered} == set(given)
    assert {(each.client.client_id, each.group) for each in history.delivered} == {("billing", "billing")}
    assert {(each.partition, each.offset) for each in history.marked} == {each[:2] for each in given}
    assert {(each.partition, each.offset) for each in history.committed} >= {(0, RECORDS // 2), (1, RECORDS // 2)}
    history.assert_nothing_lost("orders", "billing")
    history.assert_once("orders", "billing")
    history.assert_in_order("orders")
    history.assert_committed_is_processed("billing")


async def sends_each_second(bootstrap: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            await producer.send_and_wait("orders", b"%d" % number)
            await asyncio.sleep(1)


@simulated(seeds=1, faults=(), minutes=0.2)
async def test_a_request_without_an_answer_ends_when_its_process_is_killed(cluster: SimulatedTestCluster) -> None:
    await cluster.create_topic("orders", 1)
    service = cluster.start(sends_each_second, cluster.bootstrap)
    await cluster.wait_until(lambda: cluster.history.acknowledged, "the first record is acknowledged")
    cluster.leader("orders").pause()
    await cluster.wait_until(lambda: len(cluster.history.sent) == 2, "the second record is sent")
    await asyncio.sleep(2)
    service.kill()
    killed_ms = cluster.simulated.now_ms
    sent = cluster.history.sent[-1]
    assert (sent.error, sent.ended_ms) == (NO_ANSWER, killed_ms)
