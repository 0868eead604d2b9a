"""`SimulatedArguments`: the arguments of `simulated`, checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from understudy.clusters.nearest_word import did_you_mean
from understudy.clusters.testing.arguments import property_text

MOST_BROKERS: Final = 50
"""Maximum number of brokers. A virtual minute of more takes longer than a test may."""


class BadArguments(ValueError):
    """An argument does not exist or has a value that it cannot have. The message names it and the allowed values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedArguments:
    """The arguments of a test in virtual time.

    Attributes:
        seeds: how many seeds are run.
        brokers: how many brokers; their ids begin with 1.
        kinds: the kinds of faults that a seed may draw, and steps of experiments; see `faults.check_faults`.
        seconds: the virtual time in which faults are injected.
        racks: the racks of the brokers in order; empty for none.
        settings: further keys of `server.properties`.
        crash_points: the service that is killed at each of its own awaits in turn, one in each run; empty for none.
        without: names of fences and fixes of historic bugs that are switched off in the brokers.
    """

    seeds: int = 100
    brokers: int = 3
    kinds: Sequence[str] = ()
    seconds: float = 60.0
    racks: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    crash_points: str = ""
    without: Sequence[str] = ()


def checked_arguments(given: Mapping[str, Any]) -> SimulatedArguments:
    """Check the arguments of `simulated`.

    Raises:
        BadArguments: an argument is unknown, or has the wrong type or a value out of its range.
    """
    for name in given:
        if name not in _CHECKS:
            raise BadArguments(
                f"@simulated has no argument {name!r}{did_you_mean(name, _CHECKS)}; it has {', '.join(_CHECKS)}"
            )
    values = {"faults": "failover"} | dict(given)
    checked: dict[str, Any] = {}
    for name, value in values.items():
        field_name, check = _CHECKS[name]
        checked[field_name] = check(name, value)
    return SimulatedArguments(**checked)


def whole_number(name: str, value: object, *, least: int = 1, most: int | None = None) -> int:
    """Return a whole number in its range; BadArguments names the argument otherwise."""
    expected = f"a whole number from {least}" + ("" if most is None else f" to {most}")
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        raise BadArguments(f"{name} is {expected}, and not {value!r}")
    return value


def _brokers(name: str, value: object) -> int:
    return whole_number(name, value, most=MOST_BROKERS)


def _seconds(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not (0 < value < math.inf):
        raise BadArguments(f"{name} is a number of virtual minutes above 0, such as 0.5, and not {value!r}")
    return value * 60.0


def _kinds(name: str, value: object) -> tuple[str, ...]:
    from understudy.testing.simulated_tests.faults.fault_kinds import PROFILES  # noqa: PLC0415  all tests that follow need it

    if isinstance(value, str) and value in PROFILES:
        return PROFILES[value]
    from understudy.testing.simulated_tests.faults.faults import check_faults  # noqa: PLC0415  it loads experiments

    return check_faults(value)


def _crash_points(name: str, value: object) -> str:
    if value is not None and (not isinstance(value, str) or not value):
        raise BadArguments(f"{name} is the name of a service, as in cluster.start(main, name='billing'), not {value!r}")
    return value or ""


def _without(name: str, value: object) -> tuple[str, ...]:
    from understudy.foundation.eventlog.fences import SWITCHES  # noqa: PLC0415  most tests do not need it

    names = () if value is None else _list_of_texts(name, value, "a list of fences and fixes, as in ['kip-380']")
    for each in names:
        if each not in SWITCHES:
            raise BadArguments(
                f"{name} has the unknown fence or fix {each!r}{did_you_mean(each, SWITCHES)}; there are "
                f"{', '.join(SWITCHES)}"
            )
    return names


def _racks(name: str, value: object) -> tuple[str, ...]:
    return () if value is None else _list_of_texts(name, value, "a list of names")


def _list_of_texts(name: str, value: object, expected: str) -> tuple[str, ...]:
    texts = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else None
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise BadArguments(f"{name} is {expected}, and not {value!r}")
    return texts


def _settings(name: str, value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise BadArguments(
            f"{name} is a dictionary of keys of server.properties, such as {{'min.insync.replicas': 2}}, "
            f"and not {value!r}"
        )
    return {key: property_text(setting) for key, setting in value.items()}


_CHECKS: Final[dict[str, tuple[str, Callable[[str, object], Any]]]] = {
    "seeds": ("seeds", whole_number),
    "brokers": ("brokers", _brokers),
    "faults": ("kinds", _kinds),
    "minutes": ("seconds", _seconds),
    "racks": ("racks", _racks),
    "settings": ("settings", _settings),
    "crash_points": ("crash_points", _crash_points),
    "without": ("without", _without),
}
"""The field of `SimulatedArguments` that an argument becomes, and its check."""
