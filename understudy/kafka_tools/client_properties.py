"""The properties that are given to a producer or consumer: `NAME=VALUE` words, files, and their values.

A property that these clients do not have is ignored, as Kafka's clients ignore unknown ones, except if it asks for
more than a plain connection. Mirrors `CommandLineUtils.parseKeyValueArgs` and `AbstractConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from understudy.foundation.records.compression import Compression
from understudy.kafka_tools.console import read_properties
from understudy.kafka_tools.errors import CONFIG, ToolError, illegal_argument


def key_values(words: Iterable[str]) -> dict[str, str]:
    """Return the properties of `NAME=VALUE` words; a word without a value has an empty one.

    Raises:
        ToolError: a word has no name.
    """
    found = {}
    for word in words:
        name, _, value = word.partition("=")
        if not name:
            raise illegal_argument("Missing key")
        found[name] = value
    return found


def properties_of(path: str | None, words: Iterable[str]) -> dict[str, str]:
    """Return the properties of a file, if there is one, and of words, which take precedence. Raises ToolError."""
    found = read_properties(path) | key_values(words)
    protocol = found.get("security.protocol", "PLAINTEXT").upper()
    if protocol != "PLAINTEXT":
        raise illegal_argument(f"security.protocol={protocol} is not supported; expected PLAINTEXT")
    return found


def whole_number(properties: Mapping[str, str], name: str, default: int, *, least: int = 0) -> int:
    """Return the number that a property has. Raises ToolError if it has none, or one that is too small."""
    text = properties.get(name, "").strip()
    if not text:
        return default
    if not re.fullmatch(r"[+-]?\d+", text):
        raise ToolError(CONFIG, f"Invalid value {text} for configuration {name}: Not a number of type INT")
    if int(text) < least:
        raise ToolError(CONFIG, f"Invalid value {text} for configuration {name}: Value must be at least {least}")
    return int(text)


def one_of(properties: Mapping[str, str], name: str, default: str, known: Iterable[str]) -> str:
    """Return the value of a property that has to be one of some words. Raises ToolError."""
    value = properties.get(name, default)
    words = list(known)
    if value not in words:
        raise ToolError(
            CONFIG, f"Invalid value {value} for configuration {name}: String must be one of: {', '.join(words)}"
        )
    return value


def acks_of(properties: Mapping[str, str]) -> int:
    """Return `acks`, −1 for all. Raises ToolError; also for 0, because this producer waits for every answer."""
    value = one_of(properties, "acks", "all", ("all", "-1", "0", "1"))
    if value == "0":
        raise ToolError(CONFIG, "Invalid value 0 for configuration acks: this producer has only 1, -1 and all")
    return 1 if value == "1" else -1


def compression_of(properties: Mapping[str, str]) -> Compression:
    """Return `compression.type`. Raises ToolError."""
    name = one_of(properties, "compression.type", "none", [codec.name.lower() for codec in Compression])
    return Compression[name.upper()]


def is_true(properties: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """Return a yes or no as Kafka's tools read them: everything but `true` is a no."""
    return properties[name].strip().lower() == "true" if name in properties else default
