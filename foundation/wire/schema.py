"""The words message classes are written in, and how a class is read back into fields.

A message is a frozen `msgspec.Struct` whose annotations say everything Kafka's schema says:

    class LeaderAndIsrTopicState(Message, frozen=True, kw_only=True):
        topic_name: str = ""
        topic_id: Annotated[TopicId, since(5), ignorable] = NO_TOPIC_ID
        partition_states: tuple[LeaderAndIsrPartitionState, ...] = ()

Types: `bool`, `int8` to `int64`, `str`, `bytes`, `TopicId` (Kafka's uuid), another message, a tuple of any of these; `| None`
where the field is nullable. A field of which nothing else is said exists in every version of its message, and may be null in
every version if it may be null at all. Fields stand in wire order and carry Kafka's names in snake_case.

Every field has a default, which a version without the field reads. It is Kafka's, but where Kafka's schema leaves the default
of a nullable field open: those are None here, which is what Kafka's own code sends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import msgspec


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of all messages and of the structs inside them. A value without behaviour."""


@dataclass(frozen=True, slots=True)
class FixedInt:
    """A big-endian signed integer; `code` is its letter in the `struct` module."""

    code: str


int8 = Annotated[int, FixedInt("b")]
int16 = Annotated[int, FixedInt("h")]
int32 = Annotated[int, FixedInt("i")]
int64 = Annotated[int, FixedInt("q")]


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions `first` to `last`, both included; `last` None is open."""

    first: int = 0
    last: int | None = None

    def __contains__(self, version: int) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)


@dataclass(frozen=True, slots=True)
class NullableSince:
    version: int


@dataclass(frozen=True, slots=True)
class Tag:
    number: int


@dataclass(frozen=True, slots=True)
class Ignorable:
    pass


ALL_VERSIONS: Final = VersionRange()

ignorable: Final = Ignorable()
"""A version without this field drops its value silently; without this word a value other than the default is an error."""


def since(version: int) -> VersionRange:
    """The field exists from `version` on."""
    return VersionRange(first=version)


def until(version: int) -> VersionRange:
    """The field exists up to and including `version`."""
    return VersionRange(last=version)


def between(first: int, last: int) -> VersionRange:
    """The field exists in `first` to `last`, both included."""
    return VersionRange(first, last)


def nullable_since(version: int) -> NullableSince:
    """The field may be null from `version` on only."""
    return NullableSince(version)


def tag(number: int) -> Tag:
    """The field travels in the tagged section, and only when it differs from its default (KIP-482)."""
    return Tag(number)
