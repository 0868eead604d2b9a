"""Reads the JSON files of tools, with the messages of Kafka's `org.apache.kafka.server.util.json`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from understudy.kafka_tools.errors import OPERATION_FAILED, ToolError

T = TypeVar("T")

VERSION = 1
MAPPING = "com.fasterxml.jackson.databind.JsonMappingException"


class JsonObject:
    """An object of a JSON file; its methods raise ToolError for a field that is missing or has the wrong type."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def text(self, name: str) -> str:
        return str(self._get(name, str, "String"))

    def number(self, name: str, default: int | None = None) -> int:
        if default is not None and name not in self._fields:
            return default
        return int(self._get(name, int, "Integer"))

    def numbers(self, name: str) -> list[int]:
        found = self._get(name, list, "array")
        return [int(_checked(each, int, "Integer")) for each in found]

    def texts(self, name: str) -> list[str]:
        found = self._get(name, list, "array")
        return [str(_checked(each, str, "String")) for each in found]

    def objects(self, name: str) -> Iterator[JsonObject]:
        """Yield the objects of an array."""
        for each in self._get(name, list, "array"):
            yield JsonObject(_checked(each, dict, "object"))

    def _get(self, name: str, kind: type, expected: str) -> Any:
        if name not in self._fields:
            raise ToolError(MAPPING, f'No such field exists: "{name}"')
        return _checked(self._fields[name], kind, expected)


def parse_object(text: str, empty: ToolError) -> JsonObject:
    """Return the object that a file contains; raises `empty` if it is no JSON, and ToolError if it is no object."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        raise empty from None
    return JsonObject(_checked(data, dict, "object"))


def parse_versioned(text: str) -> JsonObject:
    """Return the object that a file contains, whose version is 1 if it has one. Raises ToolError."""
    data = parse_object(text, ToolError(OPERATION_FAILED, "The input string is not a valid JSON"))
    version = data.number("version", VERSION)
    if version != VERSION:
        raise ToolError(OPERATION_FAILED, f"Not supported version field value {version}")
    return data


def duplicates(items: Iterable[T]) -> list[T]:
    """Return the items that occur more than once, each once."""
    return [item for item, count in Counter(items).items() if count > 1]


def _checked(value: Any, kind: type, expected: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ToolError(MAPPING, f"Expected `{expected}` value, received {json.dumps(value)}")
    return value
