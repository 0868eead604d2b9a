"""Records of the processes of a user, in a test in virtual time.

They are written when the test has ended, from its log lines and from the bytes on its connections.
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


class ClientRequestEnded(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written for each partition of a client's Produce, Fetch or OffsetCommit when it has an answer, or its connection
    has ended. A Fetch that has brought no record is left out. A record that is sent alone and read by one consumer
    gives two of these, with some 350 bytes each."""

    api: str
    """`Produce`, `Fetch` or `OffsetCommit`; the last also for TxnOffsetCommit."""
    client_id: str
    """The name that the client gives itself."""
    broker: str
    """The node that the request was sent to."""
    topic: str
    """The topic's name."""
    partition: int
    """The partition's number in the topic, from 0."""
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


ClientRecord: TypeAlias = ClientLogged | ClientRequestEnded
