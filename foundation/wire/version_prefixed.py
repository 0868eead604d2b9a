"""Encodes and decodes messages that follow their own version, two bytes: in records, and inside other messages.

Mirrors `MessageUtil.toVersionPrefixedBytes` and the classes `ConsumerProtocol` and `GroupMetadataManager` of Kafka.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, TypeVar

from understudy.foundation.wire import diagnosis
from understudy.foundation.wire.codec import ERRORS, Codec, compile_codec
from understudy.foundation.wire.errors import MalformedMessage, UnsupportedVersion
from understudy.foundation.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from understudy.foundation.wire.messages.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from understudy.foundation.wire.registry import NEVER_FLEXIBLE
from understudy.foundation.wire.schema import Message

M = TypeVar("M", bound=Message)

_VERSION: Final = struct.Struct(">h")
VERSION_BYTES: Final = _VERSION.size
_KEPT_PREFIXES: Final = 64
"""Maximum number of pairs of a message and a version that keep their codec: more than the pairs that exist, because
newer versions are also read."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The versions of a message that no API has.

    Attributes:
        accepts_newer: a newer version is read as the newest known one; what follows is ignored.
    """

    min_version: int
    max_version: int
    flexible_from: int = NEVER_FLEXIBLE
    accepts_newer: bool = False


LAYOUTS: Final[dict[type[Message], Layout]] = {
    ConsumerProtocolSubscription: Layout(0, 3, accepts_newer=True),
    ConsumerProtocolAssignment: Layout(0, 3, accepts_newer=True),
    OffsetCommitKey: Layout(0, 1),
    OffsetCommitValue: Layout(0, 4, flexible_from=4),
    GroupMetadataKey: Layout(2, 2),
    GroupMetadataValue: Layout(0, 4, flexible_from=4),
}


def version_of(data: bytes) -> int:
    """Return the version that `data` begins with.

    Raises:
        MalformedMessage: it is shorter than a version.
    """
    try:
        version: int = _VERSION.unpack_from(data)[0]
    except struct.error as short:
        raise MalformedMessage("message", 0, "version", 0, f"{len(data)} bytes are left; a version takes 2") from short
    return version


def encode_prefixed(message: Message, version: int) -> bytes:
    """Return the version and then `message` at that version.

    Raises:
        UnsupportedVersion: there is no such version.
        UnencodableValue: a value that the version cannot hold.
    """
    codec = _codec_of(type(message), version)
    try:
        return _VERSION.pack(version) + codec.write(message)
    except ERRORS as error:
        raise diagnosis.why_unencodable(message, version, codec.flexible) from error


def decode_prefixed(message_type: type[M], data: bytes) -> M:
    """Return the message after the version that `data` begins with.

    Raises:
        UnsupportedVersion: there is no such version, or it is newer than those known.
        MalformedMessage: `data` is cut short, or is no such message.
    """
    codec = _codec_read_by(message_type, data[:VERSION_BYTES])
    try:
        message: M = codec.read(data, VERSION_BYTES)
    except ERRORS as error:
        version = _read_version(message_type, data)
        raise diagnosis.why_malformed(
            message_type, version, codec.flexible, data[VERSION_BYTES:], to_the_end=codec.to_the_end
        ) from error
    return message


@lru_cache(_KEPT_PREFIXES)
def _codec_read_by(message_type: type[Message], prefix: bytes) -> Codec:
    return _codec_of(message_type, _read_version(message_type, prefix))


def _read_version(message_type: type[Message], data: bytes) -> int:
    """Return the version that `data` is read in."""
    layout = LAYOUTS[message_type]
    return min(version_of(data), layout.max_version) if layout.accepts_newer else version_of(data)


@cache
def _codec_of(message_type: type[Message], version: int) -> Codec:
    layout = LAYOUTS[message_type]
    if not layout.min_version <= version <= layout.max_version:
        raise UnsupportedVersion(
            f"{message_type.__name__}: version {version} is unknown; expected {layout.min_version} to "
            f"{layout.max_version}"
        )
    flexible = version >= layout.flexible_from
    return compile_codec(message_type, version, flexible=flexible, to_the_end=False)
