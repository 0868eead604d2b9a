"""Prints records for `understudy consume`. Mirrors Kafka's `DefaultMessageFormatter` and its neighbours."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from understudy.clusters.clients.consumer import Consumed
from understudy.foundation.wire.errors import WireError
from understudy.foundation.wire.messages import group_metadata as wire
from understudy.foundation.wire.schema import Message
from understudy.foundation.wire.version_prefixed import decode_prefixed, version_of
from understudy.kafka_tools.client_properties import is_true
from understudy.kafka_tools.console import Console
from understudy.kafka_tools.errors import ToolError
from understudy.kafka_tools.record_decoders import GROUP_KEY, OFFSET_KEYS, Json, as_json, compact

Formatter: TypeAlias = Callable[[Consumed], bytes]
Deserializer: TypeAlias = Callable[[bytes], str]

PACKAGE = "org.apache.kafka.tools.consumer."
DEFAULT = f"{PACKAGE}DefaultMessageFormatter"
SERIALIZATION = "org.apache.kafka.common.serialization."
UNKNOWN = "unknown"
_DEPRECATED: Final[dict[str, str]] = {
    **{f"kafka.tools.{name}MessageFormatter": f"{name}MessageFormatter" for name in ("Default", "Logging", "NoOp")},
    "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter": "OffsetsMessageFormatter",
    "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter": "GroupMetadataMessageFormatter",
}
"""The old names of formatters, with the new ones in `PACKAGE`."""


def formatter_of(name: str, properties: Mapping[str, str], console: Console) -> Formatter:
    """Return the formatter that a class of Kafka's stands for, with its properties.

    Raises:
        ToolError: this tool has no such formatter; the message is the name, as Kafka has it.
    """
    if name in _DEPRECATED:
        renamed = f"{PACKAGE}{_DEPRECATED[name]}"
        console.error(
            f"WARNING: {name} is deprecated and will be removed in the next major release. Please use {renamed} instead"
        )
        name = renamed
    match name.removeprefix(PACKAGE):
        case "DefaultMessageFormatter" | "LoggingMessageFormatter":
            # The log lines of the second one are below the level of Kafka's tools.
            return DefaultFormatter(properties, console)
        case "NoOpMessageFormatter":
            return lambda _: b""
        case "OffsetsMessageFormatter":
            return _offsets
        case "GroupMetadataMessageFormatter":
            return _groups
    raise ToolError("java.lang.ClassNotFoundException", name)


class DefaultFormatter:
    """Shows the parts of a record that the properties ask for, separated as they say.

    Args:
        properties: `print.timestamp`, `print.partition`, `print.offset`, `print.headers`, `print.key`, `print.value`,
            `key.separator`, `line.separator`, `headers.separator`, `null.literal`, `key.deserializer`,
            `value.deserializer`, `headers.deserializer`.
    """

    def __init__(self, properties: Mapping[str, str], console: Console) -> None:
        self._shows = {
            part: is_true(properties, f"print.{part}", default=part == "value")
            for part in ("timestamp", "partition", "offset", "headers", "key", "value")
        }
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_separator = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._deserializers = {
            part: _deserializer(properties.get(f"{part}.deserializer"), console) for part in ("key", "value", "headers")
        }

    def __call__(self, consumed: Consumed) -> bytes:
        shown = [
            shows(consumed)
            for part, shows in (
                ("timestamp", self._timestamp),
                ("partition", lambda each: b"Partition:%d" % each.partition.partition),
                ("offset", lambda each: b"Offset:%d" % each.offset),
                ("headers", self._headers),
                ("key", lambda each: self._bytes("key", each.record.key)),
                ("value", lambda each: self._bytes("value", each.record.value)),
            )
            if self._shows[part]
        ]
        return self._separator.join(shown) + self._line_separator if shown else b""

    @staticmethod
    def _timestamp(consumed: Consumed) -> bytes:
        if consumed.record.timestamp < 0:
            return b"NO_TIMESTAMP"
        return b"%s:%d" % (
            b"LogAppendTime" if consumed.has_log_append_time else b"CreateTime",
            consumed.record.timestamp,
        )

    def _headers(self, consumed: Consumed) -> bytes:
        pairs = (b"%s:%s" % (each.key.encode(), self._bytes("headers", each.value)) for each in consumed.record.headers)
        return self._headers_separator.join(pairs) if consumed.record.headers else b"NO_HEADERS"

    def _bytes(self, part: str, data: bytes | None) -> bytes:
        data = self._null if data is None else data
        deserialize = self._deserializers[part]
        return data if deserialize is None else deserialize(data).encode()


def _deserializer(name: str | None, console: Console) -> Deserializer | None:
    """Return the deserializer of a class of Kafka's; None for the bytes as they are."""
    if not name:
        return None
    found = _DESERIALIZERS.get(name.removeprefix(SERIALIZATION))
    if found is None:
        console.log("ERROR", f"Unable to instantiate a deserializer from {name}", DEFAULT)
        console.error(f"java.lang.ClassNotFoundException: {name}")
    return found


def _number(layout: str, kind: str) -> Deserializer:
    unpacks = struct.Struct(layout)

    def deserialize(data: bytes) -> str:
        if len(data) != unpacks.size:
            raise ToolError(
                "org.apache.kafka.common.errors.SerializationException",
                f"Size of data received by {kind}Deserializer is not {unpacks.size}",
            )
        return str(unpacks.unpack(data)[0])

    return deserialize


def _shown_bytes(data: bytes) -> str:
    """Return bytes as Kafka's `Bytes` shows them."""
    return "".join(chr(byte) if 32 <= byte <= 126 and byte != 92 else f"\\x{byte:02X}" for byte in data)


_DESERIALIZERS: Final[dict[str, Deserializer]] = {
    "StringDeserializer": lambda data: data.decode("utf-8", "replace"),
    "BytesDeserializer": _shown_bytes,
    "ShortDeserializer": _number(">h", "Short"),
    "IntegerDeserializer": _number(">i", "Integer"),
    "LongDeserializer": _number(">q", "Long"),
    "FloatDeserializer": _number(">f", "Float"),
    "DoubleDeserializer": _number(">d", "Double"),
}


def _offsets(consumed: Consumed) -> bytes:
    return _stored(consumed, OFFSET_KEYS, wire.OffsetCommitKey, wire.OffsetCommitValue, (GROUP_KEY,))


def _groups(consumed: Consumed) -> bytes:
    return _stored(consumed, (GROUP_KEY,), wire.GroupMetadataKey, wire.GroupMetadataValue, OFFSET_KEYS)


def _stored(
    consumed: Consumed, versions: tuple[int, ...], key: type[Message], value: type[Message], other: tuple[int, ...]
) -> bytes:
    """Return a record of `__consumer_offsets` as JSON, without a newline as in Kafka 3.9; nothing for `other` ones."""
    shown: dict[str, Json] = {"key": None, "value": None}
    data = consumed.record.key
    if data is not None:
        version = version_of(data)
        if version in other:
            return b""
        shown["key"] = {"version": version, "data": _decoded(key, data) if version in versions else UNKNOWN}
    data = consumed.record.value
    if data is not None:
        shown["value"] = {"version": version_of(data), "data": _decoded(value, data)}
    return compact(shown).encode()


def _decoded(kind: type[Message], data: bytes) -> Json:
    try:
        return as_json(decode_prefixed(kind, data), version_of(data))
    except WireError:
        return UNKNOWN
