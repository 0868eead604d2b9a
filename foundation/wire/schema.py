"""Annotations for message classes, and the fields that a class has by them.

A message is a frozen `msgspec.Struct` whose annotations contain what Kafka's schema contains:

    class LeaderAndIsrTopicState(Message, frozen=True, kw_only=True):
        topic_name: str = ""
        topic_id: Annotated[TopicId, since(5), ignorable] = NO_TOPIC_ID
        partition_states: tuple[LeaderAndIsrPartitionState, ...] = ()

Types: `bool`, `int8` to `int64`, `uint16`, `float64`, `str`, `bytes`, `TopicId` (Kafka's uuid), another message, a
tuple of any of these; `| None` if the field is nullable. A field without further annotations exists in every version of
its message, and may be null in every version if it may be null at all. Fields stand in wire order and carry Kafka's
names in snake_case.

Every field has a default, its value in versions without it. It is Kafka's; nullable fields without a default in Kafka's
schema have None, which is what Kafka's own code sends.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Final, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec

from understudy.foundation.cluster.identifiers import TopicId


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The base class of all messages and of the structs inside them; a value without behaviour."""


class FixedInt(msgspec.Struct, frozen=True):
    """A big-endian integer, a bool or a float; `code` is its letter in the `struct` module."""

    code: str


int8 = Annotated[int, FixedInt("b")]
int16 = Annotated[int, FixedInt("h")]
uint16 = Annotated[int, FixedInt("H")]
int32 = Annotated[int, FixedInt("i")]
int64 = Annotated[int, FixedInt("q")]
float64 = Annotated[float, FixedInt("d")]


class VersionRange(msgspec.Struct, frozen=True):
    """Versions `first` to `last`, both included; `last` None is open."""

    first: int = 0
    last: int | None = None

    def __contains__(self, version: int) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)


class NullableSince(msgspec.Struct, frozen=True):
    version: int


class Tag(msgspec.Struct, frozen=True):
    number: int


class Ignorable(msgspec.Struct, frozen=True):
    pass


ALL_VERSIONS: Final = VersionRange()

ignorable: Final = Ignorable()
"""A version without this field drops its value; otherwise a value other than the default is an error there."""


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
    """The field is in the tagged section, and only if it differs from its default (KIP-482)."""
    return Tag(number)


# ------------------------------------------------------------------ the fields of a class


class Plain(Enum):
    """The types without parameters whose size varies, and Kafka's 16-byte uuid."""

    STRING = "string"
    BYTES = "bytes"
    UUID = "uuid"


class ArrayOf(msgspec.Struct, frozen=True):
    element: WireType


class StructOf(msgspec.Struct, frozen=True):
    message: type[Message]


WireType: TypeAlias = FixedInt | Plain | ArrayOf | StructOf

BOOL: Final = FixedInt("?")

_PLAIN_TYPES: Final[dict[object, WireType]] = {
    bool: BOOL,
    str: Plain.STRING,
    bytes: Plain.BYTES,
    TopicId: Plain.UUID,
}


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a message. `nullable_since` None: never null; `tag` None: not in the tagged section."""

    name: str
    type: WireType
    versions: VersionRange
    nullable_since: int | None
    tag: int | None
    ignorable: bool
    default: object

    def may_be_null(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since


@cache
def fields_of(message: type[Message]) -> tuple[Field, ...]:
    """Return the fields of a message class, in wire order.

    Raises:
        TypeError: an annotation has no wire type.
    """
    hints: dict[str, object] = get_type_hints(message, include_extras=True)
    defaults: dict[str, object] = {field.name: field.default for field in msgspec.structs.fields(message)}
    return tuple(_field(message, name, hint, defaults[name]) for name, hint in hints.items())


def _field(message: type[Message], name: str, hint: object, default: object) -> Field:
    annotated, *words = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    options = [option for option in get_args(annotated) if option is not NoneType]
    is_nullable = get_origin(annotated) in (Union, UnionType)
    integer = next((word for word in words if isinstance(word, FixedInt)), None)
    wire_type = integer or _wire_type(options[0] if is_nullable else annotated)
    if wire_type is None:
        raise TypeError(f"{message.__name__}.{name}: {hint!r} has no wire type")
    first_nullable = next((word.version for word in words if isinstance(word, NullableSince)), 0)
    return Field(
        name=name,
        type=wire_type,
        versions=next((word for word in words if isinstance(word, VersionRange)), ALL_VERSIONS),
        nullable_since=first_nullable if is_nullable else None,
        tag=next((word.number for word in words if isinstance(word, Tag)), None),
        ignorable=ignorable in words,
        default=default,
    )


def _wire_type(annotation: object) -> WireType | None:
    if get_origin(annotation) is Annotated:
        return next((word for word in get_args(annotation) if isinstance(word, FixedInt)), None)
    if get_origin(annotation) is tuple:
        element = _wire_type(get_args(annotation)[0])
        return ArrayOf(element) if element else None
    if isinstance(annotation, type) and issubclass(annotation, Message):
        return StructOf(annotation)
    return _PLAIN_TYPES.get(annotation)
