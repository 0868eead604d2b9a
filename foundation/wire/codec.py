"""Encodes and decodes messages, with a reader and a writer for each class and version, made on first use and kept.

They process the body; `headers` adds header and size. Mirrors `org.apache.kafka.common.protocol.MessageUtil` and
the classes Kafka generates from its message definitions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from understudy.foundation.wire import diagnosis
from understudy.foundation.wire.codegen import GeneratedSource, reader_source, writer_source
from understudy.foundation.wire.errors import UnsupportedVersion
from understudy.foundation.wire.registry import api_of
from understudy.foundation.wire.schema import Message

M = TypeVar("M", bound=Message)

_SIZE = struct.Struct(">i")

ERRORS = (ValueError, IndexError, TypeError, AttributeError, OverflowError, struct.error)
"""Errors of a generated function if bytes or values are not what they should be."""


class Codec(NamedTuple):
    """The reader and writer of one message class and version."""

    read: Callable[..., Any]
    """Takes bytes, and the position in them at which the message begins, 0 by default."""
    parts: Callable[[Any], list[bytes]]
    """Returns the message as bytes that are to be joined."""
    flexible: bool
    to_the_end: bool
    """Whether the reader refuses bytes after the end of the message."""

    def write(self, message: Message) -> bytes:
        return b"".join(self.parts(message))


def encode(message: Message, version: int) -> bytes:
    """Encode the body of `message` at `version`.

    Raises:
        UnsupportedVersion: the API has no such version, or a field that is set does not exist in it.
        UnencodableValue: a value that no version can hold.
    """
    codec = _codecs.get((type(message), version)) or codec_of(type(message), version)
    try:
        return codec.write(message)
    except ERRORS as error:
        raise diagnosis.why_unencodable(message, version, codec.flexible) from error


def encode_frame(message: Message, version: int, header: bytes) -> bytes:
    """Encode size, `header` and body in one step, so that records are copied once. Raises as `encode` does."""
    codec = _codecs.get((type(message), version)) or codec_of(type(message), version)
    try:
        parts = codec.parts(message)
        return b"".join((_SIZE.pack(len(header) + sum(map(len, parts))), header, *parts))
    except ERRORS as error:
        raise diagnosis.why_unencodable(message, version, codec.flexible) from error


def decode(message_type: type[M], version: int, data: bytes, position: int = 0) -> M:
    """Decode a message from `data`, beginning at `position`.

    Raises:
        UnsupportedVersion: the API has no such version.
        MalformedMessage: `data` is cut short, is no such message, or continues after the end of a response. Bytes after
            the end of a request are ignored, as in Kafka: librdkafka's request for all topics has three of them.
    """
    codec = _codecs.get((message_type, version)) or codec_of(message_type, version)
    try:
        message: M = codec.read(data, position)
    except ERRORS as error:
        raise diagnosis.why_malformed(
            message_type, version, codec.flexible, data[position:], to_the_end=codec.to_the_end
        ) from error
    return message


_codecs: dict[tuple[type[Message], int], Codec] = {}


def codec_of(message_type: type[Message], version: int) -> Codec:
    """Make the codec of a request or response at `version`, and keep it.

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


def kept_codecs() -> tuple[tuple[type[Message], int], ...]:
    """Return the messages and versions of which this process has a codec, in the order of their making."""
    return tuple(_codecs)


def compile_codec(message_type: type[Message], version: int, *, flexible: bool, to_the_end: bool = True) -> Codec:
    """Make a codec for any message class; with `to_the_end` its reader refuses bytes after the end."""
    source = reader_source(message_type, version, flexible=flexible, to_the_end=to_the_end)
    return Codec(
        read=_function(source, "read", message_type, version),
        parts=_function(writer_source(message_type, version, flexible=flexible), "write", message_type, version),
        flexible=flexible,
        to_the_end=to_the_end,
    )


def _function(source: GeneratedSource, name: str, message_type: type[Message], version: int) -> Callable[..., Any]:
    """Compile the generated source, which contains only names of the schema and no input, and return its function."""
    namespace = dict(source.names)
    code = compile(source.text(), f"<{name} {message_type.__name__} v{version}>", "exec")
    exec(code, namespace)
    function: Callable[..., Any] = namespace[name]  # type: ignore[assignment]  # the source defines it
    return function
