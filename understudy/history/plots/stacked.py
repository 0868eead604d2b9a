"""`stacked` draws parts that add up, such as the phases of an outage: a bar for each group on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from understudy.history.plots.axis import Axis, axis_of
from understudy.history.plots.drawing import (
    AXIS_PX,
    TEXT,
    TICK_PX,
    axis_below,
    colour,
    heading,
    per_cent,
    svg,
)
from understudy.history.writing import Html, element

_BAR: Final = 14
_HEAD: Final = 20
_BETWEEN: Final = "\u00a0 "
_LINE: Final = 16
_GAP: Final = 14
PHASE: Final = 2
"""Number of the first phase's colour; the colours before it are groups' in most pictures."""
_HAIR: Final = 0.5
"""Smallest width of a part that is not zero, in per cent of the axis; a narrower one could not be seen."""
_LINE_CHARACTERS: Final = 54
"""Maximum number of characters of a line below a bar; such a line fits on a telephone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """The parts of one group.

    Attributes:
        parts: their sizes, in the order of the names; empty if the group has no values.
        said: each as text.
        total_said: their sum as text, with the unit; or why there are none.
    """

    name: str
    parts: Sequence[float]
    said: Sequence[str]
    total_said: str


def stacked(
    title: str, axis_name: str, names: Sequence[str], bars: Sequence[Bar], *, first_colour: int = PHASE
) -> Html:
    """Return the picture of stacked bars; empty if no bar has parts.

    Args:
        axis_name: what the lengths are, with the unit.
        names: the names of the parts.
        first_colour: the number of the first part's colour.
    """
    if not any(bar.parts for bar in bars):
        return Html()
    axis = axis_of([sum(bar.parts) for bar in bars], from_zero=True)
    y = 0.0
    drawn: list[Html] = []
    for bar in bars:
        drawn += heading(bar.name, bar.total_said, y + 13)
        height, parts = bar_of(bar, names, axis, y + _HEAD, first_colour)
        drawn += parts
        y += _HEAD + height + _GAP
    bottom = y - _GAP / 2
    spoken = "; ".join(f"{bar.name}: {said_of(bar, names)}" for bar in bars)
    return svg(bottom + AXIS_PX, title, spoken, [*axis_below(axis, 0, bottom, axis_name), *drawn])


def said_of(bar: Bar, names: Sequence[str]) -> str:
    """Return the sum and the parts of a bar in words."""
    return ", ".join([bar.total_said, *(f"{name} {said}" for name, said in zip(names, bar.said, strict=False))])


def bar_of(
    bar: Bar, names: Sequence[str], axis: Axis, top: float, first_colour: int = PHASE
) -> tuple[float, list[Html]]:
    """Return the height of a bar with the texts below it, and what it is drawn of.

    Below it are its parts in order, each with its colour and its number, so that a reader needs no colour.
    """
    if not bar.parts:
        return 0, []
    drawn = []
    begin = 0.0
    for place, size in enumerate(bar.parts):
        if size:
            width = max(axis.at(size), _HAIR)
            shape = {"x": per_cent(begin), "y": f"{top:g}", "width": per_cent(width), "height": _BAR}
            drawn.append(element("rect", fill=colour(first_colour + place), **shape))
            begin += width
    lines = _lines(names, bar)
    for number, texts in enumerate(lines):
        spans = [
            span
            for place, text in texts
            for span in (
                element("tspan", "■\u00a0", fill=colour(first_colour + place)),
                element("tspan", text + _BETWEEN, fill=TEXT),
            )
        ]
        y = top + _BAR + _LINE * number + 13
        drawn.append(element("text", *spans, x=0, y=f"{y:g}", font_size=TICK_PX))
    return _BAR + _LINE * len(lines), drawn


def _lines(names: Sequence[str], bar: Bar) -> list[list[tuple[int, str]]]:
    """Return the texts below a bar, each with the number of its part, divided into lines."""
    lines: list[list[tuple[int, str]]] = [[]]
    length = 0
    for place, (name, said) in enumerate(zip(names, bar.said, strict=True)):
        text = f"{name} {said}"
        needed = len(text) + 2 + len(_BETWEEN)
        if length + needed > _LINE_CHARACTERS and lines[-1]:
            lines.append([])
            length = 0
        lines[-1].append((place, text))
        length += needed
    return lines
