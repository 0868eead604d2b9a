"""`GroupConsumer` and `Consumer.fetch` with a scripted broker that has the records; without a group.

As members of groups they run in the tool scripts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.brokers.peers import ScriptedPeer
from tests.foundation.records.compressed import lz4_linked
from tests.understudy.clusters.clients.test_batching_producer import LoopClock
from understudy.clusters.clients.connections import Connections
from understudy.clusters.clients.consumer import UnreadableRecords
from understudy.clusters.clients.group_consumer import ConsumerSettings, GroupConsumer
from understudy.clusters.clients.group_member import MemberSettings
from understudy.clusters.simulated.loop import new_loop
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import HEADER, encode_batch
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.errors import InvalidRecord, NotDecompressed
from understudy.foundation.records.record import Record, encode_records
from understudy.foundation.wire.headers import RequestHeader
from understudy.foundation.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from understudy.foundation.wire.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from understudy.foundation.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from understudy.foundation.wire.schema import Message

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
START, END = 10, 16


def log() -> bytes:
    """Six records from offset 10 on: plain, of an aborted transaction, its marker, of a committed one, plain."""
    marker = Record(0, 1, b"\0\0\0\0", b"\0\0\0\0\0\0")
    return b"".join(
        (
            encode_records([Record(10, 1, None, b"10"), Record(11, 1, None, b"11")]),
            encode_records([Record(12, 1, None, b"12")], producer_id=7, is_transactional=True),
            encode_records([marker._replace(offset=13)], producer_id=7, is_transactional=True, is_control=True),
            encode_records([Record(14, 1, None, b"14")], producer_id=7, is_transactional=True),
            encode_records([Record(15, 1, None, b"15")]),
        )
    )


def broker(_: RequestHeader, request: Message) -> Message:
    """Answer as the only broker, which has the same records in both partitions of topic `a`."""
    match request:
        case MetadataRequest():
            partitions = tuple(MetadataResponsePartition(partition_index=number, leader_id=1) for number in (0, 1))
            topics = (
                MetadataResponseTopic(name="a", partitions=partitions),
                MetadataResponseTopic(name="__b", is_internal=True),
            )
            return MetadataResponse(brokers=(MetadataResponseBroker(node_id=1, host="h1", port=9092),), topics=topics)
        case ListOffsetsRequest():
            asked = request.topics[0].partitions[0]
            offset = {EARLIEST_TIMESTAMP: START, LATEST_TIMESTAMP: END}[asked.timestamp]
            found = ListOffsetsPartitionResponse(partition_index=asked.partition_index, offset=offset)
            return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="a", partitions=(found,)),))
        case FetchRequest():
            answers = tuple(data_for(each.partition, each.fetch_offset) for each in request.topics[0].partitions)
            return FetchResponse(responses=(FetchableTopicResponse(topic="a", partitions=answers),))
    raise AssertionError(f"not expected: {request}")


def data_for(partition: int, offset: int) -> PartitionData:
    if not START <= offset <= END:
        return PartitionData(partition_index=partition, error_code=Errors.OFFSET_OUT_OF_RANGE)
    return PartitionData(
        partition_index=partition,
        high_watermark=END,
        aborted_transactions=(AbortedTransaction(producer_id=7, first_offset=12),),
        records=log() if offset < END else b"",
    )


def consume(
    settings: ConsumerSettings, use: Callable[[GroupConsumer], Awaitable[None]], answer: Callable[..., Message] = broker
) -> None:
    loop = new_loop()
    consumer = GroupConsumer(ScriptedPeer(answer), LoopClock(loop), settings)

    async def use_and_close() -> None:
        await use(consumer)
        await consumer.close()

    loop.run_until_complete(use_and_close())


def values(settings: ConsumerSettings, *, answer: Callable[..., Message] = broker) -> list[bytes | None]:
    """What three polls bring."""
    found: list[bytes | None] = []

    async def use(consumer: GroupConsumer) -> None:
        for _ in range(3):
            found.extend(each.record.value for each in await consumer.poll(50))

    consume(settings, use, answer)
    return found


def reading(*partitions: tuple[TopicPartition, int], **more: bool | int) -> ConsumerSettings:
    return ConsumerSettings(
        bootstrap=("h1:9092",),
        client_id="test",
        member=MemberSettings(group_id="g", topics=()),
        partitions=partitions,
        max_poll_records=int(more.get("max_poll_records", 500)),
        is_read_committed=bool(more.get("is_read_committed")),
        resets_to_earliest=bool(more.get("resets_to_earliest")),
    )


def test_partitions_are_read_from_the_offset_that_was_asked_for() -> None:
    assert values(reading((A0, 14))) == [b"14", b"15"]
    assert values(reading((A0, EARLIEST_TIMESTAMP))) == [b"10", b"11", b"12", b"14", b"15"]
    assert values(reading((A0, LATEST_TIMESTAMP))) == []


def test_one_request_reads_several_partitions_of_a_leader() -> None:
    assert values(reading((A0, 15), (A1, 14))) == [b"15", b"14", b"15"]


def test_records_of_aborted_transactions_are_hidden_from_those_who_read_committed_ones() -> None:
    assert values(reading((A0, EARLIEST_TIMESTAMP), is_read_committed=True)) == [b"10", b"11", b"14", b"15"]


def test_an_offset_that_the_log_does_not_have_is_reset() -> None:
    assert values(reading((A0, 3), resets_to_earliest=True)) == [b"10", b"11", b"12", b"14", b"15"]
    assert values(reading((A0, 99))) == []


def test_a_poll_brings_no_more_records_than_it_may() -> None:
    assert values(reading((A0, 10), max_poll_records=1)) == [b"10", b"11", b"12"]


def test_a_poll_ends_in_time_where_no_broker_answers() -> None:
    assert values(reading((A0, 10)), answer=lambda *_: MetadataResponse()) == []


def unreadable_from(offset: int) -> bytes:
    """Three batches from offset 10 on, the second one with an lz4 frame that Kafka refuses."""
    plain = encode_records([Record(offset, 1, None, b"12")])[HEADER.size :]
    return b"".join(
        (
            encode_records([Record(10, 1, None, b"10"), Record(11, 1, None, b"11")]),
            encode_batch(lz4_linked(plain), count=1, base_offset=offset, compression=Compression.LZ4),
            encode_records([Record(13, 1, None, b"13")]),
        )
    )


def cut_short() -> bytes:
    """A batch of two records, of which the second one states more bytes than there are."""
    whole = bytearray(encode_records([Record(10, 1, None, b"10"), Record(11, 1, None, b"11")]))
    whole[HEADER.size + (len(whole) - HEADER.size) // 2] += 20
    return bytes(whole)


@pytest.mark.parametrize(
    ("data", "before", "cause"),
    [(unreadable_from(12), [b"10", b"11"], NotDecompressed), (cut_short(), [b"10"], InvalidRecord)],
)
def test_records_that_cannot_be_read_end_a_consumer_after_those_before_them(
    data: bytes, before: list[bytes], cause: type[Exception]
) -> None:
    def answer(header: RequestHeader, request: Message) -> Message:
        if not isinstance(request, FetchRequest):
            return broker(header, request)
        found = PartitionData(partition_index=0, high_watermark=END, records=data)
        return FetchResponse(responses=(FetchableTopicResponse(topic="a", partitions=(found,)),))

    async def use(consumer: GroupConsumer) -> None:
        assert [each.record.value for each in await consumer.poll(50)] == before
        for _ in range(2):
            with pytest.raises(UnreadableRecords, match="fetching the next record from a-0") as raised:
                await consumer.poll(50)
            assert isinstance(raised.value.__cause__, cause)

    consume(reading((A0, 10)), use, answer)


def test_topics_are_found_by_name_without_internal_ones() -> None:
    loop = new_loop()
    connections = Connections(ScriptedPeer(broker), ("h1:9092",), client_id="test")
    found = tuple(loop.run_until_complete(connections.topic_names()))
    assert found == ("a",)
