"""Reads partitions from the source and appends them to the target, one request to a leader for many partitions.

Each answer decides for a partition whether to continue, to look at the log's end again, or to stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from understudy.clusters.clients.connections import NO_ANSWER, NOT_SENT, Connections, NoLeader
from understudy.clusters.clients.producer import ALL_ACKS, PRODUCE_AGAIN
from understudy.clusters.clients.record_requests import OFFSETS_LATER, READ_COMMITTED, fetch_request, produce_request
from understudy.foundation.cluster.errors import Errors, error_for_code, error_name
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import NO_LEADER_EPOCH, batches
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord, UnsupportedMagic
from understudy.foundation.wire.messages.fetch import FetchResponse, PartitionData
from understudy.foundation.wire.messages.produce import PartitionProduceResponse, ProduceResponse
from understudy.kafka_tools.mirror.batches import SEQUENCE_MASK
from understudy.kafka_tools.mirror.copies import PartitionCopy
from understudy.kafka_tools.mirror.errors import MirrorError
from understudy.kafka_tools.mirror.progress import Writer

FETCH_VERSION, PRODUCE_VERSION = 12, 9
"""Versions of Kafka 2.7 and 2.8: the oldest that name the last epoch read and have flexible fields."""
PARTITION_BYTES: Final = 4 << 20
REQUEST_BYTES: Final = 8 << 20
PRODUCE_TIMEOUT_MS: Final = 10_000
BACKOFF_S: Final = 0.1

_LATER: Final = (
    PRODUCE_AGAIN
    | OFFSETS_LATER
    | {
        Errors.UNKNOWN_TOPIC_ID,
        Errors.REPLICA_NOT_AVAILABLE,
        Errors.NETWORK_EXCEPTION,
        Errors.THROTTLING_QUOTA_EXCEEDED,
    }
)
_LOG_IS_ANOTHER: Final = frozenset({Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, Errors.INVALID_PRODUCER_EPOCH, 46, 59})
"""Errors of Produce if the target's log does not end at the offset that the mirror expects; brokers of earlier releases
answer 46 and 59, DUPLICATE_SEQUENCE_NUMBER and UNKNOWN_PRODUCER_ID."""
_TOO_LARGE: Final = frozenset({Errors.MESSAGE_TOO_LARGE, Errors.RECORD_LIST_TOO_LARGE})
_UNKNOWN: Final = frozenset({Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.UNKNOWN_TOPIC_ID})

FAILURES: Final = (NoLeader, *NOT_SENT, *NO_ANSWER)


class Reader:
    """Reads from the source's leaders.

    Args:
        on_missing: called if a leader does not know a topic, which may have been deleted.
    """

    def __init__(self, connections: Connections, on_missing: Callable[[], None]) -> None:
        self._connections = connections
        self._on_missing = on_missing
        self._turn = 0

    async def read(self, leader: int, copies: Sequence[PartitionCopy], *, max_bytes: int, wait_ms: int) -> int:
        """Fetch the records of partitions from one leader; return the number of bytes read."""
        asked = {copy.source: copy for copy in copies}
        self._turn += 1
        positions = {each: asked[each].position for each in sorted(asked)}
        request = fetch_request(
            positions,
            partition_max_bytes=min(PARTITION_BYTES, max_bytes),
            max_bytes=max_bytes,
            max_wait_ms=wait_ms,
            isolation_level=READ_COMMITTED,
            last_epochs={each: copy.last_epoch for each, copy in asked.items()},
        )
        try:
            answer = await self._connections.ask(leader, request, FETCH_VERSION, FetchResponse, wait_ms=wait_ms)
        except FAILURES:
            await _look_again(self._connections, asked)
            return 0
        moved, taken = set(asked), 0
        for topic in answer.responses:
            for data in topic.partitions:
                each = TopicPartition(topic.topic, data.partition_index)
                if each not in moved:
                    continue
                if data.records:
                    taken += len(data.records)
                    asked[each].read_turn = self._turn
                # An answer for another position would leave a gap: the copy's position has changed meanwhile.
                is_current = asked[each].is_active and asked[each].position == positions[each]
                if not is_current or not self._take(asked[each], data):
                    moved.discard(each)
        if moved:
            await _look_again(self._connections, moved)
        return taken

    def _take(self, copy: PartitionCopy, data: PartitionData) -> bool:
        """Return whether the leader has to be looked for again."""
        error = error_for_code(data.error_code)
        if error is Errors.NONE and data.diverging_epoch.epoch != NO_LEADER_EPOCH:
            copy.doubt_source(data.diverging_epoch.end_offset)
        elif error is Errors.NONE:
            try:
                copy.take(data)
            except (CorruptRecord, InvalidRecord, UnsupportedMagic) as damage:
                copy.stop(
                    f"the source has records that cannot be read at offset {copy.position}: {damage}", failed=True
                )
        elif error is Errors.OFFSET_OUT_OF_RANGE:
            copy.doubt_source()
        elif error in _LATER:
            if error in _UNKNOWN:
                self._on_missing()
            return True
        else:
            copy.stop(f"the source cannot be read: {error_name(data.error_code)}", failed=True)
        return False


class Appender:
    """Appends to the target's leaders; arguments as of `Reader`."""

    def __init__(self, connections: Connections, on_missing: Callable[[], None]) -> None:
        self._connections = connections
        self._on_missing = on_missing
        self._turn = 0

    async def append(self, leader: int, copies: Iterable[PartitionCopy]) -> None:
        """Send the next batch of partitions of one leader, no more than `REQUEST_BYTES` in all but for the first."""
        sent: dict[TopicPartition, PartitionCopy] = {}
        left = REQUEST_BYTES
        for copy in copies:
            size = 0 if copy.front is None else len(copy.front.data)
            if size and (size <= left or not sent):
                sent[copy.target] = copy
                left -= size
        self._turn += 1
        for copy in sent.values():
            copy.is_in_flight, copy.append_turn = True, self._turn
        try:
            await self._send(leader, sent)
        finally:
            for copy in sent.values():
                copy.is_in_flight = False

    async def _send(self, leader: int, sent: dict[TopicPartition, PartitionCopy]) -> None:
        data = {each: bytes(sent[each].request_data()) for each in sorted(sent)}
        request = produce_request(data, acks=ALL_ACKS, timeout_ms=PRODUCE_TIMEOUT_MS)
        try:
            answer = await self._connections.ask(
                leader, request, PRODUCE_VERSION, ProduceResponse, wait_ms=PRODUCE_TIMEOUT_MS
            )
        except FAILURES:
            await _look_again(self._connections, sent)
            return
        moved = set(sent)
        for topic in answer.responses:
            for partition in topic.partition_responses:
                each = TopicPartition(topic.name, partition.index)
                if each in moved and not self._judge(sent[each], partition):
                    moved.discard(each)
        if moved:
            await _look_again(self._connections, moved)

    def _judge(self, copy: PartitionCopy, answer: PartitionProduceResponse) -> bool:
        """Return whether the leader has to be looked for again."""
        error = error_for_code(answer.error_code)
        if copy.ended is not None:
            return False
        if error is Errors.NONE:
            if answer.base_offset == copy.confirmed:
                copy.acknowledge()
            else:
                copy.stop(
                    f"another program writes to the copy {copy.target}: offset {copy.confirmed} is not this mirror's; "
                    f"a copy must have no other writer",
                    failed=True,
                )
        elif answer.error_code in _LOG_IS_ANOTHER:
            copy.doubt_target()
        elif error in _TOO_LARGE:
            if not copy.halve():
                copy.stop(
                    f"the target refuses the record at offset {copy.confirmed_source}, because it is larger than its "
                    f"max.message.bytes",
                    failed=True,
                )
        elif error in _LATER:
            if error in _UNKNOWN:
                self._on_missing()
            return True
        else:
            reason = answer.error_message or "no reason given"
            copy.stop(f"the target refuses records: {error_name(answer.error_code)}, {reason}", failed=True)
        return False


async def check_writer(
    connections: Connections, partition: TopicPartition, writer: Writer, offset: int, end: int
) -> None:
    """Raise MirrorError if the target's log has a batch from `offset` to `end` that `writer` has not appended."""
    while offset < end:
        request = fetch_request({partition: offset}, partition_max_bytes=PARTITION_BYTES, max_bytes=PARTITION_BYTES)
        answer = await connections.ask_leader(partition, request, FETCH_VERSION, FetchResponse)
        data = answer.responses[0].partitions[0]
        if data.error_code != Errors.NONE:
            raise NoLeader(f"{partition}: {error_name(data.error_code)}")
        before = offset
        for batch in batches(data.records or b""):
            header = batch.header
            sequence = (header.base_offset - writer.start) & SEQUENCE_MASK
            if header.next_offset > offset and (
                (header.producer_id, header.base_sequence) != (writer.producer_id, sequence)
            ):
                raise MirrorError(
                    f"another program has written to the copy {partition}: the batch at offset {header.base_offset} is "
                    f"not this mirror's; delete the copy, or give it another name with --rename"
                )
            offset = max(offset, header.next_offset)
        if offset == before:
            return  # compaction has removed what was there


async def _look_again(connections: Connections, partitions: Iterable[TopicPartition]) -> None:
    for each in partitions:
        connections.forget_leader(each)
    await asyncio.sleep(BACKOFF_S)
