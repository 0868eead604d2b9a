"""The lines that a driver of examples/clients prints, each with the time at which it arrived."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Ready(msgspec.Struct, frozen=True, tag_field="event", tag="ready"):
    """The clients are open.

    Attributes:
        without: `("consumer",)` if the client can be assigned no partition.
    """

    client: str
    version: str
    without: tuple[str, ...] = ()


class Sent(msgspec.Struct, frozen=True, tag_field="event", tag="sent"):
    """A record was acknowledged; the offset is -1 if the client does not know it."""

    value: int
    offset: int


class Failed(msgspec.Struct, frozen=True, tag_field="event", tag="failed"):
    """The client gave a record up; it may be in the log or not."""

    value: int
    error: str


class Read(msgspec.Struct, frozen=True, tag_field="event", tag="read"):
    """The consumer received a record."""

    value: int
    offset: int
    partition: int = 0


class Admin(msgspec.Struct, frozen=True, tag_field="event", tag="admin"):
    """An attempt to create a topic ended after `took_ms`."""

    ok: bool
    took_ms: int
    error: str | None = None


class Assigned(msgspec.Struct, frozen=True, tag_field="event", tag="assigned"):
    """A member of a group was given partitions: all that it has, or only the added ones."""

    partitions: tuple[int, ...]


class Revoked(msgspec.Struct, frozen=True, tag_field="event", tag="revoked"):
    """A member of a group gives partitions up, or has lost them."""

    partitions: tuple[int, ...]


class Trouble(msgspec.Struct, frozen=True, tag_field="event", tag="error"):
    """The client reported an error to a member's program, and continues."""

    error: str


class End(msgspec.Struct, frozen=True, tag_field="event", tag="end"):
    """The driver has closed its clients."""


Event: TypeAlias = Ready | Sent | Failed | Read | Admin | Assigned | Revoked | Trouble | End

_DECODER: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


class Line(msgspec.Struct, frozen=True):
    """An event, and when it arrived, in ms of a monotonic clock."""

    at_ms: int
    event: Event


class NotAnEvent(ValueError):
    """A driver printed something else. The message has the line."""


def parse(text: str) -> Event:
    """Read one line of a driver.

    Raises:
        NotAnEvent: it is no event of the protocol in examples/clients/README.md.
    """
    try:
        return _DECODER.decode(text)
    except msgspec.MsgspecError as error:
        raise NotAnEvent(f"{text.strip()!r} is no event of examples/clients/README.md: {error}") from None
