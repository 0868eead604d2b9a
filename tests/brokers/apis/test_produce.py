"""Tests of Produce: appends and answers for each `acks`, waiting for replicas, refusals by version."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

import pytest
from crc32c import crc32c

from tests.brokers.harness import BrokerHarness
from tests.brokers.log.parts import NOW_MS, batch
from tests.brokers.parts import ME, ORDERS_0, OTHER, apply_leader_and_isr, leader_and_isr, state
from tests.foundation.records.compressed import lz4_linked
from tests.foundation.records.test_message_set import message
from understudy.brokers.apis import produce
from understudy.brokers.apis.services import MOST_LONG_CHECKS
from understudy.brokers.apis.serving import CloseConnection
from understudy.brokers.replication.delayed_operations import DelayedOperationPurgatory
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.records.batch import encode_batch
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.record import records
from understudy.foundation.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

T = TypeVar("T")

ALL = -1
LINKED = encode_batch(lz4_linked(bytes(9)), count=1, compression=Compression.LZ4)
"""A batch in lz4 whose blocks refer to each other, which Kafka refuses."""


def with_codec(number: int) -> bytes:
    """A batch that states a codec, whose records are not compressed."""
    data = bytearray(batch(b"a"))
    struct.pack_into(">h", data, 21, number)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def request(
    data: bytes | None, *, acks: int = 1, topic: str = "orders", partition: int = 0, timeout_ms: int = 5_000
) -> ProduceRequest:
    given = PartitionProduceData(index=partition, records=data)
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=(TopicProduceData(name=topic, partition_data=(given,)),)
    )


async def answer(harness: BrokerHarness, asked: ProduceRequest, version: int = 11) -> ProduceResponse:
    response = await produce.handle(harness.services, asked, harness.context(version))
    assert response is not None
    return response


def only(response: ProduceResponse) -> PartitionProduceResponse:
    ((result,),) = (topic.partition_responses for topic in response.responses)
    return result


def leader() -> BrokerHarness:
    harness = BrokerHarness()
    harness.become_leader("orders", 0)
    return harness


def follower_fetches(harness: BrokerHarness, offset: int, follower: int = OTHER) -> None:
    partition = harness.replicas.partitions[ORDERS_0]
    harness.services.isr.follower_fetched(partition, follower, offset, leader_epoch=5)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def within_a_second() -> None:
        async with asyncio.timeout(5):
            await scenario()

    asyncio.run(within_a_second())


async def next_steps() -> None:
    """Let every task that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


# ------------------------------------------------------------------ appends


def test_records_are_appended_with_offsets_and_the_leader_epoch() -> None:
    async def scenario() -> None:
        harness = leader()
        first = only(await answer(harness, request(batch(b"a", b"b"))))
        second = only(await answer(harness, request(batch(b"c", compression=Compression.LZ4))))
        assert (first.error_code, first.base_offset, second.base_offset) == (Errors.NONE, 0, 2)
        assert (second.log_append_time_ms, second.log_start_offset, second.index) == (-1, 0, 0)
        found = [
            (record.offset, record.value, each.header.partition_leader_epoch)
            for segment in harness.replicas.partitions[ORDERS_0].log.segments
            for _, each in segment.batches(0)
            for record in records(each)
        ]
        assert found == [(0, b"a", 5), (1, b"b", 5), (2, b"c", 5)]

    run(scenario)


class HeldOffload:
    """Runs work when it is released; the broker continues meanwhile."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.begun = 0

    async def __call__(self, work: Callable[[], T]) -> T:
        self.begun += 1
        await self.released.wait()
        return work()


def test_records_of_others_are_appended_while_a_compressed_batch_is_checked() -> None:
    async def scenario() -> None:
        harness, offload = leader(), HeldOffload()
        harness.services = replace(harness.services, offload=offload)
        long_checks = [
            asyncio.create_task(answer(harness, request(batch(b"slow", compression=Compression.ZSTD))))
            for _ in range(MOST_LONG_CHECKS + 1)
        ]
        await next_steps()
        assert offload.begun == MOST_LONG_CHECKS
        assert only(await answer(harness, request(batch(b"fast")))).base_offset == 0
        offload.released.set()
        assert {only(await each).base_offset for each in long_checks} == set(range(1, MOST_LONG_CHECKS + 2))

    run(scenario)


def test_partition_that_is_led_no_more_when_its_batch_is_checked_gets_no_records() -> None:
    async def scenario() -> None:
        harness, offload = leader(), HeldOffload()
        harness.services = replace(harness.services, offload=offload)
        checked = asyncio.create_task(answer(harness, request(batch(b"late", compression=Compression.ZSTD))))
        await next_steps()
        apply_leader_and_isr(harness.replicas, leader_and_isr(state(leader=OTHER, leader_epoch=6)))
        offload.released.set()
        assert only(await checked).error_code == Errors.NOT_LEADER_OR_FOLLOWER
        assert harness.replicas.partitions[ORDERS_0].log.log_end_offset == 0

    run(scenario)


def test_a_batch_that_is_sent_again_is_answered_as_before() -> None:
    async def scenario() -> None:
        harness = leader()
        data = batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
        later = batch(b"c", producer_id=7, producer_epoch=0, base_sequence=2)
        answers = [only(await answer(harness, request(each))) for each in (data, later, data)]
        assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0), (0, 2), (0, 0)]
        assert harness.replicas.partitions[ORDERS_0].log.log_end_offset == 3
        gap = batch(b"d", producer_id=7, producer_epoch=0, base_sequence=9)
        assert only(await answer(harness, request(gap))).error_code == Errors.OUT_OF_ORDER_SEQUENCE_NUMBER

    run(scenario)


def test_old_producers_message_sets_are_converted() -> None:
    async def scenario() -> None:
        harness = leader()
        for version in (0, 1, 2):
            assert only(await answer(harness, request(message() * 2), version)).error_code == Errors.NONE
        assert harness.replicas.partitions[ORDERS_0].log.log_end_offset == 6

    run(scenario)


# ------------------------------------------------------------------ acks


def test_with_acks_all_the_answer_waits_for_the_in_sync_replicas() -> None:
    async def scenario() -> None:
        harness = leader()
        waiting = asyncio.create_task(answer(harness, request(batch(b"a", b"b"), acks=ALL)))
        await next_steps()
        assert not waiting.done()
        follower_fetches(harness, 1)
        await next_steps()
        assert not waiting.done(), "the second record is not replicated"
        follower_fetches(harness, 2)
        assert (only(await waiting).error_code, only(await waiting).base_offset) == (Errors.NONE, 0)
        assert harness.replicas.delayed_produces.watched == 0

    run(scenario)


@pytest.mark.parametrize("acks", [0, 1])
def test_with_other_acks_there_is_no_waiting(acks: int) -> None:
    async def scenario() -> None:
        harness = leader()
        response = await produce.handle(harness.services, request(batch(b"a"), acks=acks), harness.context(11))
        assert (response is None) == (acks == 0)
        assert harness.replicas.partitions[ORDERS_0].log.log_end_offset == 1

    run(scenario)


def test_with_acks_0_a_failure_closes_the_connection() -> None:
    async def scenario() -> None:
        harness = leader()
        with pytest.raises(CloseConnection, match=r"orders-7.*UNKNOWN_TOPIC_OR_PARTITION"):
            await produce.handle(harness.services, request(batch(b"a"), acks=0, partition=7), harness.context(11))

    run(scenario)


@pytest.mark.parametrize("timeout_ms", [-5, 0, 1])
def test_records_that_are_not_replicated_in_time_stay(timeout_ms: int) -> None:
    async def scenario() -> None:
        harness = leader()
        result = only(await answer(harness, request(batch(b"a"), acks=ALL, timeout_ms=timeout_ms)))
        assert result.error_code == Errors.REQUEST_TIMED_OUT
        assert harness.replicas.partitions[ORDERS_0].log.log_end_offset == 1
        assert harness.replicas.delayed_produces.watched == 0

    run(scenario)


def test_a_produce_that_waits_ends_when_leadership_is_lost() -> None:
    async def scenario() -> None:
        harness = leader()
        waiting = asyncio.create_task(answer(harness, request(batch(b"a"), acks=ALL)))
        await next_steps()
        apply_leader_and_isr(harness.replicas, leader_and_isr(state(leader=OTHER, leader_epoch=6)))
        result = only(await waiting)
        assert result.error_code == Errors.NOT_LEADER_OR_FOLLOWER
        assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (OTHER, 6)

    run(scenario)


def test_a_produce_beyond_the_bound_of_waiting_ones_times_out_at_once() -> None:
    async def scenario() -> None:
        harness = leader()
        harness.replicas.delayed_produces = DelayedOperationPurgatory(max_watched=0)
        result = only(await answer(harness, request(batch(b"a"), acks=ALL, timeout_ms=60_000)))
        assert result.error_code == Errors.REQUEST_TIMED_OUT

    run(scenario)


def test_with_acks_all_too_small_an_isr_refuses_before_the_append() -> None:
    async def scenario() -> None:
        harness = leader()
        harness.logs.update_topic_config("orders", {"min.insync.replicas": "3"})
        assert only(await answer(harness, request(batch(b"a"), acks=ALL))).error_code == Errors.NOT_ENOUGH_REPLICAS
        assert harness.replicas.partitions[ORDERS_0].log.log_end_offset == 0
        assert only(await answer(harness, request(batch(b"a"), acks=1))).error_code == Errors.NONE

    run(scenario)


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("asked", "version", "code"),
    [
        (request(batch(b"a"), partition=7), 11, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (request(batch(b"a"), topic="nowhere"), 11, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (request(batch(b"a"), partition=1), 11, Errors.NOT_LEADER_OR_FOLLOWER),
        (request(batch(b"a"), acks=2), 11, Errors.INVALID_REQUIRED_ACKS),
        (request(None), 3, Errors.INVALID_RECORD),
        (request(b""), 11, Errors.INVALID_RECORD),
        (request(batch(b"a")[:-1]), 11, Errors.INVALID_RECORD),
        (request(batch(b"a") * 2), 3, Errors.INVALID_RECORD),
        (request(message()), 3, Errors.INVALID_RECORD),
        (request(batch(b"a", compression=Compression.ZSTD)), 6, Errors.UNSUPPORTED_COMPRESSION_TYPE),
        (request(batch(b"a", offset=4)), 11, Errors.INVALID_RECORD),
        (request(batch(b"a")[:-1] + b"\x55"), 11, Errors.CORRUPT_MESSAGE),
        (request(batch(bytes(1_100_000))), 11, Errors.MESSAGE_TOO_LARGE),
        *((request(with_codec(codec)), version, Errors.UNKNOWN_SERVER_ERROR) for codec in (5, 7) for version in (3, 7)),
        (request(LINKED), 11, Errors.UNKNOWN_SERVER_ERROR),
        (request(batch(b"a")[:16] + b"\3" + batch(b"a")[17:]), 11, Errors.CORRUPT_MESSAGE),
    ],
)
def test_what_is_refused_is_answered_and_not_appended(asked: ProduceRequest, version: int, code: Errors) -> None:
    async def scenario() -> None:
        harness = leader()
        apply_leader_and_isr(harness.replicas, leader_and_isr(state(1, leader=OTHER, leader_epoch=5)))
        harness.update_metadata({"orders": {0: ME, 1: OTHER}})
        result = only(await answer(harness, asked, version))
        assert Errors(result.error_code) is code
        assert (result.base_offset, result.log_append_time_ms, result.record_errors) == (-1, -1, ())
        assert {key: each.log.log_end_offset for key, each in harness.replicas.partitions.items()}[ORDERS_0] == 0

    run(scenario)


@pytest.mark.parametrize(
    ("asked", "version", "log_start_offset"),
    [
        (request(batch(b"a"), acks=2), 11, -1),
        (request(b""), 11, -1),
        (request(batch(b"a") * 2), 11, -1),
        (request(batch(b"a", compression=Compression.ZSTD)), 6, -1),
        (request(batch(b"a")[:-1] + b"\x55"), 11, -1),
        (request(batch(b"a", offset=4)), 11, 0),
        (request(LINKED), 11, 0),
        (request(with_codec(5)), 6, -1),
        (request(with_codec(5)), 7, 0),
    ],
)
def test_log_start_offset_is_answered_if_the_log_refuses_a_batch_unexpectedly(
    asked: ProduceRequest, version: int, log_start_offset: int
) -> None:
    async def scenario() -> None:
        assert only(await answer(leader(), asked, version)).log_start_offset == log_start_offset

    run(scenario)


@pytest.mark.parametrize(
    ("data", "version", "code"),
    [
        (batch(b"a")[:16] + b"\3" + batch(b"a")[17:], 11, Errors.CORRUPT_MESSAGE),
        (batch(b"a")[:8] + struct.pack(">i", 5) + batch(b"a")[12:], 2, Errors.CORRUPT_MESSAGE),
        (with_codec(5), 6, Errors.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_batch_that_kafka_cannot_read_refuses_every_partition_of_its_request(
    data: bytes, version: int, code: Errors
) -> None:
    """Kafka looks at these batches outside of its loop over partitions, and answers an error for all."""

    async def scenario() -> None:
        harness = leader()
        harness.become_leader("orders", 1)
        given = (PartitionProduceData(index=0, records=batch(b"a")), PartitionProduceData(index=1, records=data))
        asked = ProduceRequest(acks=1, topic_data=(TopicProduceData(name="orders", partition_data=given),))
        (topic,) = (await answer(harness, asked, version)).responses
        assert [Errors(each.error_code) for each in topic.partition_responses] == [code, code]
        assert [each.log.log_end_offset for each in harness.replicas.partitions.values()] == [0, 0]

    run(scenario)


def test_an_unknown_codec_for_an_unknown_partition_refuses_no_other() -> None:
    async def scenario() -> None:
        given = (
            PartitionProduceData(index=0, records=batch(b"a")),
            PartitionProduceData(index=7, records=with_codec(5)),
        )
        asked = ProduceRequest(acks=1, topic_data=(TopicProduceData(name="orders", partition_data=given),))
        (topic,) = (await answer(leader(), asked, 6)).responses
        codes = [Errors(each.error_code) for each in topic.partition_responses]
        assert codes == [Errors.NONE, Errors.UNKNOWN_TOPIC_OR_PARTITION]

    run(scenario)


def test_zstd_is_accepted_from_version_7_on() -> None:
    async def scenario() -> None:
        data = batch(b"a", compression=Compression.ZSTD)
        assert only(await answer(leader(), request(data), 7)).error_code == Errors.NONE

    run(scenario)


def test_refused_records_are_named() -> None:
    async def scenario() -> None:
        harness = leader()
        harness.logs.update_topic_config("orders", {"cleanup.policy": "compact"})
        result = only(await answer(harness, request(batch(b"a", b"b", keys=[b"k", None]))))
        assert result.error_code == Errors.INVALID_RECORD
        ((index, why),) = ((each.batch_index, each.batch_index_error_message) for each in result.record_errors)
        assert (index, why) == (1, "Compacted topic cannot accept message without key")
        assert result.error_message is not None
        assert "due to 1 record errors in total" in result.error_message
        assert result.log_start_offset == 0

    run(scenario)


def test_one_refused_partition_does_not_refuse_the_others() -> None:
    async def scenario() -> None:
        harness = leader()
        partitions = tuple(PartitionProduceData(index=index, records=batch(b"a")) for index in (7, 0))
        topics = (TopicProduceData(name="orders", partition_data=partitions),)
        response = await answer(harness, ProduceRequest(acks=1, topic_data=topics))
        (topic,) = response.responses
        assert [(each.index, each.error_code) for each in topic.partition_responses] == [(7, 3), (0, 0)]

    run(scenario)


@pytest.mark.parametrize(("version", "hinted"), [(9, False), (10, True), (11, True)])
def test_the_leader_is_named_where_another_broker_leads(version: int, hinted: bool) -> None:
    async def scenario() -> None:
        harness = leader()
        apply_leader_and_isr(harness.replicas, leader_and_isr(state(leader=OTHER, leader_epoch=6)))
        response = await answer(harness, request(batch(b"a")), version)
        result = only(response)
        assert result.error_code == Errors.NOT_LEADER_OR_FOLLOWER
        hint = (result.current_leader.leader_id, result.current_leader.leader_epoch)
        assert hint == ((OTHER, 6) if hinted else (-1, -1))
        addresses = [(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
        assert addresses == ([(OTHER, "h2", 9092, "r2")] if hinted else [])

    run(scenario)


def test_internal_topics_take_records_of_the_admin_client_only() -> None:
    async def scenario() -> None:
        harness = BrokerHarness()
        harness.become_leader("__consumer_offsets", 0)
        result = only(await answer(harness, request(batch(b"a"), topic="__consumer_offsets")))
        assert result.error_code == Errors.INVALID_TOPIC_EXCEPTION

    run(scenario)


def test_the_leaders_time_is_answered() -> None:
    async def scenario() -> None:
        harness = leader()
        harness.logs.update_topic_config("orders", {"message.timestamp.type": "LogAppendTime"})
        harness.clock.now_ms = NOW_MS + 5
        assert only(await answer(harness, request(batch(b"a")))).log_append_time_ms == NOW_MS + 5

    run(scenario)
