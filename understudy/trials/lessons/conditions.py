"""Conditions over fields of a record, which find a stop, and over measurements, which decide which answer is right."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from understudy.checks.check import broker_of
from understudy.clusters.problems import BadValue, one_of
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, Envelope

ENVELOPE_FIELDS: Final = ("node", "broker", "incarnation", "seq", "controller_epoch", "zxid", "at_ms")
"""Fields of every record: `broker` is the number in the node's name, -1 for a testbed; `at_ms` counts from the first
record of the run.
"""

ANY: Final = "*"
"""Part of the path of a field that stands for any element of a list."""

_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_COMPARISON = re.compile(r"\s*(\S+)\s+(==|!=|<=|>=|<|>)\s+(\S+)\s*")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class RecordComparison(NamedTuple):
    """Two names or numbers and what must hold of them."""

    left: str
    sign: str
    right: str


def parse_condition(text: object) -> tuple[RecordComparison, ...]:
    """Return the comparisons of `detection_ms > election_ms and controllers == 2`. Raises BadValue."""
    found = []
    for part in str(text).split(" and "):
        match = _COMPARISON.fullmatch(part)
        if match is None:
            raise BadValue(
                f"{part.strip()!r} is no comparison; expected a measurement, one of {' '.join(_OPERATORS)}, and a "
                "measurement or a number, for example detection_ms > election_ms"
            )
        found.append(RecordComparison(match[1], match[2], match[3]))
    return tuple(found)


def is_number(word: str) -> bool:
    return _NUMBER.fullmatch(word) is not None


def holds(condition: Iterable[RecordComparison], value_of: Callable[[str], Any]) -> bool:
    """Whether every comparison of a condition holds.

    Args:
        value_of: returns the value of a measurement; raises BadValue.
    """

    def value(word: str) -> Any:
        return float(word) if is_number(word) else value_of(word)

    return all(_OPERATORS[each.sign](value(each.left), value(each.right)) for each in condition)


def check_path(type_name: str, path: str) -> None:
    """Raise BadValue if the records of a type have no field of this path. Only its first part is checked."""
    known = (*ENVELOPE_FIELDS, *PAYLOAD_BY_TYPE[type_name].__struct_fields__)
    first = path.partition(".")[0]
    if first not in known:
        raise one_of(first, known, f"field of {type_name}")


def values_at(record: Envelope, path: str, first_ms: float = 0.0) -> Iterator[Any]:
    """Yield the value of a field, or several if the path has `*`; none if no field has the path.

    Args:
        first_ms: the clock of the run's first record.
    """
    first, *rest = path.split(".")
    start: Any
    if first == "broker":
        start = broker_of(record)
    elif first == "at_ms":
        start = record.mono_ms - first_ms
    elif first in ENVELOPE_FIELDS:
        start = getattr(record, first)
    else:
        start = getattr(record.data, first, None)
    yield from _below(start, rest)


def _below(value: Any, path: list[str]) -> Iterator[Any]:
    if not path:
        if value is not None:
            yield value
        return
    step, *rest = path
    if isinstance(value, tuple) and step == ANY:
        for each in value:
            yield from _below(each, rest)
    elif isinstance(value, tuple) and step.isdecimal():
        if int(step) < len(value):
            yield from _below(value[int(step)], rest)
    elif hasattr(value, "__struct_fields__") and step in value.__struct_fields__:
        yield from _below(getattr(value, step), rest)


def fits(value: Any, wanted: Any, value_of: Callable[[str], Any]) -> bool:
    """Whether a value meets the condition of a stop.

    `wanted` is the required value; or a text: `not X`, `has X` (a list with X in it), `lacks X`, `> 3`, `size 2`
    (a list of two), `starts with X`. X is a value or `stop.NAME.FIELD`, a field of an earlier stop.
    """
    if not isinstance(wanted, str):
        return bool(value == wanted)
    word, _, rest = wanted.partition(" ")
    if word == "not":
        return not fits(value, _plain(rest), value_of)
    if word in ("has", "lacks") and isinstance(value, tuple):
        return (_plain(rest, value_of) in value) == (word == "has")
    if word == "size" and isinstance(value, tuple):
        return len(value) == int(rest)
    if word in _OPERATORS and isinstance(value, int | float):
        return _OPERATORS[word](value, _plain(rest, value_of))
    if wanted.startswith("starts with "):
        return str(value).startswith(wanted.removeprefix("starts with "))
    return bool(value == _plain(wanted, value_of))


def _plain(word: str, value_of: Callable[[str], Any] | None = None) -> Any:
    """A number, the value of a name that begins with `stop.`, or the word itself."""
    if is_number(word):
        return float(word) if "." in word else int(word)
    if value_of is not None and word.startswith("stop."):
        return value_of(word)
    return word
