"""`ClusterArguments`: the arguments of `ClusterUnderTest` and of the marker `understudy`, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from understudy.clusters.nearest_word import did_you_mean

FUNCTION, SESSION = "function", "session"
SCOPES: Final = (FUNCTION, SESSION)
KEYS: Final = ("brokers", "racks", "topics", "session_timeout_ms", "properties", "proxied", "scope")


class BadArguments(ValueError):
    """An argument does not exist or has a value that it cannot have. The message names it and the allowed values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterArguments:
    """The setup of a cluster. Two tests with equal arguments may share a cluster.

    Attributes:
        brokers: the number of brokers; their ids begin with 1.
        racks: the racks of the brokers in order, repeated if there are fewer racks than brokers; empty for none.
        topics: name and number of partitions of each topic that exists when a test begins, sorted by name.
        session_timeout_ms: the ZooKeeper session timeout of the brokers: how long a killed broker stays registered.
        properties: further keys of `server.properties` for every broker, sorted.
        proxied: whether the traffic of the brokers goes through a proxy, so that they can be isolated.
        scope: `session` if tests with the same arguments share the cluster, otherwise `function`.
    """

    brokers: int = 3
    racks: tuple[str, ...] = ()
    topics: tuple[tuple[str, int], ...] = ()
    session_timeout_ms: int = 3_000
    properties: tuple[tuple[str, str], ...] = ()
    proxied: bool = False
    scope: str = FUNCTION

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ClusterArguments:
        """Check the arguments of a marker.

        Raises:
            BadArguments: a key is unknown, or a value has the wrong type or is out of range.
        """
        for key in values:
            if key not in KEYS:
                raise BadArguments(
                    f"there is no argument {key!r}{did_you_mean(key, KEYS)}; there are {', '.join(KEYS)}"
                )
        checked: dict[str, Any] = {}
        for key, value in values.items():
            checked[key] = _CHECKS[key](key, value)
        return cls(**checked)


def _positive(key: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadArguments(f"{key} is a whole number from 1, not {value!r}")
    return value


def _racks(key: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise BadArguments(f"{key} is a list of names, not {value!r}")
    racks = tuple(value)
    if not all(isinstance(rack, str) for rack in racks):
        raise BadArguments(f"{key} is a list of names, not {value!r}")
    return racks


def _topics(key: str, value: object) -> tuple[tuple[str, int], ...]:
    return tuple(
        sorted(
            (name, _positive(f"{key}[{name!r}], the number of partitions,", count))
            for name, count in _items(key, value)
        )
    )


def _properties(key: str, value: object) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, property_text(setting)) for name, setting in _items(key, value)))


def property_text(value: object) -> str:
    """Write a value as `server.properties` has it: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _items(key: str, value: object) -> list[tuple[str, object]]:
    if value is None:
        return []
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise BadArguments(f"{key} is a dictionary by name, not {value!r}")
    return list(value.items())


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadArguments(f"{key} is True or False, not {value!r}")
    return value


def _scope(key: str, value: object) -> str:
    if value not in SCOPES:
        raise BadArguments(
            f"{key} is {' or '.join(map(repr, SCOPES))}, not {value!r}{did_you_mean(str(value), SCOPES)}"
        )
    return str(value)


_CHECKS: Final = {
    "brokers": _positive,
    "racks": _racks,
    "topics": _topics,
    "session_timeout_ms": _positive,
    "properties": _properties,
    "proxied": _flag,
    "scope": _scope,
}
