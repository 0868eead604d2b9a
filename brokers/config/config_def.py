"""Defines configuration keys: types, defaults, ranges, and the errors for bad values. Mirrors `ConfigDef`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import TypeAlias

from understudy.foundation.cluster.metadata_version import MetadataVersion, UnknownMetadataVersion

ConfigValue: TypeAlias = bool | int | float | str | tuple[str, ...] | None


class ConfigError(ValueError):
    """A configuration cannot be used; the message is for the operator. Mirrors Kafka's `ConfigException`."""

    @classmethod
    def invalid(cls, key: str, value: object, reason: str) -> ConfigError:
        return cls(f"Invalid value {value} for configuration {key}: {reason}")


class InvalidConfiguration(ConfigError):
    """A `ConfigError` whose message clients receive as it is; others get the resource in front. Mirrors Kafka's
    `InvalidConfigurationException`."""


class ConfigType(Enum):
    """Kafka's types of values, with their numbers in DescribeConfigs (`ConfigEntry.ConfigType`)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    def parse(self, key: str, text: str) -> ConfigValue:
        """Return the value of `text`, without the blanks around it.

        Raises:
            ConfigError: it is not of this type; the message shows it with its blanks.
        """
        trimmed = text.strip(_BLANKS)
        value: ConfigValue
        match self:
            case ConfigType.BOOLEAN:
                value, reason = _boolean(trimmed), "Expected value to be either true or false"
            case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
                value, reason = _integer(trimmed, self), f"Not a number of type {self.name}"
            case ConfigType.DOUBLE:
                value, reason = _double(trimmed), "Not a number of type DOUBLE"
            case ConfigType.CLASS:
                value, reason = _class_name(trimmed), f"Class {text} could not be found."
            case ConfigType.LIST:
                return tuple(part.strip() for part in trimmed.split(",")) if trimmed else ()
            case ConfigType.STRING | ConfigType.PASSWORD:
                return trimmed
        if value is None:
            raise ConfigError.invalid(key, text, reason)
        return value


BOOLEAN = ConfigType.BOOLEAN
STRING = ConfigType.STRING
INT = ConfigType.INT
SHORT = ConfigType.SHORT
LONG = ConfigType.LONG
DOUBLE = ConfigType.DOUBLE
LIST = ConfigType.LIST
CLASS = ConfigType.CLASS
PASSWORD = ConfigType.PASSWORD


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One configuration key.

    Attributes:
        type: the type of its values.
        default: the parsed default; None if the key is optional.
        minimum, maximum: bounds of a number, both included.
        choices: the only values allowed; empty for any.
        doc: one line for clients; None for keys that are not acted upon.
        check: returns why a value of the right type and range is refused; None for a valid one.
        internal: not described to clients unless it is set.
    """

    name: str
    type: ConfigType
    default: ConfigValue
    doc: str | None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    check: Callable[[ConfigValue], str | None] | None = None
    internal: bool = False

    @property
    def is_sensitive(self) -> bool:
        return self.type is PASSWORD

    def parse(self, text: str) -> ConfigValue:
        """Return the value of `text`.

        Raises:
            ConfigError: wrong type or out of bounds.
        """
        value = self.type.parse(self.name, text)
        if self.minimum is not None and isinstance(value, int | float) and value < self.minimum:
            raise ConfigError.invalid(self.name, shown(value), f"Value must be at least {self.minimum}")
        if self.maximum is not None and isinstance(value, int | float) and value > self.maximum:
            raise ConfigError.invalid(self.name, shown(value), f"Value must be no more than {self.maximum}")
        for choice in value if isinstance(value, tuple) else (value,):
            if self.choices and choice not in self.choices:
                raise ConfigError.invalid(self.name, choice, f"String must be one of: {', '.join(self.choices)}")
        reason = self.check(value) if self.check is not None else None
        if reason is not None:
            read = f"[{', '.join(value)}]" if isinstance(value, tuple) else value
            raise ConfigError.invalid(self.name, read, reason)
        return value


def gzip_level(level: ConfigValue) -> str | None:
    return None if level == -1 or level in range(1, 10) else "Value must be between 1 and 9 or equal to -1"


def connections_by_host(overrides: ConfigValue) -> str | None:
    entries = [entry.rpartition(":") for entry in str(overrides).split(",") if entry]
    good = all(host and java_int(limit) is not None for host, _, limit in entries)
    return None if good else "expected host:connections, separated by commas"


def metadata_version(text: ConfigValue) -> str | None:
    try:
        MetadataVersion.parse(str(text))
    except UnknownMetadataVersion:
        return f"Version {text} is not a valid version"
    return None


def shown(value: ConfigValue) -> str | None:
    """Return a value as text, as in `server.properties`."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case float():
            return _java_double(value)
        case _:
            return str(value)


_JAVA_DOUBLE = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?)")

_BLANKS = "".join(map(chr, range(ord(" ") + 1)))
"""Characters that Java's `trim` removes."""

_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _integer(text: str, kind: ConfigType) -> int | None:
    digits = text[1:] if text[:1] in ("-", "+") else text
    # Python would also read 1_000 and digits of other scripts; Java's parser does not.
    if digits.isascii() and digits.isdigit() and len(digits) <= 20:
        number = int(text)
        half = 1 << (_BITS[kind] - 1)
        if -half <= number < half:
            return number
    return None


def java_int(text: str) -> int | None:
    """Return the number that Java's `Integer.parseInt` reads; None if it refuses `text`."""
    return _integer(text, ConfigType.INT)


def java_long(text: str) -> int | None:
    """Return the number that Java's `Long.parseLong` reads; None if it refuses `text`."""
    return _integer(text, ConfigType.LONG)


def _double(text: str) -> float | None:
    # Python would also read 1_0, inf and digits of other scripts, and would not read 1.5d; Java's parser does the
    # opposite. Java's hexadecimal notation (0x1p-2) is not read: configurations do not use it.
    return float(text.rstrip("dDfF")) if _JAVA_DOUBLE.fullmatch(text) else None


def _java_double(value: float) -> str:
    """Format as Java's `Double.toString`: plain from 0.001 up to ten million, else with an exponent."""
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int), f"{value} is no configuration value"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    figures = "".join(map(str, digits)).rstrip("0")
    power = exponent + len(digits) - 1
    return f"{'-' if sign else ''}{figures[0]}.{figures[1:] or '0'}E{power}"


def _class_name(text: str) -> str | None:
    # Without a class path only the syntax of the name can be checked.
    return text if all(part.replace("$", "_").isidentifier() for part in text.split(".")) else None
