"""Shows the keys and values of records as `understudy dump-log` prints them: as text, as numbers, or as JSON.

Mirrors Kafka's `org.apache.kafka.tools.api.Decoder` with its four decoders, and `DumpLogSegments.OffsetsMessageParser`,
which reads the records of the groups' topic.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import struct
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from understudy.foundation.records.record import Record
from understudy.foundation.wire.errors import WireError
from understudy.foundation.wire.messages import group_metadata as wire
from understudy.foundation.wire.messages.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from understudy.foundation.wire.schema import Message, fields_of
from understudy.foundation.wire.version_prefixed import decode_prefixed, version_of
from understudy.kafka_tools.errors import RUNTIME, ToolError

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | None"
Decoder: TypeAlias = Callable[[bytes], str]

OFFSET_KEYS, GROUP_KEY = (0, 1), 2
TOMBSTONE = "<DELETE>"


class Shown(NamedTuple):
    """Key and value of one record as text; None for one that is not printed."""

    key: str | None
    value: str | None


Parser: TypeAlias = Callable[[Record], Shown]


def parser_of(key_class: str, value_class: str) -> Parser:
    """Return the parser that shows keys and values by the decoders of these classes. Raises ToolError."""
    key_decoder, value_decoder = decoder_of(key_class), decoder_of(value_class)

    def parse(record: Record) -> Shown:
        return Shown(
            None if record.key is None else key_decoder(record.key),
            None if record.value is None else value_decoder(record.value),
        )

    return parse


def decoder_of(name: str) -> Decoder:
    """Return the decoder that a class of Kafka's stands for. Raises ToolError if it is none of Kafka's."""
    found = _DECODERS.get(name.removeprefix("org.apache.kafka.tools.api."))
    if found is None:
        raise ToolError(
            "java.lang.ClassNotFoundException",
            f"{name}; expected one of {', '.join(f'org.apache.kafka.tools.api.{known}' for known in _DECODERS)}",
        )
    return found


def parse_offsets(record: Record) -> Shown:
    """Show a record of `__consumer_offsets` as JSON. Raises ToolError if it has no key."""
    if record.key is None:
        raise ToolError(
            RUNTIME,
            f"Failed to decode message at offset {record.offset} using offset topic decoder "
            "(message had a missing key)",
        )
    try:
        version = version_of(record.key)
        if version not in (*OFFSET_KEYS, GROUP_KEY):
            return Shown(f"Unknown record type {version} at offset {record.offset}, skipping.", None)
        is_group = version == GROUP_KEY
        key = decode_prefixed(wire.GroupMetadataKey if is_group else wire.OffsetCommitKey, record.key)
        shown_key = compact({"type": str(version), "data": as_json(key, version)})
        if record.value is None:
            return Shown(shown_key, TOMBSTONE)
        value = decode_prefixed(wire.GroupMetadataValue if is_group else wire.OffsetCommitValue, record.value)
        version = version_of(record.value)
        data = as_json(value, version)
    except WireError as error:
        return Shown(f"Error at offset {record.offset}, skipping. {error}", None)
    if isinstance(value, wire.GroupMetadataValue) and value.protocol_type == CONSUMER_PROTOCOL_TYPE:
        _decode_members(data["members"], value)
    return Shown(shown_key, compact({"version": str(version), "data": data}))


def as_json(message: Message, version: int) -> dict[str, Json]:
    """Return the fields that a version of a message has, as Kafka's generated JSON converters name and order them."""
    return {
        _camel(field.name): _as_json(getattr(message, field.name), version)
        for field in fields_of(type(message))
        if version in field.versions
    }


def _as_json(value: object, version: int) -> Json:
    match value:
        case Message():
            return as_json(value, version)
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case tuple():
            return [_as_json(each, version) for each in value]
        case str() | int() | None:
            return value
    raise TypeError(f"{value!r} is no value of a message")


def _decode_members(members: Json, group: wire.GroupMetadataValue) -> None:
    """Replace the bytes of subscriptions and assignments by their fields, if these can be read."""
    assert isinstance(members, list)
    for shown, member in zip(members, group.members, strict=True):
        assert isinstance(shown, dict)
        for field, kind, data in (
            ("subscription", ConsumerProtocolSubscription, member.subscription),
            ("assignment", ConsumerProtocolAssignment, member.assignment),
        ):
            with contextlib.suppress(WireError):
                shown[field] = as_json(decode_prefixed(kind, data), min(version_of(data), 3))


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def compact(value: Json) -> str:
    """Return JSON without blanks, as Kafka's tools print it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _number(layout: str) -> Decoder:
    unpacks = struct.Struct(layout)

    def decode(data: bytes) -> str:
        if len(data) != unpacks.size:
            raise ToolError(
                "org.apache.kafka.common.errors.SerializationException",
                f"Size of data received is not {unpacks.size}; it is {len(data)}",
            )
        return str(unpacks.unpack(data)[0])

    return decode


_DECODERS: Final[dict[str, Decoder]] = {
    "StringDecoder": lambda data: data.decode("utf-8", "replace"),
    "IntegerDecoder": _number(">i"),
    "LongDecoder": _number(">q"),
    # Java prints the address of the array, not what it holds.
    "DefaultDecoder": lambda data: f"[B@{id(data) & 0xFFFF_FFFF:x}",
}
