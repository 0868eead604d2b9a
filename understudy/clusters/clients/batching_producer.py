"""A producer that takes records one by one, chooses their partitions, and sends them in batches.

A batch is sent when it is full or has waited long enough. Each partition has its own sender, connection and
producer id. A sender sends one batch at a time, so that records stay in order. Mirrors `KafkaProducer` with
its `RecordAccumulator` and `Sender`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from understudy.clusters.clients.connections import Connections, NoLeader
from understudy.clusters.clients.partitioner import BATCH_SIZE, StickyPartition, partition_for_key
from understudy.clusters.clients.producer import ALL_ACKS, Delivery, Producer
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.records.batch import HEADER
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.record import Header, Record
from understudy.foundation.records.varint import varint
from understudy.foundation.wire.network import Network

MAX_WAITING_BATCHES = 64
"""Number of full batches of a partition that may wait to be sent; `send` waits while there are more."""


class NoSuchTopic(Exception):
    """The topic has no partitions within the time that a send may wait. The message names it."""


Done = Callable[[Delivery], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """The settings, named as in Kafka's producer.

    Attributes:
        max_block_ms: the time that a record waits for the metadata of its topic.
        delivery_timeout_ms: the time for which a batch is sent again before it counts as failed.
    """

    bootstrap: Sequence[str]
    client_id: str
    acks: int = ALL_ACKS
    batch_size: int = BATCH_SIZE
    linger_ms: int = 0
    compression: Compression = Compression.NONE
    is_idempotent: bool = True
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 100
    max_block_ms: int = 60_000


class BatchingProducer:
    """Sends records to one topic. One call at a time.

    Args:
        source: draws the partitions of records without a key.
    """

    def __init__(
        self, network: Network, clock: Clock, topic: str, settings: ProducerSettings, source: random.Random
    ) -> None:
        self._network = network
        self._clock = clock
        self._topic = topic
        self._settings = settings
        self._source = source
        self._senders: list[_Sender] = []
        self._sticky: StickyPartition | None = None

    async def send(
        self, key: bytes | None, value: bytes | None, headers: tuple[Header, ...] = (), *, done: Done | None = None
    ) -> None:
        """Add a record to its batch.

        Args:
            done: called with the delivery of its batch.

        Raises:
            NoSuchTopic: the topic has no partitions.
        """
        if not self._senders:
            await self._find_partitions()
        record = Record(0, int(self._clock.wall_ms()), key, value, headers)
        size = _size_of(record)
        if key is not None:
            partition = partition_for_key(key, len(self._senders))
        else:
            assert self._sticky is not None
            partition = self._sticky.partition_for(size)
        await self._senders[partition].add(record, size, done)

    async def flush(self) -> None:
        """Send the waiting records, and return when every batch has ended."""
        for sender in self._senders:
            await sender.flush()

    async def abort(self) -> None:
        """Close the connections without sending the waiting records."""
        for sender in self._senders:
            await sender.close()
        self._senders.clear()

    async def _find_partitions(self) -> None:
        settings = self._settings
        connections = self._connections()
        deadline_ms = self._clock.monotonic_ms() + settings.max_block_ms
        count = 0
        while not count and self._clock.monotonic_ms() < deadline_ms:
            with contextlib.suppress(NoLeader):
                count = (await connections.describe_topics([self._topic])).counts.get(self._topic, 0)
            if not count:
                await asyncio.sleep(settings.retry_backoff_ms / 1000)
        connections.close()
        if not count:
            raise NoSuchTopic(f"Topic {self._topic} not present in metadata after {settings.max_block_ms} ms.")
        self._sticky = StickyPartition(range(count), self._source, batch_size=settings.batch_size)
        self._senders = [
            _Sender(TopicPartition(self._topic, number), self._connections(), self._clock, settings)
            for number in range(count)
        ]

    def _connections(self) -> Connections:
        settings = self._settings
        return Connections(self._network, settings.bootstrap, client_id=settings.client_id)


class _OpenBatch:
    """Records that are sent together."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.size = HEADER.size
        self.done: list[Done] = []


class _Sender:
    """Fills and sends the batches of one partition."""

    def __init__(
        self, partition: TopicPartition, connections: Connections, clock: Clock, settings: ProducerSettings
    ) -> None:
        self._partition = partition
        self._connections = connections
        self._settings = settings
        self._producer = Producer(
            connections,
            clock,
            acks=settings.acks,
            request_timeout_ms=settings.request_timeout_ms,
            delivery_timeout_ms=settings.delivery_timeout_ms,
            backoff_ms=settings.retry_backoff_ms,
            is_idempotent=settings.is_idempotent,
        )
        self._filling = _OpenBatch()
        self._waiting: asyncio.Queue[_OpenBatch] = asyncio.Queue(MAX_WAITING_BATCHES)
        self._task: asyncio.Task[None] | None = None
        self._linger: asyncio.TimerHandle | None = None

    async def add(self, record: Record, size: int, done: Done | None) -> None:
        if self._filling.records and self._filling.size + size > self._settings.batch_size:
            await self._end_batch()
        batch = self._filling
        batch.records.append(record._replace(offset=len(batch.records)))
        batch.size += size
        if done is not None:
            batch.done.append(done)
        if batch.size >= self._settings.batch_size:
            await self._end_batch()
        elif self._linger is None:
            loop = asyncio.get_running_loop()
            self._linger = loop.call_later(self._settings.linger_ms / 1000, self._end_batch_if_there_is_room)

    async def flush(self) -> None:
        await self._end_batch()
        if self._task is None:
            return
        sent = asyncio.get_running_loop().create_task(self._waiting.join(), name=f"flush {self._partition}")
        await asyncio.wait({sent, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            sent.cancel()
            self._task.result()

    async def close(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._connections.close()

    async def _end_batch(self) -> None:
        """Queue the batch that is being filled, if it has records; wait while the queue is full."""
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._filling.records:
            batch, self._filling = self._filling, _OpenBatch()
            await self._waiting.put(batch)
            self._start()

    def _end_batch_if_there_is_room(self) -> None:
        self._linger = None
        # If there is no room, batches are sent without a pause anyway, and this one grows until it is full.
        if self._filling.records and not self._waiting.full():
            batch, self._filling = self._filling, _OpenBatch()
            self._waiting.put_nowait(batch)
            self._start()
        elif self._filling.records:
            loop = asyncio.get_running_loop()
            pause_s = max(self._settings.linger_ms, 1) / 1000
            self._linger = loop.call_later(pause_s, self._end_batch_if_there_is_room)

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"send {self._partition}")

    async def _run(self) -> None:
        while True:
            batch = await self._waiting.get()
            try:
                delivery = await self._producer.send_records(
                    self._partition, batch.records, compression=self._settings.compression
                )
                for done in batch.done:
                    done(delivery)
            finally:
                self._waiting.task_done()


def _size_of(record: Record) -> int:
    """Return how many bytes a record takes in its batch, with its offset and timestamp near the batch's first."""
    size = 3
    for part in (record.key, record.value):
        size += 1 if part is None else len(varint(len(part))) + len(part)
    size += len(varint(len(record.headers)))
    for header in record.headers:
        key = header.key.encode()
        size += len(varint(len(key))) + len(key)
        size += 1 if header.value is None else len(varint(len(header.value))) + len(header.value)
    return len(varint(size)) + size
