"""The connections of clients and their requests, while they are decoded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from understudy.foundation.wire.framing import FrameReader
from understudy.foundation.wire.registry import Api
from understudy.foundation.wire.schema import Message
from understudy.testing.simulated_tests.history.memberships import Reader
from understudy.testing.simulated_tests.history.wire_records import Client, Partition

Fetching: TypeAlias = dict[Partition, tuple[int, Reader]]
"""The offset from which each partition is fetched, and for whom."""


@dataclass(slots=True)
class Request:
    """A request that may still be answered.

    Attributes:
        order: its number among the requests, answers and marks of the history.
        places: of its records in `Decoder.sent`, or of its offsets in `Decoder.commits`, by partition.
    """

    api: Api
    version: int
    message: Message
    client: Client
    sent_ms: float
    order: int
    places: dict[Partition, list[int]] = field(default_factory=dict)
    fetching: Fetching = field(default_factory=dict)

    @property
    def all_places(self) -> Iterator[int]:
        for places in self.places.values():
            yield from places


@dataclass(slots=True)
class ClientConnection:
    """A connection that a client process has opened.

    Attributes:
        broker: the address, as the transport names it.
        in_flight: the requests without an answer, by correlation id.
        session: the fetch offsets of the fetch session (KIP-227), of which a request names only those that have
            changed.
        clients: those whose client ids its requests have.
        is_unreadable: whether a frame had an impossible size, so that nothing after it can be decoded.
    """

    number: int
    process: str
    incarnation: int
    broker: str
    requests: FrameReader = field(default_factory=FrameReader)
    answers: FrameReader = field(default_factory=FrameReader)
    in_flight: dict[int, Request] = field(default_factory=dict)
    session: dict[Partition, int] = field(default_factory=dict)
    clients: dict[Client, None] = field(default_factory=dict)
    is_unreadable: bool = False
    has_ended: bool = False
