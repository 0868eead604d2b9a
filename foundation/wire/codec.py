"""Messages to bytes and back. A reader and a writer per message class and version are made on first use and kept.

The body only: `headers` puts headers and sizes around it. Mirrors `org.apache.kafka.common.protocol.MessageUtil` and
the classes Kafka generates from its message definitions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from foundation.wire import diagnosis
from foundation.wire.codegen import GeneratedSource, reader_source, writer_source
from foundation.wire.errors import UnsupportedVersion
from foundation.wire.registry import api_of
from foundation.wire.schema import Message

M = TypeVar("M", bound=Message)

# What a generated function may stumble over when bytes or values are not what they should be.
_STUMBLES = (ValueError, IndexError, TypeError, AttributeError, OverflowError, struct.error)


class Codec(NamedTuple):
    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]
    flexible: bool
    to_the_end: bool
    """Whether bytes after the message's end are refused."""


def encode(message: Message, version: int) -> bytes:
    """The body of `message` at `version`.

    Raises:
        UnsupportedVersion: the API has no such version, or a field that is set does not exist in it.
        UnencodableValue: a value no version can carry.
    """
    codec = _codecs.get((type(message), version)) or codec_of(type(message), version)
    try:
        return codec.write(message)
    except _STUMBLES as stumble:
        raise diagnosis.why_unencodable(message, version, codec.flexible) from stumble


def decode(message_type: type[M], version: int, data: bytes) -> M:
    """The message that `data` holds.

    Raises:
        UnsupportedVersion: the API has no such version.
        MalformedMessage: `data` is cut short, holds what cannot be, or goes on after the end of a response. Bytes after
            the end of a request are left alone, as Kafka's brokers do: librdkafka asks for all topics with three too
            many.
    """
    codec = _codecs.get((message_type, version)) or codec_of(message_type, version)
    try:
        message: M = codec.read(data)
    except _STUMBLES as stumble:
        raise diagnosis.why_malformed(
            message_type, version, codec.flexible, data, to_the_end=codec.to_the_end
        ) from stumble
    return message


_codecs: dict[tuple[type[Message], int], Codec] = {}


def codec_of(message_type: type[Message], version: int) -> Codec:
    """The codec of a request or response at `version`, made on first use.

    Raises:
        UnsupportedVersion: the API has no such version.
    """
    api = api_of(message_type)
    if not api.supports(version):
        raise UnsupportedVersion(
            f"{message_type.__name__}: version {version} is unknown; expected {api.min_version} to {api.max_version}"
        )
    to_the_end = api.is_read_to_the_end(message_type)
    codec = compile_codec(message_type, version, flexible=api.is_flexible(version), to_the_end=to_the_end)
    _codecs[message_type, version] = codec
    return codec


def compile_codec(message_type: type[Message], version: int, *, flexible: bool, to_the_end: bool = True) -> Codec:
    """A codec for any message class, registered or not; its reader refuses bytes after the end where `to_the_end`."""
    source = reader_source(message_type, version, flexible=flexible, to_the_end=to_the_end)
    return Codec(
        read=_function(source, "read", message_type, version),
        write=_function(writer_source(message_type, version, flexible=flexible), "write", message_type, version),
        flexible=flexible,
        to_the_end=to_the_end,
    )


def _function(source: GeneratedSource, name: str, message_type: type[Message], version: int) -> Callable[[Any], Any]:
    """Run the generated source. It is made of our own schema's names alone; nothing from outside reaches it."""
    namespace = dict(source.names)
    code = compile(source.text(), f"<{name} {message_type.__name__} v{version}>", "exec")
    exec(code, namespace)
    function: Callable[[Any], Any] = namespace[name]  # type: ignore[assignment]  # the source defines it
    return function
