"""`SoakClients`: a producer and a consumer for each partition of the soak's topic, on a `LoopThread`."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.checks.partition_clients import ClientCounts, PartitionClients
from understudy.clusters.clients.consumer import Consumer
from understudy.clusters.clients.load import TIMEOUT_MS, Load
from understudy.clusters.clients.producer import DeliveryOutcome, Producer
from understudy.clusters.processes.loop_thread import LoopThread
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.times import duration

BATCH: Final = 5
BETWEEN_BATCHES_S: Final = 0.25
DELIVERY_TIMEOUT_MS: Final = 120_000
"""Time for which a batch is sent again before its outcome counts as unknown, as Kafka's `delivery.timeout.ms`."""
AGAIN_AFTER_MS: Final = 60_000.0
"""Time between the first and the second reading of a record."""
RECENT_MS: Final = 3_000.0
MOST_ON_ITS_WAY: Final = 10 * BATCH
_AFTER_ERROR_S: Final = 0.2
_END_TIMEOUT_S: Final = 60.0
_START_TIMEOUT_S: Final = 70.0


class TopicBehind(Exception):
    """A partition ends before the last record that was acknowledged. The message names it and both offsets."""


class TopicNotReadable(Exception):
    """A partition's end could not be read within a minute."""


class SoakClients(Load):
    """The clients of one session of a soak, from `start` to `stop`.

    Args:
        session: the number of the session, from 1.
        ends: the offset after the last record acknowledged in earlier sessions, by `TOPIC-NUMBER`.
    """

    def __init__(
        self,
        bootstrap: Callable[[], Sequence[str]],
        partitions: Sequence[TopicPartition],
        session: int,
        ends: Mapping[str, int],
    ) -> None:
        super().__init__(SocketNetwork(), MachineClock(), bootstrap)
        self._partitions = tuple(partitions)
        self._session = session
        self._ends = dict(ends)
        self._lock = threading.Lock()
        self._seen: dict[TopicPartition, PartitionClients] = {}
        self._trouble: dict[TopicPartition, str] = {}
        """Why a partition cannot be read now."""
        self._thread = LoopThread("understudy-soak")

    def start(self) -> None:
        """Find the end of every partition, and begin.

        Raises:
            TopicBehind: a partition ends before the last record that was acknowledged.
            TopicNotReadable: no leader gave the end of a partition.
        """
        try:
            self._thread.ask(self._find_ends(), _START_TIMEOUT_S)
        except TimeoutError:
            raise TopicNotReadable("the clients did not begin in time") from None
        for place, (partition, seen) in enumerate(self._seen.items()):
            self._thread.begin(self._produce(partition, seen, BETWEEN_BATCHES_S * place / len(self._seen)))
            self._thread.begin(self._consume(partition, seen))
            self._thread.begin(self._read_again(partition, seen))

    def stop(self) -> None:
        """End the clients; the outcome of batches in flight stays unknown. Harmless if they have not started."""
        self._thread.close()

    # ------------------------------------------------------------------ what they have seen

    def counts(self) -> ClientCounts:
        """Return the counts since the last call."""
        found = ClientCounts()
        with self._lock:
            for seen in self._seen.values():
                found.add(seen.take_counts(self._clock.monotonic_ms()))
        return found

    def violation(self) -> str:
        """Return the first invariant that clients have seen violated, and how; empty if all hold."""
        if self._thread.failure is not None:
            return f"no-failure violated by the clients: they have ended: {self._thread.failure!r}"
        with self._lock:
            found = [seen.violation for seen in self._seen.values() if seen.violation is not None]
        return f"{found[0].check} violated by the clients: {found[0].where}: {found[0].witness}" if found else ""

    def ends(self) -> dict[str, int]:
        """Return the offset after the last acknowledged record, by `TOPIC-NUMBER`."""
        with self._lock:
            return {**self._ends, **{seen.name: seen.acknowledged_end for seen in self._seen.values()}}

    def waiting(self) -> str:
        """Return why clients make no progress now; empty if they do.

        They do if a record of every partition was acknowledged just now, and all acknowledged records but the newest
        have been read.
        """
        with self._lock:
            for partition, seen in self._seen.items():
                if (gap_ms := self._clock.monotonic_ms() - seen.acknowledged_ms) > RECENT_MS:
                    return f"no record of {seen.name} was acknowledged for {duration(gap_ms)}"
                if seen.unread > MOST_ON_ITS_WAY:
                    why = self._trouble.get(partition, "")
                    return f"{seen.unread} acknowledged records of {seen.name} were not read yet{why and ': '}{why}"
        return ""

    # ------------------------------------------------------------------ on the thread

    async def _find_ends(self) -> None:
        """Find the end of each partition, and compare it with the records acknowledged in earlier sessions."""
        found = {}
        with self.client("soak-begin") as connections:
            for partition in self._partitions:
                name, end = str(partition), await self._find_end(Consumer(connections), partition)
                last = self._ends.get(name, 0) - 1
                if end <= last:
                    raise TopicBehind(f"H1: {name} ends at {end}, though records up to {last} were acknowledged before")
                found[partition] = PartitionClients(name, self._session, end, self._clock.monotonic_ms())
        with self._lock:
            self._seen = found

    async def _find_end(self, consumer: Consumer, partition: TopicPartition) -> int:
        deadline_ms = self._clock.monotonic_ms() + _END_TIMEOUT_S * 1000
        while (end := await consumer.end_offset(partition)) is None:
            if self._clock.monotonic_ms() > deadline_ms:
                raise TopicNotReadable(f"no leader of {partition} has said where it ends within {_END_TIMEOUT_S:g} s")
            await asyncio.sleep(_AFTER_ERROR_S)
        return end

    async def _produce(self, partition: TopicPartition, seen: PartitionClients, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        with self.client(f"soak-producer-{partition.partition}") as connections:
            producer = Producer(
                connections, self._clock, request_timeout_ms=TIMEOUT_MS, delivery_timeout_ms=DELIVERY_TIMEOUT_MS
            )
            while True:
                if not seen.must_wait:
                    with self._lock:
                        values = seen.send(BATCH)
                    delivery = await producer.send(partition, values)
                    with self._lock:
                        seen.counts.add(ClientCounts(errors=Counter(delivery.errors)))
                        if delivery.outcome is DeliveryOutcome.ACKNOWLEDGED:
                            seen.acknowledge(delivery.offset, self._clock.monotonic_ms())
                        elif delivery.outcome is DeliveryOutcome.REFUSED:
                            seen.refuse()
                        else:
                            seen.give_up()
                await asyncio.sleep(BETWEEN_BATCHES_S)

    async def _consume(self, partition: TopicPartition, seen: PartitionClients) -> None:
        with self.client(f"soak-consumer-{partition.partition}") as connections:
            consumer = Consumer(connections)
            while True:
                polled = await consumer.poll(partition, seen.next_offset, max_wait_ms=500)
                with self._lock:
                    for each in polled.records:
                        seen.read(each.offset, each.record.value or b"", self._clock.monotonic_ms())
                    self._trouble[partition] = polled.reason
                if polled.reason:
                    await asyncio.sleep(_AFTER_ERROR_S)

    async def _read_again(self, partition: TopicPartition, seen: PartitionClients) -> None:
        with self.client(f"soak-second-consumer-{partition.partition}") as connections:
            consumer = Consumer(connections)
            while True:
                await asyncio.sleep(1.0)
                with self._lock:
                    offset = seen.due_again(self._clock.monotonic_ms() - AGAIN_AFTER_MS)
                if offset is not None:
                    polled = await consumer.poll(partition, offset, max_wait_ms=100)
                    with self._lock:
                        for each in polled.records:
                            seen.read_again(each.offset, each.record.value or b"")
