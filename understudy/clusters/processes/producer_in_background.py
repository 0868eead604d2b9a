"""`ProducerInBackground` produces to a topic from a thread of its own, and reads afterwards what was acknowledged.

It shows on real processes that no acknowledged record is lost, whatever is done to the brokers meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.connections import Connections
from understudy.clusters.clients.consumer import Consumer
from understudy.clusters.clients.producer import Outcome, Producer
from understudy.foundation.cluster.identifiers import TopicPartition

RECORDS_PER_BATCH = 10
BETWEEN_BATCHES_S = 0.2
READ_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0


class Delivered(NamedTuple):
    """What has become of the records that were acknowledged.

    Attributes:
        acknowledged: the number of records.
        missing: `value at offset of partition` for each one that is not where its acknowledgement says.
        repeated: the values that are in a partition more than once.
    """

    acknowledged: int
    missing: tuple[str, ...]
    repeated: tuple[str, ...]


class ProducerInBackground:
    """Sends batches to every partition of a topic, idempotent and with acks=all, from `start` to `stop`.

    A context manager, which stops the thread. Every partition has a producer of its own, so that those with a leader go
    on while others wait for one.

    Args:
        bootstrap: `host:port` of brokers.
    """

    def __init__(self, bootstrap: Sequence[str], topic: str, partitions: int) -> None:
        self._bootstrap = tuple(bootstrap)
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self._acknowledged: dict[TopicPartition, dict[int, bytes]] = {partition: {} for partition in self._partitions}
        """By partition, the value at each offset."""
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="understudy-producer", daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def acknowledged(self) -> int:
        """The number of records that were acknowledged so far."""
        return sum(map(len, self._acknowledged.values()))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait until every send has ended. Harmless if it has not started."""
        self._is_stopping.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_TIMEOUT_S)

    def read_again(self) -> Delivered:
        """Read every partition, and compare it with what was acknowledged. To be called after `stop`.

        Raises:
            TimeoutError: a partition could not be read to its end within a minute.
        """
        return asyncio.run(asyncio.wait_for(self._read_again(), READ_TIMEOUT_S))

    # ------------------------------------------------------------------ producing

    def _run(self) -> None:
        asyncio.run(self._produce_everywhere())

    async def _produce_everywhere(self) -> None:
        async with asyncio.TaskGroup() as group:
            for partition in self._partitions:
                group.create_task(self._produce(partition))

    async def _produce(self, partition: TopicPartition) -> None:
        connections = self._connections(f"demo-producer-{partition.partition}")
        producer = Producer(connections, MachineClock())
        acknowledged, sent = self._acknowledged[partition], 0
        # The partitions begin one after the other, so that not all of them send at the same moment.
        await asyncio.sleep(BETWEEN_BATCHES_S * partition.partition / len(self._partitions))
        while not self._is_stopping.is_set():
            values = [b"%d-%d" % (partition.partition, sent + number) for number in range(RECORDS_PER_BATCH)]
            sent += len(values)
            delivery = await producer.send(partition, values)
            if delivery.outcome is Outcome.ACKNOWLEDGED:
                acknowledged.update(enumerate(values, delivery.offset))
            await asyncio.sleep(BETWEEN_BATCHES_S)
        connections.close()

    # ------------------------------------------------------------------ reading

    async def _read_again(self) -> Delivered:
        connections = self._connections("demo-consumer")
        missing: list[str] = []
        repeated: list[str] = []
        for partition in self._partitions:
            found = await _read_to_the_end(Consumer(connections), partition)
            for offset, value in self._acknowledged[partition].items():
                if found.get(offset) != value:
                    missing.append(f"{value.decode()} at {offset} of {partition}")
            repeated += [value.decode() for value, count in Counter(found.values()).items() if count > 1]
        connections.close()
        return Delivered(self.acknowledged, tuple(missing), tuple(repeated))

    def _connections(self, client_id: str) -> Connections:
        return Connections(SocketNetwork(), self._bootstrap, client_id=client_id, timeout_ms=3_000)


async def _read_to_the_end(consumer: Consumer, partition: TopicPartition) -> dict[int, bytes]:
    """Return the value at each offset."""
    found: dict[int, bytes] = {}
    offset, end_offset = 0, None
    while end_offset is None or offset < end_offset:
        if end_offset is None:
            end_offset = await consumer.end_offset(partition)
        polled = await consumer.poll(partition, offset, max_wait_ms=100)
        offset = polled.next_offset
        found.update(polled.records)
        if polled.reason:
            await asyncio.sleep(0.1)
    return found
