"""Shows messages as Kafka's request log does: camelCase, the version's fields, and tagged fields with a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from understudy.foundation.wire.registry import API_BY_NAME
from understudy.foundation.wire.schema import ArrayOf, Field, Message, StructOf, WireType, fields_of

_UNUSUAL = {"is_kraft_controller": "isKRaftController"}


def api_key(api: str) -> str:
    """Turn `LeaderAndIsr` into `LEADER_AND_ISR`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", api).upper()


def as_kafka_shows(
    api: str, version: int, request: Mapping[str, object], response: Mapping[str, object]
) -> dict[str, Any]:
    """The request and response of a `RequestDetail` record, under the names `request` and `response`."""
    known = API_BY_NAME[api]
    return {"request": _struct(known.request, version, request), "response": _struct(known.response, version, response)}


def _struct(message: type[Message], version: int, values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        _camel_case(field.name): _value(field.type, version, values.get(field.name, field.default))
        for field in fields_of(message)
        if version in field.versions and not _is_silent(field, values)
    }


def _is_silent(field: Field, values: Mapping[str, Any]) -> bool:
    return field.tag is not None and values.get(field.name, field.default) == field.default


def _value(kind: WireType, version: int, value: Any) -> Any:
    if isinstance(kind, ArrayOf) and value is not None:
        return [_value(kind.element, version, element) for element in value]
    if isinstance(kind, StructOf) and value is not None:
        return _struct(kind.message, version, value)
    return value


def _camel_case(name: str) -> str:
    first, *rest = _UNUSUAL.get(name, name).split("_")
    return first + "".join(word.capitalize() for word in rest)
