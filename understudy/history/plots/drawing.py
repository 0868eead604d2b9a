"""The parts that all pictures have: the frame, texts, lines, an axis below, colours of series."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from understudy.history.plots.axis import Axis
from understudy.history.writing import Html, cut, element

SERIES: Final = ("#0072b2", "#d55e00", "#009e73", "#a6408f", "#8a6d00", "#4d4d4d")
"""Colours on light pages that do not set `--s1` to `--s6`. Further series repeat them."""
DASHES: Final = ("", "7 3", "2 3", "9 3 2 3", "1 4", "12 4")
TEXT: Final = "var(--text, #1a1a1a)"
FAINT: Final = "var(--faint, #595959)"
GRID: Final = "var(--grid, #d9d9d9)"
NAME_PX: Final = 13
TICK_PX: Final = 12
AXIS_PX: Final = 38
"""Height of the ticks and the name of an axis."""
_LINE_CHARACTERS: Final = 48
"""Number of characters that fit beside each other on a telephone."""
_LEAST_CHARACTERS: Final = 12


def colour(series: int) -> str:
    """Return the colour of a series, numbered from 0."""
    place = series % len(SERIES)
    return f"var(--s{place + 1}, {SERIES[place]})"


def svg(height: float, title: str, description: str, parts: Iterable[str], *, has_links: bool = False) -> Html:
    """Return a picture.

    Args:
        height: in CSS pixels.
        title: its name for screen readers.
        description: what it shows, in words.
        has_links: whether parts of it are links, which a role `img` would hide.
    """
    return element(
        "svg",
        element("desc", description),
        *parts,
        class_="plot",
        width="100%",
        height=_px(height),
        role="group" if has_links else "img",
        aria_label=title,
        font_family="system-ui, sans-serif",
        overflow="visible",
        xmlns="http://www.w3.org/2000/svg",
    )


def text(content: str, x: str, y: float, *, anchor: str = "start", size: int = NAME_PX, **attributes: object) -> Html:
    """Return a text. `x` is a length with its unit, `y` the base line in pixels."""
    attributes = {"fill": TEXT, **attributes}
    return element("text", content, x=x, y=_px(y), text_anchor=anchor, font_size=size, **attributes)


def heading(name: str, beside: str, y: float, *, swatch: str = "", indent: int = 0) -> Iterator[Html]:
    """Yield the name of a group at the left, with a square of its colour, and a number at the right.

    Args:
        indent: pixels before the name, for something else than a square.
    """
    short = cut(name, max(_LEAST_CHARACTERS, _LINE_CHARACTERS - len(beside)))
    if swatch:
        yield element("rect", x=0, y=_px(y - 9), width=10, height=10, rx=2, fill=swatch)
    whole = (element("title", name),) if short != name else ()
    yield element(
        "text", *whole, short, x=16 if swatch else indent, y=_px(y), font_size=NAME_PX, font_weight=600, fill=TEXT
    )
    yield text(beside, "100%", y, anchor="end", fill=FAINT)


def across(axis: Axis, value: float) -> str:
    """Return the place of a value as a length."""
    return per_cent(axis.at(value))


def per_cent(share: float) -> str:
    """Return a share of 100 as a length."""
    return f"{share:.2f}".rstrip("0").rstrip(".") + "%"


def line(x1: str, y1: float, x2: str, y2: float, stroke: str, **attributes: object) -> Html:
    return element("line", x1=x1, y1=_px(y1), x2=x2, y2=_px(y2), stroke=stroke, **attributes)


def axis_below(axis: Axis, top: float, bottom: float, name: str) -> Iterator[Html]:
    """Yield the grid between two heights, the ticks below it, and the name of the axis."""
    for tick in axis.ticks:
        place = across(axis, tick)
        anchor = {axis.low: "start", axis.high: "end"}.get(tick, "middle")
        yield line(place, top, place, bottom, GRID)
        yield text(f"{tick:,.10g}", place, bottom + 15, anchor=anchor, size=TICK_PX, fill=FAINT)
    yield line("0%", bottom, "100%", bottom, FAINT)
    notes = (["logarithmic"] if axis.is_log else []) + ([] if axis.is_log or not axis.low else ["not from 0"])
    yield text(f"{name}{''.join(f' ({note})' for note in notes)}", "50%", bottom + 33, anchor="middle", size=TICK_PX)


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
