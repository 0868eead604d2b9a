"""`MirrorProgress` stores the state of each partition, for a restart, in a compacted topic of the target.

One record for each copied partition has the runs of its `MirroredOffsets`, its producer, and the offset up to which
its copy was acknowledged. A record is acknowledged by all in-sync replicas, as the copies are, before any record that
depends on it is sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from understudy.clusters.clients.connections import Connections
from understudy.clusters.clients.consumer import Consumer
from understudy.clusters.clients.producer import DeliveryOutcome, Producer
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.kafka_tools.mirror.errors import MirrorError
from understudy.kafka_tools.mirror.offset_map import Run

TOPIC: Final = "understudy-mirror.internal"
"""Topic of the progress; Kafka's own mirrors leave out topics whose names end like this (`DefaultTopicFilter`)."""
CONFIGS: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}
_PARTITION: Final = TopicPartition(TOPIC, 0)
_RECORDS_AT_ONCE: Final = 100
_TRIES: Final = 40


class Writer(NamedTuple):
    """The producer of one copied partition.

    Attributes:
        start: the target offset whose record has sequence number 0.
    """

    producer_id: int
    producer_epoch: int
    start: int


class Saved(NamedTuple):
    """The stored progress of one partition.

    Attributes:
        topic_id: the id of the source's topic, which changes when the topic is created again.
        confirmed: the target offset up to which the copy was acknowledged.
    """

    topic_id: str
    writer: Writer
    confirmed: int
    runs: tuple[Run, ...]


class MirrorProgress:
    """Reads and writes the progress of copies from one source.

    Args:
        source: the id of the source's cluster; a target may have copies of several.
    """

    def __init__(self, connections: Connections, clock: Clock, source: str) -> None:
        self._consumer = Consumer(connections)
        self._producer = Producer(connections, clock, request_timeout_ms=10_000, delivery_timeout_ms=60_000)
        self._source = source

    async def load(self) -> dict[tuple[TopicPartition, TopicPartition], Saved]:
        """Return the stored progress, by partition of the source and of the target; raises MirrorError."""
        found = {}
        offset, failures = 0, 0
        while (end := await self._consumer.end_offset(_PARTITION)) is None or offset < end:
            polled = await self._consumer.poll(_PARTITION, offset)
            for each in polled.records:
                if (item := _decoded(each.record.value or b"", self._source)) is not None:
                    found[item[0]] = item[1]
            failures = 0 if polled.next_offset > offset else failures + 1
            if failures > _TRIES:
                raise MirrorError(f"the topic {TOPIC} of the target cannot be read: {polled.reason or 'no records'}")
            offset = polled.next_offset
        return found

    async def save(self, changed: Mapping[tuple[TopicPartition, TopicPartition], Saved]) -> None:
        """Store the changed progress; return when all in-sync replicas have it. Raises MirrorError."""
        items = list(changed.items())
        for start in range(0, len(items), _RECORDS_AT_ONCE):
            chosen = items[start : start + _RECORDS_AT_ONCE]
            keys = [self._key(*key) for key, _ in chosen]
            values = [_encoded(self._source, key, saved) for key, saved in chosen]
            delivery = await self._producer.send(_PARTITION, values, keys=keys)
            if delivery.outcome is not DeliveryOutcome.ACKNOWLEDGED:
                raise MirrorError(f"the topic {TOPIC} of the target takes no records: {delivery.reason}")

    def _key(self, source: TopicPartition, target: TopicPartition) -> bytes:
        return json.dumps([self._source, source.topic, target.topic, source.partition]).encode()


def _encoded(source: str, key: tuple[TopicPartition, TopicPartition], saved: Saved) -> bytes:
    copied, copy = key
    fields = {
        "source": source,
        "topic": copied.topic,
        "copy": copy.topic,
        "partition": copied.partition,
        **saved._asdict(),
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def _decoded(value: bytes, source: str) -> tuple[tuple[TopicPartition, TopicPartition], Saved] | None:
    """Return key and content of a record; None for one of another source. Raises MirrorError for another content."""
    try:
        fields = json.loads(value)
        if fields["source"] != source:
            return None
        number = fields["partition"]
        key = TopicPartition(fields["topic"], number), TopicPartition(fields["copy"], number)
        runs = tuple(Run(*run) for run in fields["runs"])
        return key, Saved(fields["topic_id"], Writer(*fields["writer"]), fields["confirmed"], runs)
    except (ValueError, KeyError, TypeError) as error:
        raise MirrorError(
            f"the topic {TOPIC} of the target has a record that is no progress of a mirror ({error!r}): "
            f"{value[:80]!r}; delete the topic together with the copies, and begin anew"
        ) from None
