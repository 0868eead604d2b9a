"""What the clients of a run have sent and received, record by record, and the logs of the partitions at its end."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from understudy.foundation.records.record import Header

Partition: TypeAlias = tuple[str, int]
"""A topic's name and the number of one of its partitions."""

NO_ANSWER = ""
"""Error of a request that has no answer: none is expected, it is on its way, or its connection has ended."""
NO_ERROR = "NONE"
"""Error of an answer that states success."""
_WRITTEN = frozenset({NO_ERROR, "DUPLICATE_SEQUENCE_NUMBER"})


class Client(NamedTuple):
    """A client as brokers see it. Clients of one process that have the same client id are one `Client`.

    Attributes:
        process: the name of its process.
        incarnation: counts the starts of the process.
    """

    process: str
    incarnation: int
    client_id: str

    def __str__(self) -> str:
        return f"{self.client_id} in {self.process}/{self.incarnation}"


class Sent(NamedTuple):
    """One attempt to send one record: a record in a Produce request.

    Attributes:
        broker: the address that the request was sent to, as the transport names it.
        connection: the number of the connection.
        send: the number of the record among those that the clients sent, from 0 on. The attempts to send the same
            record have the same number.
        attempt: 1 for the first attempt.
        acks: 0, 1, or -1 for all in-sync replicas.
        timestamp: milliseconds since 1970, as sent; -1 for none.
        producer_id, producer_epoch, sequence: -1 unless the producer is idempotent.
        transactional_id: None unless the producer is transactional.
        offset: the record's offset in the answer; -1 if it has none.
        error: Kafka's name of the error code in the answer, `NO_ERROR` or `NO_ANSWER`.
        sent_ms: virtual time of the request.
        ended_ms: virtual time of the answer, or of the connection's end if there is no answer; None before.
        order: the number of the request among everything in the history; two events may have the same virtual time.
    """

    client: Client
    broker: str
    connection: int
    topic: str
    partition: int
    send: int
    attempt: int
    acks: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp: int
    producer_id: int
    producer_epoch: int
    sequence: int
    transactional_id: str | None
    offset: int
    error: str
    sent_ms: float
    ended_ms: float | None
    order: int

    @property
    def is_acknowledged(self) -> bool:
        """Whether its client counts the record as written: also after DUPLICATE_SEQUENCE_NUMBER, as Kafka's `Sender`
        does."""
        return self.error in _WRITTEN


class Delivered(NamedTuple):
    """One record in the answer to a client's Fetch.

    The record has reached the client's transport. Whether the client returned it to its user is on no wire: clients
    fetch ahead, and drop records that they have fetched when a partition is taken from them.

    Records that no client returns are left out: those before the offset that was requested, control records, and with
    `read_committed` the records of aborted transactions.

    Attributes:
        group: the group of the consumer; None if it has none.
        member: the member id; empty without one.
        generation: the generation of the group in which the member was assigned the partition; -1 without one.
        fetch_offset: the offset from which the request read.
        sent_ms, received_ms: virtual times of request and answer.
        sent_order, order: the numbers of request and answer among everything in the history.
    """

    client: Client
    broker: str
    connection: int
    group: str | None
    member: str
    generation: int
    topic: str
    partition: int
    fetch_offset: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp: int
    producer_id: int
    producer_epoch: int
    sequence: int
    sent_ms: float
    received_ms: float
    sent_order: int
    order: int


class Commit(NamedTuple):
    """The offset of one partition in an OffsetCommit or TxnOffsetCommit request.

    Attributes:
        member: the member id; empty without one.
        generation: -1 without a member.
        transactional_id: None unless the offset is committed by a transaction, which may be aborted afterwards.
        error: Kafka's name of the error code in the answer, `NO_ERROR` or `NO_ANSWER`.
        sent_ms, ended_ms: as of `Sent`.
        order: the number of the request among everything in the history.
    """

    client: Client
    broker: str
    group: str
    member: str
    generation: int
    transactional_id: str | None
    topic: str
    partition: int
    offset: int
    metadata: str | None
    error: str
    sent_ms: float
    ended_ms: float | None
    order: int


class Assigned(NamedTuple):
    """The assignment of a member in one generation, from the answer to its SyncGroup.

    Attributes:
        partitions: empty also if the group's members are no consumers.
        at_ms: virtual time of the answer.
        order: the number of the answer among everything in the history.
    """

    client: Client
    group: str
    member: str
    generation: int
    partitions: tuple[Partition, ...]
    at_ms: float
    order: int


class Position(NamedTuple):
    """The first offset that the members of a group, or a client without one, have fetched from a partition."""

    client: Client
    group: str | None
    topic: str
    partition: int
    offset: int
    at_ms: float
    order: int


class Processed(NamedTuple):
    """A record that a service has marked as processed.

    Attributes:
        group: None if the service has not named it; it then counts for each group of the process that the record was
            delivered to.
    """

    process: str
    incarnation: int
    group: str | None
    topic: str
    partition: int
    offset: int
    at_ms: float
    order: int


class LogRecord(NamedTuple):
    """One record in the log of a partition.

    Attributes:
        has_log_append_time: whether the timestamp is the time of the leader's append.
        is_aborted: whether its transaction was aborted, or has no end yet: `read_committed` does not read it.
    """

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    producer_id: int
    producer_epoch: int
    sequence: int
    timestamp: int
    has_log_append_time: bool = False
    is_aborted: bool = False


class FinalLog(NamedTuple):
    """The log of a partition up to the offset that its in-sync replicas have, as its leader has it when it is asked.

    Attributes:
        records: ascending by offset, without control records.
        start: the log start offset; records before it were deleted by retention or DeleteRecords.
        is_compacted: whether the topic's `cleanup.policy` includes `compact`.
        may_have_lost: why acknowledged records may be gone or replaced, such as `an unclean election`; empty if nothing
            explains a loss.
        end: the offset after the last record that all in-sync replicas have; None if it is not known.
    """

    records: tuple[LogRecord, ...]
    start: int = 0
    is_compacted: bool = False
    may_have_lost: str = ""
    end: int | None = None
