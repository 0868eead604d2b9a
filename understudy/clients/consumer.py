"""Reads the records of partitions by offset, as a consumer without a group."""

from __future__ import annotations

from typing import NamedTuple

from foundation.cluster.errors import Errors, error_name
from foundation.cluster.identifiers import TopicPartition
from foundation.records.batch import batches
from foundation.records.record import records
from foundation.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from understudy.clients.connections import NO_ANSWER, NOT_SENT, Connections, NoLeader

FETCH_VERSION = 12
MAX_BYTES = 1 << 20


class Polled(NamedTuple):
    """What a poll brought.

    Attributes:
        records: (offset, value), ascending.
        next_offset: where the next poll goes on.
        is_at_end: whether the high watermark has been reached.
        reason: the error because of which there are no records; empty without one.
    """

    records: tuple[tuple[int, bytes], ...]
    next_offset: int
    is_at_end: bool
    reason: str = ""


class Consumer:
    """Reads up to the high watermark. Several polls may not run at the same time."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def poll(self, topic_partition: TopicPartition, offset: int, *, max_wait_ms: int = 500) -> Polled:
        """Return the records from `offset` on; none where the leader has none or cannot be read."""
        partition = FetchPartition(
            partition=topic_partition.partition, fetch_offset=offset, partition_max_bytes=MAX_BYTES
        )
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            topics=(FetchTopic(topic=topic_partition.topic, partitions=(partition,)),),
        )
        try:
            response = await self._connections.ask_leader(
                topic_partition, request, FETCH_VERSION, FetchResponse, wait_ms=max_wait_ms
            )
        except (NoLeader, *NOT_SENT, *NO_ANSWER) as failure:
            self._connections.forget_leader(topic_partition)
            return Polled((), offset, is_at_end=False, reason=str(failure))
        data = response.responses[0].partitions[0]
        if data.error_code != Errors.NONE:
            self._connections.forget_leader(topic_partition)
            return Polled((), offset, is_at_end=False, reason=error_name(data.error_code))
        found = tuple(
            (record.offset, record.value or b"")
            for batch in batches(data.records or b"")
            if not batch.header.is_control
            for record in records(batch)
            if record.offset >= offset
        )
        next_offset = found[-1][0] + 1 if found else offset
        return Polled(found, next_offset, is_at_end=next_offset >= data.high_watermark)
