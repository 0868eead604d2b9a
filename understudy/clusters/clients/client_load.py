"""`ClientLoad`: producers and consumers of a cluster, over the `Network` port, and the history of what they have seen.

Producers send small batches while faults are injected; consumers read along. After the faults, every partition is read
from its beginning to its end. `understudy.checks.client_history` judges the history.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence

from understudy.checks.client_history import ClientHistory, Poll, Send, SendingProducer
from understudy.clusters.clients.client_events import OpenClientLog
from understudy.clusters.clients.connections import Connections, NoLeader
from understudy.clusters.clients.consumer import Consumer
from understudy.clusters.clients.load import OUTCOMES, TIMEOUT_MS, Load
from understudy.clusters.clients.producer import ALL_ACKS, NO_ACKS, DeliveryOutcome, Producer
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.wire.network import Network

FINAL_READ_TIMEOUT_MS = 60_000
_PAUSE_AFTER_ERROR_S = 0.2
_FINAL_CONSUMER = "final-consumer"


class ClientLoad(Load):
    """Producers and consumers of some partitions.

    Args:
        keys: the keys from which each record's key is drawn, if the topics are compacted; otherwise empty.
        history: the history to add to; by default a new one.
        on_acknowledged: called after each acknowledged batch.
        open_log: as in `Load`.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        bootstrap: Callable[[], Sequence[str]],
        partitions: Sequence[TopicPartition],
        *,
        keys: Sequence[str] = (),
        history: ClientHistory | None = None,
        on_acknowledged: Callable[[], None] = lambda: None,
        open_log: OpenClientLog | None = None,
    ) -> None:
        super().__init__(network, clock, bootstrap, open_log)
        self.history = ClientHistory() if history is None else history
        self._partitions = tuple(partitions)
        self._keys = tuple(keys)
        if keys:
            self.history.compacted |= set(partitions)
        self._on_acknowledged = on_acknowledged
        self._next_value = 0
        self._sent_to: set[TopicPartition] = set()

    async def produce(
        self,
        name: str,
        acks: int,
        source: random.Random,
        *,
        gap_s: tuple[float, float],
        partitions: Sequence[TopicPartition] = (),
        is_idempotent: bool = True,
    ) -> None:
        """Send batches of one to three records to partitions that `source` draws, until `is_stopping`.

        Args:
            gap_s: the bounds of the pause after each batch; `source` also draws the pause.
            partitions: some partitions of the load; by default all.
            is_idempotent: as in `Producer`.
        """
        settings = _settings(name, acks, is_idempotent)
        with self.client(name, is_recorded=True) as connections:
            producer = self._producer(connections, acks, is_idempotent)
            while not self.is_stopping:
                topic_partition = source.choice(partitions or self._partitions)
                values = self._values(name, source.randint(1, 3))
                keys = [source.choice(self._keys) for _ in values] if self._keys else None
                await self._send(producer, settings, topic_partition, values, keys)
                await asyncio.sleep(source.uniform(*gap_s))

    def producers(self, gap_s: tuple[float, float]) -> list[Coroutine[object, object, None]]:
        """Return a producer with acks=all for each partition, so that some continue while others wait for a leader."""
        return [
            self.produce(f"producer-{each}", ALL_ACKS, random.Random(str(each)), gap_s=gap_s, partitions=[each])
            for each in self._partitions
        ]

    async def send_once(self, name: str, acks: int, topic_partition: TopicPartition, count: int) -> None:
        """Send one batch of `count` records to a partition."""
        with self.client(name, is_recorded=True) as connections:
            producer, values = self._producer(connections, acks), self._values(name, count)
            await self._send(producer, _settings(name, acks), topic_partition, values)

    async def consume(self, name: str) -> None:
        """Read every partition from its beginning, until `is_stopping`."""
        offsets = dict.fromkeys(self._partitions, 0)
        with self.client(name, is_recorded=True) as connections:
            consumer = Consumer(connections)
            while not self.is_stopping:
                for each in self._partitions:
                    offsets[each] = await self._poll(name, consumer, each, offsets[each], max_wait_ms=1_000)

    async def read_all(self) -> None:
        """Read every partition of the load to its end within a minute, and others to which it has sent records.

        It is to be called after the last fault. A partition without an end is asked again after the others have been
        read.
        """
        deadline_ms = self._clock.monotonic_ms() + FINAL_READ_TIMEOUT_MS
        unread = deque((*self._partitions, *sorted(self._sent_to.difference(self._partitions))))
        unfinished: list[TopicPartition] = []
        with self.client(_FINAL_CONSUMER) as connections:
            consumer = Consumer(connections)
            while unread and self._clock.monotonic_ms() < deadline_ms:
                topic_partition = unread.popleft()
                end_offset = await consumer.end_offset(topic_partition)
                if end_offset is None:
                    unread.append(topic_partition)
                    await asyncio.sleep(_PAUSE_AFTER_ERROR_S)
                elif await self._read_to(consumer, topic_partition, end_offset, deadline_ms):
                    self.history.read_to_the_end.add(topic_partition)
                else:
                    unfinished.append(topic_partition)
            for topic_partition in (*unfinished, *unread):
                with contextlib.suppress(NoLeader):
                    await self._note_why_unread(connections, consumer, topic_partition)

    async def _read_to(
        self, consumer: Consumer, topic_partition: TopicPartition, end_offset: int, deadline_ms: float
    ) -> bool:
        """Read a partition from its beginning, and return whether its end was reached before the deadline."""
        offset = 0
        while offset < end_offset and self._clock.monotonic_ms() < deadline_ms:
            offset = await self._poll(_FINAL_CONSUMER, consumer, topic_partition, offset, max_wait_ms=100)
        return offset >= end_offset

    async def _note_why_unread(
        self, connections: Connections, consumer: Consumer, topic_partition: TopicPartition
    ) -> None:
        """Note a partition without a leader, or whose leader returns no end offset while no follower is in sync.

        Raises:
            NoLeader: no broker answers.
        """
        in_sync = await connections.in_sync_replicas(topic_partition)
        if not in_sync:
            self.history.without_leader.add(topic_partition)
        elif len(in_sync) == 1 and await consumer.is_end_unavailable(topic_partition):
            self.history.without_end.add(topic_partition)

    def _producer(self, connections: Connections, acks: int, is_idempotent: bool = True) -> Producer:
        return Producer(connections, self._clock, acks=acks, request_timeout_ms=TIMEOUT_MS, is_idempotent=is_idempotent)

    def _values(self, name: str, count: int) -> list[str]:
        first = self._next_value + 1
        self._next_value += count
        return [f"{name}-{number}" for number in range(first, first + count)]

    async def _send(
        self,
        producer: Producer,
        settings: SendingProducer,
        topic_partition: TopicPartition,
        values: list[str],
        keys: list[str] | None = None,
    ) -> None:
        """Send a batch, and note its outcome."""
        self._sent_to.add(topic_partition)
        delivery = await producer.send(
            topic_partition,
            [value.encode() for value in values],
            keys=None if keys is None else [key.encode() for key in keys],
        )
        has_offset = delivery.offset >= 0
        if delivery.outcome is DeliveryOutcome.ACKNOWLEDGED:
            self._on_acknowledged()
        self.history.sends += [
            Send(
                settings,
                topic_partition,
                value,
                OUTCOMES[delivery.outcome],
                delivery.offset + place if has_offset else None,
                delivery.errors,
                None if keys is None else keys[place],
            )
            for place, value in enumerate(values)
        ]

    async def _poll(
        self, name: str, consumer: Consumer, topic_partition: TopicPartition, offset: int, *, max_wait_ms: int
    ) -> int:
        """Read once from an offset and note the records, or pause after an error; return the next offset."""
        polled = await consumer.poll(topic_partition, offset, max_wait_ms=max_wait_ms)
        read = tuple((each.offset, (each.record.value or b"").decode()) for each in polled.records)
        if read:
            self.history.polls.append(Poll(name, 1, topic_partition, read, is_final=name == _FINAL_CONSUMER))
        if polled.reason:
            await asyncio.sleep(_PAUSE_AFTER_ERROR_S)
        return polled.next_offset


def _settings(name: str, acks: int, is_idempotent: bool = True) -> SendingProducer:
    return SendingProducer(name, acks == ALL_ACKS, never_repeats=is_idempotent and acks != NO_ACKS)
