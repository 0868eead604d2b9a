"""Uses kio 0.5.0 as the oracle of the codec: converts our values to kio's, and encodes and decodes with kio.

kio has one dataclass per message and version with fields in wire order, as ours are. Fields are matched by position,
so a field too many or too few is noticed.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any, get_args, get_type_hints
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import TZAware, i32Timedelta, i64Timedelta

from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, topic_id_from_bytes, topic_id_to_bytes
from understudy.foundation.wire.registry import Api
from understudy.foundation.wire.schema import ArrayOf, FixedInt, Message, Plain, StructOf, WireType, fields_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ERROR_CODES = tuple(int(code.value) for code in ErrorCode)


def kio_class(api: Api, message: type[Message], version: int) -> Any:
    package = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", api.name).lower()
    kind = "request" if message is api.request else "response"
    return getattr(importlib.import_module(f"kio.schema.{package}.v{version}.{kind}"), message.__name__)


def to_kio(value: Message, kind: Any, version: int) -> Any:
    """`value` as an instance of kio's class `kind`."""
    present = [f for f in fields_of(type(value)) if version in f.versions]
    theirs = dataclasses.fields(kind)
    assert len(present) == len(theirs), (
        f"{kind}: kio has {[f.name for f in theirs]}, we have {[f.name for f in present]}"
    )
    hints = get_type_hints(kind)
    return kind(
        **{
            their.name: _to_kio(getattr(value, our.name), our.type, hints[their.name], version)
            for our, their in zip(present, theirs, strict=True)
        }
    )


def _to_kio(value: Any, wire_type: WireType, hint: Any, version: int) -> Any:
    options = [option for option in get_args(hint) if option is not type(None)]
    if type(None) in get_args(hint) and len(options) == 1:
        hint = options[0]
    if wire_type is Plain.UUID:
        return None if value == NO_TOPIC_ID else UUID(bytes=topic_id_to_bytes(value))
    if value is None:
        return None
    if isinstance(wire_type, ArrayOf):
        return tuple(_to_kio(item, wire_type.element, get_args(hint)[0], version) for item in value)
    if isinstance(wire_type, StructOf):
        return to_kio(value, hint, version)
    if hint in (i32Timedelta, i64Timedelta):
        return timedelta(milliseconds=value)
    if hint is TZAware:
        return None if value == -1 else EPOCH + timedelta(milliseconds=value)
    return ErrorCode(value) if hint is ErrorCode else value


def from_kio(value: Any, message: type[Message], version: int) -> Message:
    """kio's `value` as an instance of our class."""
    present = [f for f in fields_of(message) if version in f.versions]
    pairs = zip(present, dataclasses.fields(value), strict=True)
    return message(**{our.name: from_kio_value(getattr(value, their.name), our.type, version) for our, their in pairs})


def from_kio_value(value: Any, wire_type: WireType, version: int) -> Any:
    if value is None and isinstance(wire_type, FixedInt):  # a timestamp
        return -1
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(milliseconds=1)
    if wire_type is Plain.UUID:
        return NO_TOPIC_ID if value is None else TopicId(topic_id_from_bytes(value.bytes))
    if isinstance(value, tuple) and isinstance(wire_type, ArrayOf):
        return tuple(from_kio_value(item, wire_type.element, version) for item in value)
    if isinstance(wire_type, StructOf) and value is not None:
        return from_kio(value, wire_type.message, version)
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    return value.value if isinstance(value, ErrorCode) else value


def kio_encode(value: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(value))(buffer, value)
    return buffer.getvalue()


def kio_decode(kind: Any, data: bytes) -> Any:
    value, size = entity_reader(kind)(data, 0)
    assert size == len(data)
    return value
