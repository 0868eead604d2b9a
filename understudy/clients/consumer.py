"""Reads the records of partitions by offset, as a consumer without a group."""

from __future__ import annotations

from typing import NamedTuple

from foundation.cluster.errors import Errors, error_name
from foundation.cluster.identifiers import TopicPartition
from foundation.records.batch import batches
from foundation.records.record import records
from foundation.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from foundation.wire.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from understudy.clients.connections import NO_ANSWER, NOT_SENT, Connections, NoLeader

FETCH_VERSION = 12
LIST_OFFSETS_VERSION = 7
MAX_BYTES = 1 << 20


class Polled(NamedTuple):
    """What a poll brought.

    Attributes:
        records: (offset, value), ascending.
        next_offset: where the next poll goes on.
        reason: the error because of which there are no records; empty without one.
    """

    records: tuple[tuple[int, bytes], ...]
    next_offset: int
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
            return Polled((), offset, reason=str(failure))
        data = response.responses[0].partitions[0]
        if data.error_code != Errors.NONE:
            self._connections.forget_leader(topic_partition)
            return Polled((), offset, reason=error_name(data.error_code))
        fetched = list(batches(data.records or b""))
        found = tuple(
            (record.offset, record.value or b"")
            for batch in fetched
            if not batch.header.is_control
            for record in records(batch)
            if record.offset >= offset
        )
        # Not by the last record: compaction may have removed those at the end of a batch.
        return Polled(found, max(offset, fetched[-1].header.next_offset) if fetched else offset)

    async def end_offset(self, topic_partition: TopicPartition) -> int | None:
        """Return the offset after the last committed record; None where no leader can say it now.

        A new leader's high watermark may be behind that of the leader before. A Fetch does not show it; ListOffsets is
        refused until it has caught up (KIP-207).
        """
        partition = ListOffsetsPartition(partition_index=topic_partition.partition, timestamp=LATEST_TIMESTAMP)
        request = ListOffsetsRequest(
            replica_id=-1, topics=(ListOffsetsTopic(name=topic_partition.topic, partitions=(partition,)),)
        )
        try:
            response = await self._connections.ask_leader(
                topic_partition, request, LIST_OFFSETS_VERSION, ListOffsetsResponse
            )
        except (NoLeader, *NOT_SENT, *NO_ANSWER):
            self._connections.forget_leader(topic_partition)
            return None
        answer = response.topics[0].partitions[0]
        if answer.error_code != Errors.NONE:
            self._connections.forget_leader(topic_partition)
            return None
        return answer.offset
