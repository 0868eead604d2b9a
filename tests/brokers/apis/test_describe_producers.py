"""Tests of DescribeProducers: the producers that a log remembers, and the errors."""

from __future__ import annotations

import asyncio

import pytest

from tests.brokers.harness import BrokerHarness
from tests.brokers.log.parts import NOW_MS, batch, open_log
from tests.brokers.parts import ME, OTHER, apply_leader_and_isr, leader_and_isr, state
from understudy.brokers.apis import describe_producers
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)


def answer(topic: str = "orders", partition: int = 0) -> PartitionResponse:
    """The answer of a broker that leads `orders-0` and follows `orders-1`; the logs of both have two producers."""

    async def scenario() -> PartitionResponse:
        opened = open_log()
        for data in (
            batch(b"a", b"b", offset=0, producer_id=9, producer_epoch=2, base_sequence=5),
            batch(b"c", offset=2, producer_id=4, producer_epoch=0, base_sequence=0, is_transactional=True),
            batch(b"d", offset=3),
        ):
            opened.append_as_follower(data, now_ms=NOW_MS)
        harness = BrokerHarness(log=opened)
        states = (state(0, leader_epoch=5), state(1, leader=OTHER, leader_epoch=5))
        apply_leader_and_isr(harness.replicas, leader_and_isr(*states))
        harness.update_metadata({"orders": {0: ME, 1: OTHER, 2: OTHER}})
        request = DescribeProducersRequest(topics=(TopicRequest(name=topic, partition_indexes=(partition,)),))
        response = await describe_producers.handle(harness.services, request, harness.context(0))
        (found,) = response.topics
        assert found.name == topic
        return found.partitions[0]

    return asyncio.run(scenario())


@pytest.mark.parametrize("partition", [0, 1], ids=["leader", "follower"])
def test_every_replica_answers_with_the_producers_of_its_log(partition: int) -> None:
    found = answer(partition=partition)
    assert (found.partition_index, found.error_code, found.error_message) == (partition, Errors.NONE, None)
    assert found.active_producers == (
        ProducerState(
            producer_id=4,
            producer_epoch=0,
            last_sequence=0,
            last_timestamp=NOW_MS,
            coordinator_epoch=-1,
            current_txn_start_offset=2,
        ),
        ProducerState(
            producer_id=9,
            producer_epoch=2,
            last_sequence=6,
            last_timestamp=NOW_MS + 1,
            coordinator_epoch=-1,
            current_txn_start_offset=-1,
        ),
    )


@pytest.mark.parametrize(
    ("topic", "partition", "code"),
    [
        ("orders", 2, Errors.NOT_LEADER_OR_FOLLOWER),
        ("orders", 7, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        ("nowhere", 0, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        ("no/name", 0, Errors.INVALID_TOPIC_EXCEPTION),
        ("", 0, Errors.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_partitions_without_a_replica_here_are_errors(topic: str, partition: int, code: Errors) -> None:
    found = answer(topic, partition)
    assert (found.partition_index, Errors(found.error_code), found.active_producers) == (partition, code, ())
