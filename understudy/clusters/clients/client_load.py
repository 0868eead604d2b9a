"""`ClientLoad`: producers and consumers of a cluster, over the `Network` port, and the history of what they have seen.

Producers send small batches while faults are injected; consumers read along. After the faults, every partition is read
from its beginning to its end. `understudy.checks.client_history` judges the history. It runs on any event loop: that
of a simulation, or that of a thread beside real processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from understudy.checks.client_history import ClientHistory, Outcome, Poll, Send
from understudy.checks.client_history import Producer as ProducerSettings
from understudy.clusters.clients import producer as producing
from understudy.clusters.clients.connections import Connections, NoLeader
from understudy.clusters.clients.consumer import Consumer
from understudy.clusters.clients.producer import ALL_ACKS, Delivery, Producer
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.wire.network import Network

FINAL_READ_TIMEOUT_MS = 60_000
_TIMEOUT_MS = 2_000
_PAUSE_AFTER_ERROR_S = 0.2
_FINAL_CONSUMER = "final-consumer"

_OUTCOMES = {
    producing.Outcome.ACKNOWLEDGED: Outcome.OK,
    producing.Outcome.REFUSED: Outcome.FAIL,
    producing.Outcome.UNKNOWN: Outcome.INFO,
}


class ClientLoad:
    """Producers and consumers of some partitions.

    Args:
        bootstrap: `host:port` of brokers; a function, because brokers of real processes get their ports late.
        keys: those of the records, one of which is drawn for each, where the topics are compacted; else none.
        history: the one to add to; by default a new one.
        on_acknowledged: called with the time, in monotonic ms, of each acknowledged batch.
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
        on_acknowledged: Callable[[float], None] = lambda now_ms: None,
    ) -> None:
        self.history = ClientHistory() if history is None else history
        self.is_stopping = False
        self._network = network
        self._clock = clock
        self._bootstrap = bootstrap
        self._partitions = tuple(partitions)
        self._keys = tuple(keys)
        if keys:
            self.history.compacted |= {(each.topic, each.partition) for each in partitions}
        self._on_acknowledged = on_acknowledged
        self._next_value = 0

    async def produce(
        self, name: str, acks: int, source: random.Random, *, gap_s: Callable[[random.Random], float]
    ) -> None:
        """Send batches of one to three records to partitions that `source` draws, until `is_stopping`.

        Args:
            gap_s: draws the pause after each batch.
        """
        settings = ProducerSettings(name, waits_for_all=acks == ALL_ACKS)
        connections = self._connections(name)
        producer = Producer(connections, self._clock, acks=acks, request_timeout_ms=_TIMEOUT_MS)
        while not self.is_stopping:
            topic_partition = source.choice(self._partitions)
            values = [f"{name}-{self._number()}" for _ in range(source.randint(1, 3))]
            keys = [source.choice(self._keys) for _ in values] if self._keys else None
            delivery = await producer.send(
                topic_partition,
                [value.encode() for value in values],
                keys=None if keys is None else [key.encode() for key in keys],
            )
            self._note(settings, topic_partition, values, delivery, keys)
            await asyncio.sleep(gap_s(source))
        connections.close()

    async def send_once(self, name: str, acks: int, topic_partition: TopicPartition, count: int) -> None:
        """Send one batch of `count` records to a partition."""
        settings = ProducerSettings(name, waits_for_all=acks == ALL_ACKS)
        connections = self._connections(name)
        producer = Producer(connections, self._clock, acks=acks, request_timeout_ms=_TIMEOUT_MS)
        values = [f"{name}-{self._number()}" for _ in range(count)]
        delivery = await producer.send(topic_partition, [value.encode() for value in values])
        self._note(settings, topic_partition, values, delivery)
        connections.close()

    async def consume(self, name: str) -> None:
        """Read every partition from its beginning, until `is_stopping`."""
        connections = self._connections(name)
        consumer = Consumer(connections)
        offsets = dict.fromkeys(self._partitions, 0)
        while not self.is_stopping:
            for topic_partition in self._partitions:
                polled = await consumer.poll(topic_partition, offsets[topic_partition], max_wait_ms=1_000)
                offsets[topic_partition] = polled.next_offset
                self._note_poll(name, topic_partition, polled.records, is_final=False)
                if polled.reason:
                    await asyncio.sleep(_PAUSE_AFTER_ERROR_S)
        connections.close()

    async def read_all(self) -> None:
        """Read every partition to its end, within a minute; to be called after the last fault.

        A partition without an end is asked again after the others have been read.
        """
        connections = self._connections(_FINAL_CONSUMER)
        consumer = Consumer(connections)
        deadline_ms = self._clock.monotonic_ms() + FINAL_READ_TIMEOUT_MS
        unread = deque(self._partitions)
        unfinished: list[TopicPartition] = []
        while unread and self._clock.monotonic_ms() < deadline_ms:
            topic_partition = unread.popleft()
            end_offset = await consumer.end_offset(topic_partition)
            if end_offset is None:
                unread.append(topic_partition)
                await asyncio.sleep(_PAUSE_AFTER_ERROR_S)
            elif await self._read_to(consumer, topic_partition, end_offset, deadline_ms):
                self.history.read_to_the_end.add((topic_partition.topic, topic_partition.partition))
            else:
                unfinished.append(topic_partition)
        for topic_partition in (*unfinished, *unread):
            with contextlib.suppress(NoLeader):
                await self._note_why_unread(connections, consumer, topic_partition)
        connections.close()

    async def _read_to(
        self, consumer: Consumer, topic_partition: TopicPartition, end_offset: int, deadline_ms: float
    ) -> bool:
        """Read a partition from its beginning, and return whether its end was reached before the deadline."""
        offset = 0
        while offset < end_offset and self._clock.monotonic_ms() < deadline_ms:
            polled = await consumer.poll(topic_partition, offset, max_wait_ms=100)
            offset = polled.next_offset
            self._note_poll(_FINAL_CONSUMER, topic_partition, polled.records, is_final=True)
            if polled.reason:
                await asyncio.sleep(_PAUSE_AFTER_ERROR_S)
        return offset >= end_offset

    async def _note_why_unread(
        self, connections: Connections, consumer: Consumer, topic_partition: TopicPartition
    ) -> None:
        """Note a partition without a leader, or one whose end its leader refuses to say while no follower is in sync.

        Raises:
            NoLeader: no broker answers.
        """
        partition = (topic_partition.topic, topic_partition.partition)
        in_sync = await connections.in_sync_replicas(topic_partition)
        if not in_sync:
            self.history.without_leader.add(partition)
        elif len(in_sync) == 1 and await consumer.is_end_unavailable(topic_partition):
            self.history.without_end.add(partition)

    def _connections(self, client_id: str) -> Connections:
        return Connections(self._network, self._bootstrap(), client_id=client_id, timeout_ms=_TIMEOUT_MS)

    def _number(self) -> int:
        self._next_value += 1
        return self._next_value

    def _note(
        self,
        settings: ProducerSettings,
        topic_partition: TopicPartition,
        values: list[str],
        delivery: Delivery,
        keys: list[str] | None = None,
    ) -> None:
        is_acknowledged = delivery.outcome is producing.Outcome.ACKNOWLEDGED
        if is_acknowledged:
            self._on_acknowledged(self._clock.monotonic_ms())
        partition = (topic_partition.topic, topic_partition.partition)
        outcome = _OUTCOMES[delivery.outcome]
        self.history.sends += [
            Send(
                settings,
                partition,
                value,
                outcome,
                delivery.offset + place if is_acknowledged else None,
                delivery.errors,
                None if keys is None else keys[place],
            )
            for place, value in enumerate(values)
        ]

    def _note_poll(
        self, consumer: str, topic_partition: TopicPartition, found: Iterable[tuple[int, bytes]], *, is_final: bool
    ) -> None:
        read = tuple((offset, value.decode()) for offset, value in found)
        if read:
            partition = (topic_partition.topic, topic_partition.partition)
            self.history.polls.append(Poll(consumer, 1, partition, read, is_final))
