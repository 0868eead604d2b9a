"""Decodes the byte streams of connections into what clients have sent, received and committed."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

from understudy.foundation.cluster.errors import Errors, error_name
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord, UnsupportedMagic
from understudy.foundation.times import moment
from understudy.foundation.wire.codec import decode
from understudy.foundation.wire.errors import WireError
from understudy.foundation.wire.framing import FrameReader
from understudy.foundation.wire.headers import decode_request_header, decode_response
from understudy.foundation.wire.messages.consumer_protocol import CONSUMER_PROTOCOL_TYPE, ConsumerProtocolAssignment
from understudy.foundation.wire.messages.fetch import FetchRequest, FetchResponse
from understudy.foundation.wire.messages.join_group import JoinGroupRequest
from understudy.foundation.wire.messages.leave_group import LeaveGroupRequest
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataResponse
from understudy.foundation.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from understudy.foundation.wire.messages.offset_fetch import OffsetFetchRequest
from understudy.foundation.wire.messages.produce import ProduceRequest, ProduceResponse
from understudy.foundation.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from understudy.foundation.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from understudy.foundation.wire.registry import api_by_key
from understudy.foundation.wire.schema import Message
from understudy.foundation.wire.version_prefixed import decode_prefixed
from understudy.testing.simulated_tests.history.attempts import Attempts
from understudy.testing.simulated_tests.history.memberships import Memberships
from understudy.testing.simulated_tests.history.wire_batches import sent_records
from understudy.testing.simulated_tests.history.wire_connections import ClientConnection, Request
from understudy.testing.simulated_tests.history.wire_fetches import Fetches
from understudy.testing.simulated_tests.history.wire_records import (
    NO_ANSWER,
    Assigned,
    Client,
    Commit,
    Delivered,
    Partition,
    Position,
    Sent,
)

_UNREADABLE: Final = (WireError, CorruptRecord, InvalidRecord, UnsupportedMagic)
"""Errors of bytes that are no request, answer or batch, or none that brokers of this version serve."""

_DECODED: Final[tuple[type[Message], ...]] = (
    ProduceRequest,
    FetchRequest,
    MetadataRequest,
    OffsetCommitRequest,
    TxnOffsetCommitRequest,
    OffsetFetchRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    LeaveGroupRequest,
)
_READ_COMMITTED: Final = 1
_NO_OFFSET: Final = -1
_FIRST_VERSION_WITH_SESSIONS: Final = 7


class Decoder:
    """Takes the pieces of all byte streams in the order of virtual time.

    Args:
        requests: the requests that are decoded, with their answers. The others leave no trace.

    Attributes:
        sent, delivered, commits, assigned, positions: as `ClusterHistory` returns them.
        unreadable: what could not be decoded, and why: one sentence for each request, answer or connection.
        order: the number of requests, answers and marks so far.
    """

    def __init__(self, requests: Container[type[Message]] = _DECODED) -> None:
        self.sent: list[Sent] = []
        self.commits: list[Commit] = []
        self.assigned: list[Assigned] = []
        self.unreadable: list[str] = []
        self.order = 0
        self._requests = requests
        self._connections: dict[int, ClientConnection] = {}
        self._attempts = Attempts()
        self._memberships = Memberships()
        self._fetches = Fetches(self._memberships)
        self._protocols: dict[tuple[Client, str], str] = {}
        """The protocol types of groups."""

    @property
    def delivered(self) -> list[Delivered]:
        return self._fetches.delivered

    @property
    def positions(self) -> dict[tuple[Client | str, Partition], Position]:
        return self._fetches.positions

    def next_order(self) -> int:
        self.order += 1
        return self.order

    # ------------------------------------------------------------------ connections

    def opened(self, number: int, process: str, incarnation: int, broker: str) -> None:
        self._connections[number] = ClientConnection(number, process, incarnation, broker)

    def bytes_sent(self, number: int, data: bytes, at_ms: float) -> None:
        connection = self._connections[number]
        for frame in self._frames(connection, connection.requests, data):
            try:
                self._request(connection, frame, at_ms)
            except _UNREADABLE as error:
                self._note_unreadable(connection, f"a request at {moment(at_ms)}", error)

    def bytes_received(self, number: int, data: bytes, at_ms: float) -> None:
        connection = self._connections[number]
        for frame in self._frames(connection, connection.answers, data):
            correlation_id = int.from_bytes(frame[:4], signed=True)
            request = connection.in_flight.pop(correlation_id, None)
            if request is None:
                continue
            try:
                _, answer = decode_response(request.api, request.version, frame)
                self._answer(connection, request, answer, at_ms)
            except _UNREADABLE as error:
                self._note_unreadable(connection, f"the answer to {request.api.name} at {moment(at_ms)}", error)

    def closed(self, number: int, at_ms: float) -> None:
        """End the requests that have no answer: their records may be sent again."""
        connection = self._connections[number]
        if connection.has_ended:
            return
        connection.has_ended = True
        for request in connection.in_flight.values():
            for place in request.all_places:
                if isinstance(request.message, ProduceRequest):
                    self.sent[place] = ended = self.sent[place]._replace(ended_ms=at_ms)
                    self._attempts.failed(ended)
                else:
                    self.commits[place] = self.commits[place]._replace(ended_ms=at_ms)
        for client in connection.clients:
            self._memberships.closed(client, connection.broker, number)

    def _frames(self, connection: ClientConnection, reader: FrameReader, data: bytes) -> list[bytes]:
        if connection.is_unreadable or connection.has_ended:
            return []
        try:
            return reader.feed(data)
        except WireError as error:
            connection.is_unreadable = True
            self._note_unreadable(connection, "its bytes", error)
            return []

    def _note_unreadable(self, connection: ClientConnection, what: str, error: Exception) -> None:
        self.unreadable.append(
            f"connection {connection.number} of {connection.process}/{connection.incarnation} to {connection.broker}: "
            f"{what} cannot be decoded: {error}"
        )

    # ------------------------------------------------------------------ requests

    def _request(self, connection: ClientConnection, frame: bytes, at_ms: float) -> None:
        header, position = decode_request_header(frame)
        api = api_by_key(header.api_key)
        assert api is not None
        if api.request not in self._requests:
            return
        message = decode(api.request, header.api_version, frame, position)
        client = Client(connection.process, connection.incarnation, header.client_id or "")
        connection.clients[client] = None
        request = Request(api, header.api_version, message, client, at_ms, self.next_order())
        match message:
            case ProduceRequest():
                self._produce(connection, request, message)
            case FetchRequest():
                self._fetches.requested(connection, request, message)
            case OffsetCommitRequest() | TxnOffsetCommitRequest():
                self._commit(connection, request, message)
            case _:
                self._group_request(client, message)
        if not isinstance(message, ProduceRequest) or message.acks != 0:
            connection.in_flight[header.correlation_id] = request

    def _produce(self, connection: ClientConnection, request: Request, message: ProduceRequest) -> None:
        for topic in message.topic_data:
            for data in topic.partition_data:
                partition = topic.name, data.index
                for each in sent_records(data.records or b""):
                    record = each.record
                    send, attempt = self._attempts.next(request.client, partition, each)
                    request.places.setdefault(partition, []).append(len(self.sent))
                    self.sent.append(
                        Sent(
                            client=request.client,
                            broker=connection.broker,
                            connection=connection.number,
                            topic=topic.name,
                            partition=data.index,
                            send=send,
                            attempt=attempt,
                            acks=message.acks,
                            key=record.key,
                            value=record.value,
                            headers=record.headers,
                            timestamp=record.timestamp,
                            producer_id=each.producer_id,
                            producer_epoch=each.producer_epoch,
                            sequence=each.sequence,
                            transactional_id=message.transactional_id,
                            offset=_NO_OFFSET,
                            error=NO_ANSWER,
                            sent_ms=request.sent_ms,
                            ended_ms=None,
                            order=request.order,
                        )
                    )

    def _commit(
        self, connection: ClientConnection, request: Request, message: OffsetCommitRequest | TxnOffsetCommitRequest
    ) -> None:
        if isinstance(message, TxnOffsetCommitRequest):
            generation, transactional_id = message.generation_id, message.transactional_id
        else:
            generation, transactional_id = message.generation_id_or_member_epoch, None
        for topic in message.topics:
            for each in topic.partitions:
                partition = topic.name, each.partition_index
                self._memberships.looked_up(request.client, message.group_id, partition)
                request.places.setdefault(partition, []).append(len(self.commits))
                self.commits.append(
                    Commit(
                        client=request.client,
                        broker=connection.broker,
                        group=message.group_id,
                        member=message.member_id,
                        generation=generation,
                        transactional_id=transactional_id,
                        topic=topic.name,
                        partition=each.partition_index,
                        offset=each.committed_offset,
                        metadata=each.committed_metadata,
                        error=NO_ANSWER,
                        sent_ms=request.sent_ms,
                        ended_ms=None,
                        order=request.order,
                    )
                )

    def _group_request(self, client: Client, message: Message) -> None:
        match message:
            case JoinGroupRequest():
                self._protocols[client, message.group_id] = message.protocol_type
            case LeaveGroupRequest():
                for member in (message.member_id, *(each.member_id for each in message.members)):
                    self._memberships.left(client, message.group_id, member)
            case OffsetFetchRequest():
                for group, partition in _looked_up(message):
                    self._memberships.looked_up(client, group, partition)

    # ------------------------------------------------------------------ answers

    def _answer(self, connection: ClientConnection, request: Request, answer: Message, at_ms: float) -> None:
        order = self.next_order()
        match answer:
            case ProduceResponse():
                self._produced(request, answer, at_ms)
            case FetchResponse():
                self._fetches.answered(connection, request, answer, at_ms, order)
            case OffsetCommitResponse() | TxnOffsetCommitResponse():
                errors = {
                    (topic.name, each.partition_index): each.error_code
                    for topic in answer.topics
                    for each in topic.partitions
                }
                for partition, places in request.places.items():
                    error = error_name(errors[partition]) if partition in errors else NO_ANSWER
                    for place in places:
                        self.commits[place] = self.commits[place]._replace(error=error, ended_ms=at_ms)
            case SyncGroupResponse():
                self._synced(request, answer, at_ms, order)
            case MetadataResponse():
                self._fetches.learn_names(answer)

    def _produced(self, request: Request, answer: ProduceResponse, at_ms: float) -> None:
        answers = {(topic.name, each.index): each for topic in answer.responses for each in topic.partition_responses}
        for partition, places in request.places.items():
            answered = answers.get(partition)
            for number, place in enumerate(places):
                ended = self.sent[place]._replace(ended_ms=at_ms)
                if answered is not None:
                    has_offset = answered.error_code == Errors.NONE and answered.base_offset >= 0
                    ended = ended._replace(
                        error=error_name(answered.error_code),
                        offset=answered.base_offset + number if has_offset else _NO_OFFSET,
                    )
                self.sent[place] = ended
                if not ended.is_acknowledged:
                    self._attempts.failed(ended)

    def _synced(self, request: Request, answer: SyncGroupResponse, at_ms: float, order: int) -> None:
        asked = request.message
        assert isinstance(asked, SyncGroupRequest)
        if answer.error_code != Errors.NONE:
            return
        partitions: tuple[Partition, ...] = ()
        is_consumer = self._protocols.get((request.client, asked.group_id)) == CONSUMER_PROTOCOL_TYPE
        if is_consumer and answer.assignment:
            assignment = decode_prefixed(ConsumerProtocolAssignment, answer.assignment)
            partitions = tuple(
                (topic.topic, number) for topic in assignment.assigned_partitions for number in topic.partitions
            )
        assigned = Assigned(
            request.client, asked.group_id, asked.member_id, asked.generation_id, partitions, at_ms, order
        )
        self.assigned.append(assigned)
        self._memberships.assigned(assigned)


def _looked_up(message: OffsetFetchRequest) -> Iterator[tuple[str, Partition]]:
    for topic in message.topics or ():
        yield from ((message.group_id, (topic.name, number)) for number in topic.partition_indexes)
    for group in message.groups:
        for each in group.topics or ():
            yield from ((group.group_id, (each.name, number)) for number in each.partition_indexes)
