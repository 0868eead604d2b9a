"""The parts of the picture that a step of a lesson shows: what its file names, or else what its record proves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from understudy.clusters.problems import BadValue, one_of
from understudy.history.picture_parts import PLACES, ZNODES, parts_of
from understudy.trials.lessons.document import Stop
from understudy.trials.lessons.measurements import MARK, AtStop

PATTERN: Final = f"^({'|'.join(PLACES)})(:|$)"
"""The beginning of each name of a part, as a regular expression."""

_A_VALUE: Final = "…"


def parse_part(value: object) -> str:
    """Return the name of a part, with its marked values. Raises BadValue if the picture has no such part."""
    text = str(value)
    kind, *rest = MARK.sub(_A_VALUE, text).split(":")
    if kind not in PLACES:
        raise one_of(kind, tuple(PLACES), "kind of a part of the picture")
    places = PLACES[kind]
    if len(rest) < len(places) or not all(rest) or (len(rest) > len(places) and not places):
        raise BadValue(f"{text!r} is no part of the picture; expected {':'.join((kind, *places))}")
    if kind == "znode" and _A_VALUE not in rest[0] and rest[0] not in ZNODES:
        raise one_of(rest[0], ZNODES, "znode of the picture")
    return text


def names_in(show: Iterable[str]) -> Iterator[str]:
    """Yield the names of the marked values in names of parts."""
    return (match[1] for part in show for match in MARK.finditer(part))


def shown_at(stop: Stop, at: AtStop | None, value: Callable[[str], Any]) -> tuple[str, ...]:
    """Return the names of the parts that a stop shows, the most important one first.

    Args:
        at: the record that was found for the stop; None if the run does not have it.
        value: returns the value of `stop.NAME.FIELD`. A name with a value that it lacks is left out.
    """
    if at is None:
        return ()
    named = tuple(_filled(stop.show, value))
    return named or parts_of(at.record)


def _filled(show: Iterable[str], value: Callable[[str], Any]) -> Iterator[str]:
    def text(match: re.Match[str]) -> str:
        return str(value(match[1]))

    for part in show:
        try:
            yield MARK.sub(text, part)
        except BadValue:
            continue
