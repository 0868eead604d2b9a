"""Makes records of lines: key, value and headers as the properties of `understudy produce` separate them.

Mirrors `ConsoleProducer.LineMessageReader`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from understudy.foundation.records.record import Header
from understudy.kafka_tools.client_properties import is_true
from understudy.kafka_tools.errors import KAFKA_EXCEPTION, ToolError


class Said(NamedTuple):
    """The record of a line; None for a null."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class LineReader:
    """Reads one line after the other.

    Args:
        properties: the values of `--property`: `parse.key`, `key.separator`, `parse.headers`, `headers.delimiter`,
            `headers.separator`, `headers.key.separator`, `ignore.error` and `null.marker`.

    Raises:
        ToolError: two of the separators are the same.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._parses_key = is_true(properties, "parse.key")
        self._parses_headers = is_true(properties, "parse.headers")
        self._ignores_errors = is_true(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t")
        self._headers_delimiter = properties.get("headers.delimiter", "\t")
        self._headers_separator = properties.get("headers.separator", ",")
        self._header_key_separator = properties.get("headers.key.separator", ":")
        self._null = properties.get("null.marker")
        self._line_number = 0
        names = {
            "headers.delimiter": self._headers_delimiter,
            "headers.separator": self._headers_separator,
            "headers.key.separator": self._header_key_separator,
            "null.marker": self._null,
            "key.separator": self._key_separator,
        }
        for one, other in _NOT_EQUAL:
            if names[one] == names[other]:
                raise ToolError(KAFKA_EXCEPTION, f"{one} and {other} may not be equal")

    def read(self, line: bytes) -> Said:
        """Return the record of a line. Raises ToolError if a separator is missing, unless errors are ignored."""
        self._line_number += 1
        text = line.decode("utf-8", "replace")
        headers = self._part(self._parses_headers, text, 0, self._headers_delimiter, "headers delimiter")
        begin = 0 if headers is None else len(headers) + len(self._headers_delimiter)
        key = self._part(self._parses_key, text, begin, self._key_separator, "key separator")
        begin += 0 if key is None else len(key) + len(self._key_separator)
        found = () if headers is None or headers == self._null else self._headers(headers)
        return Said(self._bytes(key), self._bytes(text[begin:]), found)

    def _part(self, is_wanted: bool, text: str, begin: int, separator: str, name: str) -> str | None:
        if not is_wanted:
            return None
        end = text.find(separator, begin)
        if end >= 0:
            return text[begin:end]
        if self._ignores_errors:
            return None
        raise ToolError(KAFKA_EXCEPTION, f"No {name} found on line number {self._line_number}: '{text}'")

    def _headers(self, text: str) -> tuple[Header, ...]:
        pairs = re.split(self._headers_separator, text)
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()  # Java's split leaves them out
        return tuple(self._header(pair) for pair in pairs)

    def _header(self, pair: str) -> Header:
        key, separator, value = pair.partition(self._header_key_separator)
        if not separator:
            if self._ignores_errors:
                return Header(pair, None)
            raise ToolError(
                KAFKA_EXCEPTION,
                f"No header key separator found in pair '{pair}' on line number {self._line_number}",
            )
        if key == self._null:
            raise ToolError(
                KAFKA_EXCEPTION,
                f"Header keys should not be equal to the null marker '{self._null}' as they can't be null",
            )
        return Header(key, self._bytes(value))

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null else text.encode()


_NOT_EQUAL = (
    ("headers.delimiter", "headers.separator"),
    ("headers.delimiter", "headers.key.separator"),
    ("headers.separator", "headers.key.separator"),
    ("null.marker", "key.separator"),
    ("null.marker", "headers.separator"),
    ("null.marker", "headers.delimiter"),
    ("null.marker", "headers.key.separator"),
)
"""The properties whose values have to differ, in the order in which they are compared."""
