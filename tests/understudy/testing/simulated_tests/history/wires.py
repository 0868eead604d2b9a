"""`Wires`: connections of clients in a history, with requests and answers that a test writes, as bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from understudy.foundation.cluster.errors import Errors
from understudy.foundation.records.record import Header, Record, encode_records
from understudy.foundation.wire.headers import encode_request, encode_response
from understudy.foundation.wire.messages.consumer_protocol import AssignedTopic, ConsumerProtocolAssignment
from understudy.foundation.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from understudy.foundation.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from understudy.foundation.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from understudy.foundation.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from understudy.foundation.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from understudy.foundation.wire.registry import api_of
from understudy.foundation.wire.schema import Message
from understudy.foundation.wire.version_prefixed import encode_prefixed
from understudy.testing.simulated_tests.history.cluster_history import Caller, ClusterHistory
from understudy.testing.simulated_tests.history.wire_history import WireHistory
from understudy.testing.simulated_tests.history.wire_records import FinalLog, LogRecord, Partition

ALL = -1
ORDERS = "orders"


class Wires:
    """Writes what clients send and receive; each call takes a virtual millisecond.

    Args:
        piece_bytes: the size of the pieces in which the history gets bytes; whole frames by default.

    Attributes:
        logs: the logs that the history is asked with; a test may change them.
    """

    def __init__(self, *, piece_bytes: int = 1 << 20) -> None:
        self.piece_bytes = piece_bytes
        self.wire = WireHistory()
        self.logs: dict[Partition, FinalLog] = {}
        self.now_ms = 0.0
        self.process = Caller("app", 1, 0.0)
        self.history = ClusterHistory(self.wire, lambda: self.logs, lambda: self.process._replace(at_ms=self.now_ms))
        self._connections = 0

    def connect(self, process: str = "app", incarnation: int = 1, *, client_id: str = "c", broker: int = 1) -> Wire:
        self._connections += 1
        self.wire.opened(self._connections, process, incarnation, f"broker-{broker}:9092", self.now_ms)
        return Wire(self, self._connections, client_id)

    def log(self, *values: bytes, start: int = 0, partition: int = 0, **fields: object) -> None:
        """Set the log of a partition of `orders` to records without a producer id, sent at ms 1."""
        records = tuple(log_record(start + place, value) for place, value in enumerate(values))
        self.logs[ORDERS, partition] = FinalLog(records, **fields)  # type: ignore[arg-type]  # by name

    def process_record(self, offset: int, *, process: str = "app", incarnation: int = 1, partition: int = 0) -> None:
        self.now_ms += 1
        self.process = Caller(process, incarnation, 0.0)
        self.history.processed(ORDERS, partition, offset)


class Wire:
    """One connection."""

    def __init__(self, wires: Wires, number: int, client_id: str) -> None:
        self.number = number
        self._wires = wires
        self._client_id = client_id
        self._last = 0

    def request(self, message: Message, version: int) -> int:
        """Send a request, and return its correlation id."""
        self._last += 1
        self._wires.now_ms += 1
        frame = encode_request(message, version, self._last, self._client_id)
        self._pass_on(self._wires.wire.sent, frame)
        return self._last

    def answer(self, correlation_id: int, message: Message, version: int) -> None:
        self._wires.now_ms += 1
        frame = encode_response(api_of(message), version, correlation_id, message)
        self._pass_on(self._wires.wire.received, frame)

    def _pass_on(self, take: Callable[[int, bytes, float], None], frame: bytes) -> None:
        for begin in range(0, len(frame), self._wires.piece_bytes):
            take(self.number, frame[begin : begin + self._wires.piece_bytes], self._wires.now_ms)

    def close(self) -> None:
        self._wires.now_ms += 1
        self._wires.wire.closed(self.number, self._wires.now_ms)

    # ------------------------------------------------------------------ records

    def send(self, *values: bytes, offset: int | None = None, error: Errors = Errors.NONE, **how: object) -> int:
        """Send one batch, and answer it if there is an offset or error; `how` as of `produce_request`."""
        correlation_id = self.request(produce_request(*values, **how), 9)  # type: ignore[arg-type]  # by name
        if offset is not None or error is not Errors.NONE:
            self.acknowledge(correlation_id, -1 if offset is None else offset, error)
        return correlation_id

    def acknowledge(self, correlation_id: int, offset: int, error: Errors = Errors.NONE) -> None:
        answer = PartitionProduceResponse(index=0, error_code=error, base_offset=offset)
        topic = TopicProduceResponse(name=ORDERS, partition_responses=(answer,))
        self.answer(correlation_id, ProduceResponse(responses=(topic,)), 9)

    # ------------------------------------------------------------------ groups

    def join(
        self, member: str, generation: int, *partitions: int, group: str = "billing", kind: str = "consumer"
    ) -> None:
        """Join a group and get an assignment of partitions of `orders`."""
        joined = self.request(JoinGroupRequest(group_id=group, member_id=member, protocol_type=kind), 5)
        self.answer(joined, JoinGroupResponse(generation_id=generation, member_id=member), 5)
        synced = self.request(SyncGroupRequest(group_id=group, generation_id=generation, member_id=member), 3)
        topics = (AssignedTopic(topic=ORDERS, partitions=partitions),) if partitions else ()
        assignment = encode_prefixed(ConsumerProtocolAssignment(assigned_partitions=topics), 1)
        self.answer(synced, SyncGroupResponse(assignment=assignment), 3)

    def fetch(self, offset: int, *values: bytes, partition: int = 0) -> None:
        """Fetch from an offset and be given records from there on; see `ask_for` and `give`."""
        self.give(self.ask_for(offset, partition=partition), offset, *values, partition=partition)

    def fetch_in_vain(self, offset: int, error: Errors) -> None:
        data = PartitionData(partition_index=0, error_code=error)
        answer = FetchResponse(responses=(FetchableTopicResponse(topic=ORDERS, partitions=(data,)),))
        self.answer(self.ask_for(offset), answer, 4)

    def ask_for(self, offset: int, *, partition: int = 0) -> int:
        asked = FetchTopic(topic=ORDERS, partitions=(FetchPartition(partition=partition, fetch_offset=offset),))
        return self.request(FetchRequest(topics=(asked,)), 4)

    def give(self, correlation_id: int, offset: int, *values: bytes, partition: int = 0) -> None:
        records = [Record(offset + place, 1, None, value) for place, value in enumerate(values)]
        data = PartitionData(partition_index=partition, records=encode_records(records) if records else b"")
        self.answer(
            correlation_id, FetchResponse(responses=(FetchableTopicResponse(topic=ORDERS, partitions=(data,)),)), 4
        )

    def commit(
        self,
        offset: int,
        member: str = "",
        generation: int = -1,
        *,
        group: str = "billing",
        partition: int = 0,
        error: Errors | None = Errors.NONE,
    ) -> None:
        """Commit an offset; with the error None there is no answer."""
        each = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        topics = (OffsetCommitRequestTopic(name=ORDERS, partitions=(each,)),)
        request = OffsetCommitRequest(
            group_id=group, member_id=member, generation_id_or_member_epoch=generation, topics=topics
        )
        correlation_id = self.request(request, 7)
        if error is not None:
            answer = OffsetCommitResponsePartition(partition_index=partition, error_code=error)
            answered = (OffsetCommitResponseTopic(name=ORDERS, partitions=(answer,)),)
            self.answer(correlation_id, OffsetCommitResponse(topics=answered), 7)


def produce_request(
    *values: bytes,
    acks: int = ALL,
    keys: Sequence[bytes] | None = None,
    headers: tuple[Header, ...] = (),
    producer: tuple[int, int, int] = (-1, -1, -1),
    timestamp: int = 1,
) -> ProduceRequest:
    """Return the request to append a batch to `orders-0`; `producer` is id, epoch and sequence number."""
    records = [
        Record(place, timestamp, None if keys is None else keys[place], value, headers)
        for place, value in enumerate(values)
    ]
    producer_id, epoch, sequence = producer
    batch = encode_records(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    topic = TopicProduceData(name=ORDERS, partition_data=(PartitionProduceData(index=0, records=batch),))
    return ProduceRequest(acks=acks, topic_data=(topic,))


def log_record(
    offset: int,
    value: bytes,
    *,
    key: bytes | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    **fields: object,
) -> LogRecord:
    """Return a record of a log without headers, sent at ms 1."""
    return LogRecord(offset, key, value, (), *producer, **({"timestamp": 1} | fields))  # type: ignore[arg-type]  # by name
