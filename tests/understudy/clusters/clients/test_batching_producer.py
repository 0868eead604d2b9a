"""`BatchingProducer` with a scripted broker: which records share a batch, and what becomes of those that fail."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import pytest

from tests.brokers.parts import StillClock
from tests.brokers.peers import ScriptedPeer
from understudy.clusters.clients.batching_producer import BatchingProducer, NoSuchTopic, ProducerSettings
from understudy.clusters.clients.partitioner import partition_for_key
from understudy.clusters.clients.producer import Delivery, DeliveryOutcome
from understudy.clusters.simulated.loop import SimulatedLoop, new_loop
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.records.batch import batches
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.record import Record, records
from understudy.foundation.wire.headers import RequestHeader
from understudy.foundation.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from understudy.foundation.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from understudy.foundation.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from understudy.foundation.wire.schema import Message


class LoopClock(StillClock):
    """The time of the simulated loop."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1000

    def wall_ms(self) -> float:
        return 1_700_000_000_000 + self._loop.time() * 1000


class Broker:
    """The only broker; it keeps the batches of topic `a` by partition."""

    def __init__(self, partitions: int = 1, error: Errors = Errors.NONE) -> None:
        self.batches: list[tuple[int, list[Record], Compression]] = []
        self._partitions = partitions
        self._error = error

    def answer(self, _: RequestHeader, request: Message) -> Message:
        match request:
            case MetadataRequest():
                partitions = tuple(
                    MetadataResponsePartition(partition_index=number, leader_id=1) for number in range(self._partitions)
                )
                topic = MetadataResponseTopic(name="a", partitions=partitions)
                return MetadataResponse(
                    brokers=(MetadataResponseBroker(node_id=1, host="h1", port=9092),),
                    topics=(topic,) if self._partitions else (),
                )
            case InitProducerIdRequest():
                return InitProducerIdResponse(producer_id=5, producer_epoch=0)
            case ProduceRequest():
                data = request.topic_data[0].partition_data[0]
                for batch in batches(data.records or b""):
                    self.batches.append((data.index, list(records(batch)), batch.header.compression))
                answer = PartitionProduceResponse(index=data.index, error_code=self._error)
                return ProduceResponse(responses=(TopicProduceResponse(name="a", partition_responses=(answer,)),))
        raise AssertionError(f"not expected: {request}")

    def sizes(self) -> list[int]:
        return [len(found) for _, found, _ in self.batches]


def run(broker: Broker, use: Callable[[BatchingProducer], Awaitable[None]], **settings: object) -> SimulatedLoop:
    loop = new_loop()
    chosen = ProducerSettings(bootstrap=["h1:9092"], client_id="test", **settings)  # type: ignore[arg-type]  # by name
    producer = BatchingProducer(ScriptedPeer(broker.answer), LoopClock(loop), "a", chosen, random.Random(1))

    async def use_and_close() -> None:
        try:
            await use(producer)
        finally:
            await producer.abort()

    loop.run_until_complete(use_and_close())
    return loop


def test_records_wait_for_each_other_until_their_batch_is_sent() -> None:
    broker = Broker()

    async def use(producer: BatchingProducer) -> None:
        for value in (b"1", b"2", b"3"):
            await producer.send(None, value)
        assert not broker.batches
        await producer.flush()

    run(broker, use, linger_ms=1_000, compression=Compression.GZIP)
    [(_, found, compression)] = broker.batches
    assert [(record.offset, record.value) for record in found] == [(0, b"1"), (1, b"2"), (2, b"3")]
    assert compression is Compression.GZIP


def test_a_batch_is_sent_when_it_is_full() -> None:
    broker = Broker()

    async def use(producer: BatchingProducer) -> None:
        for _ in range(5):
            await producer.send(b"key", b"x" * 100)
        await producer.flush()

    # Two records of 111 bytes fit beside the header of 61.
    run(broker, use, linger_ms=60_000, batch_size=300)
    assert broker.sizes() == [2, 2, 1]


def test_a_record_that_is_larger_than_a_batch_is_sent_alone() -> None:
    broker = Broker()

    async def use(producer: BatchingProducer) -> None:
        for value in (b"x" * 1_000, b"y"):
            await producer.send(None, value)
        await producer.flush()

    run(broker, use, linger_ms=60_000, batch_size=100)
    assert broker.sizes() == [1, 1]


def test_a_key_decides_on_the_partition() -> None:
    broker = Broker(partitions=5)

    async def use(producer: BatchingProducer) -> None:
        for number in range(20):
            await producer.send(b"%d" % number, b"v")
        await producer.flush()

    run(broker, use)
    assert {(record.key, partition) for partition, found, _ in broker.batches for record in found} == {
        (b"%d" % number, partition_for_key(b"%d" % number, 5)) for number in range(20)
    }


def test_each_record_learns_how_its_batch_ended() -> None:
    deliveries: list[Delivery] = []

    async def use(producer: BatchingProducer) -> None:
        for _ in range(2):
            await producer.send(None, b"v", done=deliveries.append)
        await producer.flush()

    run(Broker(), use)
    run(Broker(error=Errors.MESSAGE_TOO_LARGE), use)
    assert [delivery.outcome for delivery in deliveries[:2]] == [DeliveryOutcome.ACKNOWLEDGED] * 2
    assert {delivery.errors for delivery in deliveries[2:]} == {("MESSAGE_TOO_LARGE",)}
    assert not any(delivery.outcome is DeliveryOutcome.ACKNOWLEDGED for delivery in deliveries[2:])


def test_a_topic_that_does_not_exist_is_waited_for_and_named() -> None:
    async def use(producer: BatchingProducer) -> None:
        with pytest.raises(NoSuchTopic, match="Topic a not present in metadata after 3000 ms"):
            await producer.send(None, b"v")

    assert run(Broker(partitions=0), use, max_block_ms=3_000).time() >= 3
