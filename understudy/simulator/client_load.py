"""Producers and consumers of a simulated cluster, and the history of what they have seen.

Producers send small batches while faults are injected, two with acks=all and one with acks=1; consumers read along.
After the faults, every partition is read from its beginning to its end. `understudy.checkers.client_history` judges the
history.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Coroutine, Iterable

from foundation.cluster.errors import ApiError
from foundation.cluster.identifiers import TopicPartition
from foundation.eventlog.lines import decode_record
from understudy.admin_client import NoBrokerAnswers
from understudy.checkers.client_history import ClientHistory, Outcome, Poll, Send
from understudy.checkers.client_history import Producer as ProducerSettings
from understudy.checkers.replica_logs import partitions_that_may_have_lost
from understudy.clients import producer as producing
from understudy.clients.connections import Connections
from understudy.clients.consumer import Consumer
from understudy.clients.producer import ALL_ACKS, Delivery, Producer
from understudy.simulator.cluster import PORT, SimulatedCluster
from understudy.simulator.workload import CLIENTS_TOPICS

TOPIC, DELETED_TOPIC = CLIENTS_TOPICS
_NAME = f'"{TOPIC}"'.encode()
PARTITIONS = 2
MIN_INSYNC_REPLICAS = 2
LEADER_ALONE = 1
"""The acks of a producer that may lose records when their leader ends."""
_CHANGED_UNTIL_MS = 20_000
"""When topics are reassigned and deleted at the latest."""
_FINAL_READ_TIMEOUT_MS = 60_000

_OUTCOMES = {
    producing.Outcome.ACKNOWLEDGED: Outcome.OK,
    producing.Outcome.REFUSED: Outcome.FAIL,
    producing.Outcome.UNKNOWN: Outcome.INFO,
}


class ClientLoad:
    """Three producers and a consumer of one topic, and a producer of a topic that is deleted.

    Args:
        source: decides when and how much they send.
    """

    def __init__(self, cluster: SimulatedCluster, source: random.Random) -> None:
        self.history = ClientHistory()
        self._cluster = cluster
        self._source = source
        self._partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        self._is_stopping = False
        self._running = 0
        self._next_value = 0

    def start(self) -> None:
        """Create the topic, and begin to send and to read."""
        configs = {"min.insync.replicas": str(MIN_INSYNC_REPLICAS)}
        self._cluster.ask(
            self._cluster.admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3, configs=configs)
        )
        for number, acks in ((1, ALL_ACKS), (2, ALL_ACKS), (3, LEADER_ALONE)):
            settings = ProducerSettings(f"producer-{number}", waits_for_all=acks == ALL_ACKS)
            self._begin(self._produce(settings, acks, random.Random(self._source.getrandbits(32))))
        self._begin(self._consume("consumer-1"))
        for _ in range(self._source.randint(0, 3)):
            self._cluster.after(self._source.randint(1_000, _CHANGED_UNTIL_MS), self._reassign)
        self._begin(self._delete_records(self._source.uniform(1, _CHANGED_UNTIL_MS / 1000)))

    async def _delete_records(self, after_s: float) -> None:
        """Produce to a topic of its own, and delete it with its records after `after_s`."""
        admin = self._cluster.admin
        with contextlib.suppress(ApiError, NoBrokerAnswers):
            await admin.create_topic(DELETED_TOPIC, partitions=1, replication_factor=2)
            connections = self._connections("producer-4")
            producer = Producer(connections, self._cluster.simulator.clock, delivery_timeout_ms=3_000)
            for _ in range(3):
                await producer.send(TopicPartition(DELETED_TOPIC, 0), [b"to be deleted"])
            connections.close()
            await asyncio.sleep(after_s)
            await admin.delete_topics(DELETED_TOPIC)

    def _reassign(self) -> None:
        """Move a partition to other brokers, or to the same ones in another order."""
        brokers = list(self._cluster.broker_ids)
        partition = self._source.choice(self._partitions)
        replicas = self._source.sample(brokers, min(3, len(brokers)))
        self._cluster.begin(self._cluster.admin.alter_partition_reassignments({partition: replicas}))

    def stop(self) -> None:
        """Send no more; wait until every send has ended, then read everything."""
        self._is_stopping = True
        self._cluster.wait_until(lambda: self._running == 0, "the producers and consumers have ended")
        self._cluster.ask(self._read_all())
        self._note_losses()

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        self._running += 1
        self._cluster.begin(self._counted(work))

    async def _counted(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        finally:
            self._running -= 1

    def _connections(self, client_id: str) -> Connections:
        bootstrap = [f"{broker.node.name}:{PORT}" for broker in self._cluster.brokers]
        return Connections(self._cluster.client_network, bootstrap, client_id=client_id, timeout_ms=2_000)

    async def _produce(self, settings: ProducerSettings, acks: int, source: random.Random) -> None:
        connections = self._connections(settings.name)
        producer = Producer(connections, self._cluster.simulator.clock, acks=acks, request_timeout_ms=2_000)
        while not self._is_stopping:
            topic_partition = source.choice(self._partitions)
            values = [f"{settings.name}-{self._number()}" for _ in range(source.randint(1, 3))]
            delivery = await producer.send(topic_partition, [value.encode() for value in values])
            self._note(settings, topic_partition, values, delivery)
            await asyncio.sleep(source.uniform(0.1, 1.0))
        connections.close()

    def _number(self) -> int:
        self._next_value += 1
        return self._next_value

    def _note(
        self, settings: ProducerSettings, topic_partition: TopicPartition, values: list[str], delivery: Delivery
    ) -> None:
        for place, value in enumerate(values):
            offset = delivery.offset + place if delivery.outcome is producing.Outcome.ACKNOWLEDGED else None
            self.history.sends.append(
                Send(
                    settings,
                    (topic_partition.topic, topic_partition.partition),
                    value,
                    _OUTCOMES[delivery.outcome],
                    offset,
                )
            )

    async def _consume(self, name: str) -> None:
        connections = self._connections(name)
        consumer = Consumer(connections)
        offsets = dict.fromkeys(self._partitions, 0)
        while not self._is_stopping:
            for topic_partition in self._partitions:
                polled = await consumer.poll(topic_partition, offsets[topic_partition], max_wait_ms=1_000)
                offsets[topic_partition] = polled.next_offset
                self._note_poll(name, topic_partition, polled.records, is_final=False)
                if polled.reason:
                    await asyncio.sleep(0.2)
        connections.close()

    async def _read_all(self) -> None:
        connections = self._connections("consumer-2")
        consumer = Consumer(connections)
        deadline_ms = self._cluster.now_ms + _FINAL_READ_TIMEOUT_MS
        for topic_partition in self._partitions:
            offset, end_offset = 0, None
            while (end_offset is None or offset < end_offset) and self._cluster.now_ms < deadline_ms:
                if end_offset is None:
                    end_offset = await consumer.end_offset(topic_partition)
                polled = await consumer.poll(topic_partition, offset, max_wait_ms=100)
                offset = polled.next_offset
                self._note_poll("consumer-2", topic_partition, polled.records, is_final=True)
                if polled.reason:
                    await asyncio.sleep(0.2)
            if end_offset is not None and offset >= end_offset:
                self.history.read_to_the_end.add((topic_partition.topic, topic_partition.partition))
        connections.close()

    def _note_poll(
        self,
        consumer: str,
        topic_partition: TopicPartition,
        found: Iterable[tuple[int, bytes]],
        *,
        is_final: bool,
    ) -> None:
        read = tuple((offset, value.decode()) for offset, value in found)
        if read:
            self.history.polls.append(
                Poll(consumer, 1, (topic_partition.topic, topic_partition.partition), read, is_final)
            )

    def _note_losses(self) -> None:
        """Excuse the partitions whose leader may have lacked acknowledged records when it was elected."""
        records = (decode_record(line) for line in self._cluster.log_lines if _NAME in line)
        self.history.may_have_lost |= {key for key in partitions_that_may_have_lost(records) if key[0] == TOPIC}
