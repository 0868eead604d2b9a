"""Tests of DeleteRecords: the leader's log begins later, and the answer waits for the live replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.brokers.harness import BrokerHarness
from tests.brokers.log.parts import log_with
from tests.brokers.parts import ME, ORDERS_0, OTHER, THIRD, apply_leader_and_isr, leader_and_isr, state
from understudy.brokers.apis import delete_records
from understudy.brokers.replication.delayed_operations import DelayedOperationPurgatory
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)


def request(
    offset: int, *, topic: str = "orders", partition: int = 0, timeout_ms: int = 60_000
) -> DeleteRecordsRequest:
    asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
    return DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=(asked,)),), timeout_ms=timeout_ms)


async def answer(harness: BrokerHarness, asked: DeleteRecordsRequest) -> DeleteRecordsPartitionResult:
    response = await delete_records.handle(harness.services, asked, harness.context(2))
    ((found,),) = (topic.partitions for topic in response.topics)
    return found


def leader() -> BrokerHarness:
    """Broker 1 as leader of `orders-0` with offsets 0 to 9; the high watermark is 8."""
    harness = BrokerHarness(log=log_with(log_end_offset=10, high_watermark=8))
    harness.become_leader("orders", 0)
    return harness


def follower_fetches(harness: BrokerHarness, follower: int, log_start_offset: int) -> None:
    partition = harness.replicas.partitions[ORDERS_0]
    harness.services.isr.follower_fetched(partition, follower, 8, leader_epoch=5, log_start_offset=log_start_offset)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def within_seconds() -> None:
        async with asyncio.timeout(5):
            await scenario()

    asyncio.run(within_seconds())


async def next_steps() -> None:
    """Let every task that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("offset", "start"), [(3, 3), (8, 8), (-1, 8)])
def test_the_answer_waits_until_all_live_replicas_begin_there(offset: int, start: int) -> None:
    async def scenario() -> None:
        harness = leader()
        for follower in (OTHER, THIRD):
            follower_fetches(harness, follower, 0)
        waiting = asyncio.create_task(answer(harness, request(offset)))
        await next_steps()
        assert harness.replicas.partitions[ORDERS_0].log.log_start_offset == start
        follower_fetches(harness, OTHER, start)
        await next_steps()
        assert not waiting.done(), "a follower begins at 0"
        follower_fetches(harness, THIRD, start)
        assert await waiting == DeleteRecordsPartitionResult(partition_index=0, low_watermark=start)
        assert harness.replicas.delayed_deletes.watched == 0

    run(scenario)


def test_what_all_replicas_have_deleted_is_answered_at_once() -> None:
    async def scenario() -> None:
        harness = leader()
        for follower in (OTHER, THIRD):
            follower_fetches(harness, follower, 4)
        assert await answer(harness, request(4)) == DeleteRecordsPartitionResult(low_watermark=4)
        assert await answer(harness, request(2)) == DeleteRecordsPartitionResult(low_watermark=4)

    run(scenario)


@pytest.mark.parametrize("timeout_ms", [-5, 0, 1])
def test_a_replica_that_does_not_follow_in_time_ends_the_wait(timeout_ms: int) -> None:
    async def scenario() -> None:
        harness = leader()
        for follower, start in ((OTHER, 4), (THIRD, 1)):
            follower_fetches(harness, follower, start)
        found = await answer(harness, request(4, timeout_ms=timeout_ms))
        assert (found.error_code, found.low_watermark) == (Errors.REQUEST_TIMED_OUT, 1)
        assert harness.replicas.delayed_deletes.watched == 0

    run(scenario)


def test_the_loss_of_leadership_ends_the_wait() -> None:
    async def scenario() -> None:
        harness = leader()
        waiting = asyncio.create_task(answer(harness, request(4)))
        await next_steps()
        apply_leader_and_isr(harness.replicas, leader_and_isr(state(leader=OTHER, leader_epoch=6)))
        found = await waiting
        assert (found.error_code, found.low_watermark) == (Errors.NOT_LEADER_OR_FOLLOWER, -1)

    run(scenario)


def test_a_request_beyond_the_bound_of_waiting_ones_times_out_at_once() -> None:
    async def scenario() -> None:
        harness = leader()
        harness.replicas.delayed_deletes = DelayedOperationPurgatory(max_watched=0)
        assert (await answer(harness, request(4))).error_code == Errors.REQUEST_TIMED_OUT

    run(scenario)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (request(9), Errors.OFFSET_OUT_OF_RANGE),
        (request(-2), Errors.OFFSET_OUT_OF_RANGE),
        (request(1, partition=1), Errors.NOT_LEADER_OR_FOLLOWER),
        (request(1, partition=2), Errors.NOT_LEADER_OR_FOLLOWER),
        (request(1, partition=7), Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (request(1, topic="__consumer_offsets"), Errors.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_is_refused_deletes_nothing(asked: DeleteRecordsRequest, code: Errors) -> None:
    async def scenario() -> None:
        harness = leader()
        apply_leader_and_isr(harness.replicas, leader_and_isr(state(1, leader=OTHER, leader_epoch=5)))
        harness.update_metadata({"orders": {0: ME, 1: OTHER, 2: OTHER}, "__consumer_offsets": {0: ME}})
        found = await answer(harness, asked)
        assert (Errors(found.error_code), found.low_watermark) == (code, -1)
        assert harness.replicas.partitions[ORDERS_0].log.log_start_offset == 0

    run(scenario)


def test_records_of_a_compacted_topic_are_not_deleted() -> None:
    async def scenario() -> None:
        harness = leader()
        harness.logs.update_topic_config("orders", {"cleanup.policy": "compact"})
        assert (await answer(harness, request(1))).error_code == Errors.POLICY_VIOLATION
        harness.logs.update_topic_config("orders", {"cleanup.policy": "compact,delete"})
        for follower in (OTHER, THIRD):
            follower_fetches(harness, follower, 1)
        assert (await answer(harness, request(1))).error_code == Errors.NONE

    run(scenario)
