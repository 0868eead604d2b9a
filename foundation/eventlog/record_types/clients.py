"""Records of clients: of the loads of a run, and of a user's processes in a test in virtual time.

Each client of a load has a log of its own, written while it runs. The log of a user's process is written when the test
has ended, from its log lines and from the bytes on its connections.

An attempt that repeats an earlier one is left out, with its end, if it begins less than a second after it and ends in
the same way: a client that tries again and again writes at most two records a second for it.
"""

from __future__ import annotations

from typing import TypeAlias

from understudy.foundation.eventlog.record_types.base import RecordPayload


class ClientLogged(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written for a line that a process has logged."""

    level: str
    """The level of the line, for example `WARNING`."""
    logger: str
    """The name of the logger."""
    text: str
    """The message, its first 500 characters."""


class ClientConnection(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a client when it begins to connect to a broker, and when it is connected or has failed."""

    client_id: str
    """The name that the client gives itself."""
    broker: str
    """The node, for example `broker-1`."""
    state: str
    """`connecting`, `connected` or `failed`."""
    reason: str = ""
    """The reason of a failure, in words."""


class ClientRequestBegan(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a client before it sends a Metadata, or a Produce or OffsetCommit for a partition, and when it begins
    to fetch a partition from a broker or from another offset than it has reached. A user's process in a test in virtual
    time has it for Produce only."""

    api: str
    """`Metadata`, `Produce`, `Fetch` or `OffsetCommit`."""
    client_id: str
    """The name that the client gives itself."""
    broker: str
    """The node that the request is for, or its address as long as the client does not know its id; empty if the
    partition has no leader, or the group no coordinator, that the client knows."""
    topic: str = ""
    """The topic's name; empty for Metadata."""
    partition: int = -1
    """The partition's number in the topic, from 0; −1 for Metadata."""
    offset: int = -1
    """Fetch: the offset from which it reads, the client's position; OffsetCommit: the offset to commit; otherwise
    −1."""
    records: int = 0
    """Produce: the number of records that wait for an answer; otherwise 0."""
    attempt: int = 0
    """Produce: 1 for the first attempt to send these records; otherwise 0."""


class ClientRequestEnded(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written for each partition of a client's Produce, Fetch or OffsetCommit, and for a Metadata, when it has an
    answer, or its connection has ended.

    A Fetch that has brought no record is left out, unless it has an error or follows one. A record that is sent alone
    and read by one consumer gives two of these, with some 350 bytes each."""

    api: str
    """`Metadata`, `Produce`, `Fetch` or `OffsetCommit`; the last also for TxnOffsetCommit."""
    client_id: str
    """The name that the client gives itself."""
    broker: str
    """The node that the request was sent to, as in `ClientRequestBegan`; empty if there was no leader, or if the time
    for a Produce or OffsetCommit is over."""
    topic: str
    """The topic's name; empty for Metadata."""
    partition: int
    """The partition's number in the topic, from 0; −1 for Metadata."""
    error: str
    """Kafka's name of the error code; empty if the connection has ended without an answer."""
    offset: int = -1
    """Produce and Fetch: the first record's offset; OffsetCommit: the committed one. −1 if it is not known."""
    records: int = 0
    """The number of records; 0 for a commit."""
    attempt: int = 0
    """Produce: 1 for the first attempt to send these records; otherwise 0."""
    group: str = ""
    """The group; empty for Produce, and for consumers without one."""
    took_ms: float = 0.0
    """From the request to the answer."""
    next_offset: int = -1
    """Fetch: the offset from which the client reads next, its position; −1 in older logs, for the offset after the
    last record."""
    is_sent_again: bool = False
    """Produce and OffsetCommit: whether the client will send the request again. Always false in older logs."""


class MemberTransition(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a member of a group when its state in the group changes, or the reason for it. A user's process in a
    test in virtual time has it for `STABLE` only, without the coordinator."""

    client_id: str
    """The name that the client gives itself."""
    group: str
    """The group's id."""
    target: str
    """Kafka's name of the state in the consumer: `UNJOINED`; `PREPARING_REBALANCE`, it joins;
    `COMPLETING_REBALANCE`, it waits for its assignment; or `STABLE`."""
    generation: int
    """The generation of the group that it is a member of; −1 without one."""
    member_id: str
    """The id that the coordinator gave it; empty before that."""
    coordinator: int
    """Id of the broker that it takes for the coordinator; −1 if it has to find it."""
    partitions: tuple[tuple[str, int], ...]
    """(topic, partition) of what it owns."""
    reason: str = ""
    """Why it has left the state before, or is in this one for longer: an error by Kafka's name, or words."""


ClientRecord: TypeAlias = ClientLogged | ClientConnection | ClientRequestBegan | ClientRequestEnded | MemberTransition
