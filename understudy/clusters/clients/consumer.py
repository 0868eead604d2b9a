"""Reads the records of partitions by offset, as a consumer without a group."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from understudy.clusters.clients.client_events import NOT_ANSWERED
from understudy.clusters.clients.connections import NO_ANSWER, NOT_SENT, Connections, NoLeader
from understudy.clusters.clients.record_requests import READ_COMMITTED, fetch_request, list_offsets_request
from understudy.foundation.cluster.errors import Errors, error_for_code, error_name
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import RecordBatch, batches
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord, UnsupportedMagic
from understudy.foundation.records.record import Record, records
from understudy.foundation.wire.messages.fetch import AbortedTransaction, FetchResponse, PartitionData
from understudy.foundation.wire.messages.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
)

FETCH_VERSION = 12
LIST_OFFSETS_VERSION = 7
MAX_BYTES = 1 << 20
_ABORT = b"\0\0\0\0"
"""Key of a control record for an aborted transaction: version 0, type 0."""


class Consumed(NamedTuple):
    """A record with its partition, and whether its timestamp is the time of the leader's append."""

    partition: TopicPartition
    offset: int
    record: Record
    has_log_append_time: bool


class Fetched(NamedTuple):
    """The result of a fetch for one partition.

    Attributes:
        records: ascending by offset.
        next_offset: the offset from which the next fetch reads.
        reason: the error because of which there are no records; empty if there is no error.
        error: the leader's error code; NONE also if there is no answer.
    """

    records: tuple[Consumed, ...]
    next_offset: int
    reason: str = ""
    error: Errors = Errors.NONE


class UnreadableRecords(Exception):
    """A partition's next records are damaged, or compressed in a way that Kafka does not read; the cause names it.

    Has the message of the `KafkaException` with which Kafka's consumer ends.
    """

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(
            f"Received exception when fetching the next record from {partition}. If needed, please seek past the "
            "record to continue consumption."
        )


class Consumer:
    """Reads up to the high watermark. Several polls may not run at the same time.

    Args:
        max_bytes: the size of a partition's records in one answer, beyond its first batch.
        is_read_committed: leave out the records of transactions that are open or aborted (`isolation.level`).
    """

    def __init__(
        self, connections: Connections, *, max_bytes: int = MAX_BYTES, is_read_committed: bool = False
    ) -> None:
        self._connections = connections
        self._max_bytes = max_bytes
        self._isolation_level = READ_COMMITTED if is_read_committed else 0

    async def poll(self, topic_partition: TopicPartition, offset: int, *, max_wait_ms: int = 500) -> Fetched:
        """Return the records from `offset` on; none if the leader has none or cannot be read.

        Raises:
            UnreadableRecords: the first ones cannot be read.
        """
        return (await self.fetch({topic_partition: offset}, max_wait_ms=max_wait_ms))[topic_partition]

    async def fetch(
        self, offsets: Mapping[TopicPartition, int], *, max_wait_ms: int = 500
    ) -> dict[TopicPartition, Fetched]:
        """Return the records of partitions from their offsets on, as `poll` does for one.

        Each leader gets one request; it answers when one of its partitions has a record, or after `max_wait_ms`.

        Raises:
            UnreadableRecords: the first records of a partition cannot be read.
        """
        found: dict[TopicPartition, Fetched] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for each, offset in offsets.items():
            try:
                by_leader.setdefault(await self._connections.leader_of(each), []).append(each)
            except NoLeader as failure:
                self._connections.events.reads(each, offset, None)
                found[each] = Fetched((), offset, reason=str(failure))
        answers = await asyncio.gather(
            *(
                self._fetch_from(leader, {each: offsets[each] for each in partitions}, max_wait_ms)
                for leader, partitions in by_leader.items()
            )
        )
        for answer in answers:
            found |= answer
        return found

    async def _fetch_from(
        self, leader: int, offsets: Mapping[TopicPartition, int], max_wait_ms: int
    ) -> dict[TopicPartition, Fetched]:
        """Return the records of partitions from their leader."""
        request = fetch_request(
            offsets,
            partition_max_bytes=self._max_bytes,
            max_bytes=max(self._max_bytes, MAX_BYTES),
            max_wait_ms=max_wait_ms,
            isolation_level=self._isolation_level,
        )
        events = self._connections.events
        for each, offset in offsets.items():
            events.reads(each, offset, leader)
        try:
            response = await self._connections.ask(leader, request, FETCH_VERSION, FetchResponse, wait_ms=max_wait_ms)
        except (*NOT_SENT, *NO_ANSWER) as failure:
            for each, offset in offsets.items():
                events.has_read(each, -1, 0, offset, NOT_ANSWERED)
                self._connections.forget_leader(each)
            return {each: Fetched((), offset, reason=str(failure)) for each, offset in offsets.items()}
        answered = {
            TopicPartition(topic.topic, data.partition_index): data
            for topic in response.responses
            for data in topic.partitions
        }
        return {each: self._read(each, offset, answered.get(each)) for each, offset in offsets.items()}

    def _read(self, topic_partition: TopicPartition, offset: int, data: PartitionData | None) -> Fetched:
        events = self._connections.events
        if data is None or data.error_code != Errors.NONE:
            self._connections.forget_leader(topic_partition)
            code = Errors.UNKNOWN_SERVER_ERROR if data is None else data.error_code
            events.has_read(topic_partition, -1, 0, offset, error_name(code))
            return Fetched((), offset, reason=error_name(code), error=error_for_code(code))
        aborted = (data.aborted_transactions or ()) if self._isolation_level == READ_COMMITTED else ()
        found: list[Consumed] = []
        next_offset = offset
        try:
            for batch, is_read in committed(batches(data.records or b""), aborted):
                if is_read:
                    found += (
                        Consumed(topic_partition, record.offset, record, batch.header.has_log_append_time)
                        for record in records(batch)
                        if record.offset >= offset
                    )
                # Not by the last record: compaction may have removed the records at the end of a batch.
                next_offset = max(offset, batch.header.next_offset)
        except (CorruptRecord, InvalidRecord, UnsupportedMagic) as error:
            if not found:
                raise UnreadableRecords(topic_partition) from error
            next_offset = max(next_offset, found[-1].offset + 1)
        events.has_read(topic_partition, found[0].offset if found else -1, len(found), next_offset)
        return Fetched(tuple(found), next_offset)

    async def end_offset(self, topic_partition: TopicPartition) -> int | None:
        """Return the offset after the last committed record; None if no leader returns it now.

        A new leader's high watermark may be behind the former leader's. A Fetch does not show this; ListOffsets is
        refused until the new leader has caught up (KIP-207).
        """
        return await self.offset_at(topic_partition, LATEST_TIMESTAMP)

    async def is_end_unavailable(self, topic_partition: TopicPartition) -> bool:
        """Return whether the leader's high watermark has not caught up with the former leader's (KIP-207)."""
        answer = await self._list_offset(topic_partition, LATEST_TIMESTAMP)
        return answer is not None and answer.error_code == Errors.OFFSET_NOT_AVAILABLE

    async def offset_at(self, topic_partition: TopicPartition, timestamp: int) -> int | None:
        """Return the offset at a timestamp, or at one of the constants of ListOffsets; None as `end_offset`."""
        answer = await self._list_offset(topic_partition, timestamp)
        return answer.offset if answer is not None and answer.error_code == Errors.NONE else None

    async def _list_offset(
        self, topic_partition: TopicPartition, timestamp: int
    ) -> ListOffsetsPartitionResponse | None:
        """Return the leader's answer; None if there is none. After an error the leader is looked up again."""
        request = list_offsets_request({topic_partition: timestamp}, isolation_level=self._isolation_level)
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
        return answer


def committed(
    found: Iterable[RecordBatch], aborted: Sequence[AbortedTransaction]
) -> Iterator[tuple[RecordBatch, bool]]:
    """Yield batches, and whether a consumer with `read_committed` reads them.

    Mirrors `CompletedFetch.nextFetchedRecord`.

    Args:
        aborted: the aborted transactions that the leader has named for these batches.
    """
    beginning = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    open_ones: set[int] = set()
    for batch in found:
        header = batch.header
        while beginning and beginning[-1].first_offset <= header.last_offset:
            open_ones.add(beginning.pop().producer_id)
        if header.is_control:
            if header.producer_id in open_ones and any(record.key == _ABORT for record in records(batch)):
                open_ones.discard(header.producer_id)
            yield batch, False
        else:
            yield batch, not (header.is_transactional and header.producer_id in open_ones)
