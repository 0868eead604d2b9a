"""Decodes what clients fetch: which records they were given, and for whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData
from understudy.foundation.wire.messages.metadata import MetadataResponse
from understudy.testing.simulated_tests.history.memberships import Memberships, Reader
from understudy.testing.simulated_tests.history.wire_batches import delivered_records
from understudy.testing.simulated_tests.history.wire_connections import ClientConnection, Request
from understudy.testing.simulated_tests.history.wire_records import Client, Delivered, Partition, Position

_READ_COMMITTED: Final = 1
_FIRST_VERSION_WITH_SESSIONS: Final = 7


class Fetches:
    """Takes Fetch requests and their answers.

    Attributes:
        delivered: the records that clients were given, in the order of the answers.
        positions: the first offset that was fetched from each partition, by the group, or by the client if it reads
            without one.
    """

    def __init__(self, memberships: Memberships) -> None:
        self.delivered: list[Delivered] = []
        self.positions: dict[tuple[Client | str, Partition], Position] = {}
        self._memberships = memberships
        self._topics: dict[TopicId, str] = {}

    def learn_names(self, answer: MetadataResponse) -> None:
        """Take over the topics' names: requests of version 13 and later have topic ids instead."""
        self._topics |= {topic.topic_id: topic.name for topic in answer.topics if topic.name is not None}

    def requested(self, connection: ClientConnection, request: Request, message: FetchRequest) -> None:
        listed = {
            (self._name(topic.topic, topic.topic_id), each.partition): each.fetch_offset
            for topic in message.topics
            for each in topic.partitions
        }
        if request.version < _FIRST_VERSION_WITH_SESSIONS or message.session_epoch <= 0:
            connection.session = listed
        else:
            connection.session |= listed
            for forgotten in message.forgotten_topics_data:
                name = self._name(forgotten.topic, forgotten.topic_id)
                for number in forgotten.partitions:
                    connection.session.pop((name, number), None)
        request.fetching = {
            partition: (
                offset,
                self._memberships.reader(request.client, connection.broker, connection.number, partition),
            )
            for partition, offset in connection.session.items()
        }

    def answered(
        self, connection: ClientConnection, request: Request, answer: FetchResponse, at_ms: float, order: int
    ) -> None:
        for topic in answer.responses:
            name = self._name(topic.topic, topic.topic_id)
            for data in topic.partitions:
                partition = name, data.partition_index
                if data.error_code == Errors.NONE and partition in request.fetching:
                    offset, reader = request.fetching[partition]
                    self._note_position(request, partition, offset, reader)
                    self.delivered += self._deliveries(connection, request, data, partition, at_ms, order)

    def _note_position(self, request: Request, partition: Partition, offset: int, reader: Reader) -> None:
        key = (request.client if reader.group is None else reader.group), partition
        if key not in self.positions:
            self.positions[key] = Position(
                request.client, reader.group, *partition, offset, request.sent_ms, request.order
            )

    def _deliveries(
        self,
        connection: ClientConnection,
        request: Request,
        data: PartitionData,
        partition: Partition,
        at_ms: float,
        order: int,
    ) -> Iterator[Delivered]:
        assert isinstance(request.message, FetchRequest)
        offset, reader = request.fetching[partition]
        is_committed = request.message.isolation_level == _READ_COMMITTED
        aborted = (data.aborted_transactions or ()) if is_committed else ()
        for each in delivered_records(data.records or b"", offset, aborted):
            record = each.record
            yield Delivered(
                client=request.client,
                broker=connection.broker,
                connection=connection.number,
                group=reader.group,
                member=reader.member,
                generation=reader.generation,
                topic=partition[0],
                partition=partition[1],
                fetch_offset=offset,
                offset=record.offset,
                key=record.key,
                value=record.value,
                headers=record.headers,
                timestamp=record.timestamp,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                sequence=each.sequence,
                sent_ms=request.sent_ms,
                received_ms=at_ms,
                sent_order=request.order,
                order=order,
            )

    def _name(self, topic: str, topic_id: TopicId) -> str:
        """Return the name of a topic; its id if it has no name in any answer so far."""
        return topic if topic_id == NO_TOPIC_ID else self._topics.get(topic_id, topic_id)
