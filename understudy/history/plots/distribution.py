"""`distribution` draws values of groups on one axis, with medians: as dots, or as curves if there are many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from understudy.history.plots.axis import Axis, axis_of
from understudy.history.plots.drawing import (
    AXIS_PX,
    DASHES,
    FAINT,
    GRID,
    TEXT,
    TICK_PX,
    across,
    axis_below,
    colour,
    heading,
    line,
    svg,
    text,
)
from understudy.history.plots.stacked import PHASE, Bar, bar_of, said_of, stacked
from understudy.history.writing import Html, counted, element, joined

MOST_DOTS: Final = 600
"""Maximum number of dots of a picture. With more values each group is a curve: dots would hide each other."""
MOST_OF_GROUP: Final = 200
"""Maximum number of dots of a group."""
_STRIP: Final = 40
_HEAD: Final = 20
_GAP: Final = 12
_RADIUS: Final = 3.5
_CURVES: Final = 190
_UNITS: Final = 1000
"""Width of the axis in units of a curve."""
_LEGEND_ROW: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One value.

    Attributes:
        run: the run that it comes from.
        said: the words that appear beside it, such as `17: 2,345 ms`.
        link: the address of the run, or of its row in a table; empty if there is none.
    """

    value: float
    run: str
    said: str
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The values of one group.

    Attributes:
        n: the number of values.
        dots: the values in order; only the largest ones if there are more than `n`.
        curve: values in order, and the share of values up to each; may be empty if `dots` has all values.
        median: None if there are no values.
        median_said: the median as text.
    """

    name: str
    n: int
    dots: Sequence[Dot]
    curve: Sequence[tuple[float, float]] = ()
    median: float | None
    median_said: str

    @property
    def points(self) -> Sequence[tuple[float, float]]:
        """The empirical distribution."""
        return self.curve or [(dot.value, (place + 1) / self.n) for place, dot in enumerate(self.dots)]


def distribution(
    title: str,
    unit: str,
    groups: Sequence[Group],
    *,
    noun: str = "run",
    part_names: Sequence[str] = (),
    bars: Sequence[Bar] = (),
) -> Html:
    """Return the picture of groups of values; empty if there are none.

    Args:
        title: what the values are, such as `outage`; also the name of the axis.
        noun: what a value belongs to.
        part_names: the names of parts that the mean value has.
        bars: these parts of each group, drawn below its dots; or as another picture if it has curves.
    """
    if not any(group.n for group in groups):
        return Html()
    axis = axis_of([value for group in groups for value, _ in group.points], from_zero=bool(bars))
    described = "; ".join(f"{group.name}: {_counted(group, noun)}{_median(group, unit)}" for group in groups)
    name, axis_name = f"Distribution of {title} in {unit}", f"{title}, {unit}"
    if not is_strip_plot(groups):
        height, parts = _curves(groups, axis, axis_name, unit, noun)
        about = f"Each curve is the share of values up to a value. {described}"
        more = stacked(f"Parts of {title}", f"{axis_name}, mean", part_names, bars)
        return joined([svg(height, name, about, parts, has_links=_has_links(groups)), more])
    height, parts = _strips(groups, axis, axis_name, unit, noun, part_names, bars)
    spoken = "".join(f"; mean of {bar.name}: {said_of(bar, part_names)}" for bar in bars)
    about = f"Each dot is the value of one {noun}. {described}{spoken}"
    return svg(height, name, about, parts, has_links=_has_links(groups))


def _has_links(groups: Sequence[Group]) -> bool:
    return any(dot.link for group in groups for dot in group.dots)


def is_strip_plot(groups: Sequence[Group]) -> bool:
    """Whether each value is drawn as a dot."""
    sizes = [group.n for group in groups]
    return (
        all(len(group.dots) == group.n for group in groups)
        and max(sizes, default=0) <= MOST_OF_GROUP
        and sum(sizes) <= MOST_DOTS
    )


def spread(place: int) -> float:
    """Return the place of a dot across its strip, between 0 and 1: the radical inverse of its number in base 2.

    Neighbours are far from each other, and equal values spread evenly. The first one is in the middle.
    """
    result, part, rest = 0.0, 0.5, place + 1
    while rest:
        result += part * (rest & 1)
        part, rest = part / 2, rest >> 1
    return result


def _counted(group: Group, noun: str) -> str:
    return counted(group.n, noun) if group.n else f"no {noun}"


def _median(group: Group, unit: str) -> str:
    return f", median {group.median_said} {unit}" if group.n else ""


# ------------------------------------------------------------------ dots


def _strips(
    groups: Sequence[Group],
    axis: Axis,
    axis_name: str,
    unit: str,
    noun: str,
    part_names: Sequence[str],
    bars: Sequence[Bar],
) -> tuple[float, list[Html]]:
    y = 0.0
    drawn: list[Html] = []
    for place, group in enumerate(groups):
        # Bars have the other colours.
        drawn += _strip(group, axis, y, colour(place % PHASE if bars else place), unit, noun)
        y += _HEAD + _STRIP + 4
        if bars:
            height, parts = bar_of(bars[place], part_names, axis, y)
            drawn += parts
            y += height
        y += _GAP
    bottom = y - _GAP / 2
    return bottom + AXIS_PX, [*axis_below(axis, 0, bottom, axis_name), *drawn]


def _strip(group: Group, axis: Axis, top: float, fill: str, unit: str, noun: str) -> Iterator[Html]:
    yield from heading(group.name, _counted(group, noun) + _median(group, unit), top + 13, swatch=fill)
    if group.median is None:
        return
    strip = top + _HEAD
    place = across(axis, group.median)
    room = _STRIP - 2 * _RADIUS
    dots = (_dot(dot, axis, strip + _RADIUS + room * spread(number)) for number, dot in enumerate(group.dots))
    yield element("g", *dots, fill=fill, fill_opacity=0.65)
    yield line(place, strip - 1, place, strip + _STRIP + 1, TEXT, stroke_width=2, pointer_events="none")


def _dot(dot: Dot, axis: Axis, y: float) -> Html:
    attributes = {"cx": across(axis, dot.value), "cy": f"{y:.0f}", "r": _RADIUS, "data_run": dot.run}
    circle = element("circle", element("title", dot.said), **attributes)
    return element("a", circle, href=dot.link, tabindex=-1, aria_hidden="true") if dot.link else circle


# ------------------------------------------------------------------ curves


def _curves(groups: Sequence[Group], axis: Axis, axis_name: str, unit: str, noun: str) -> tuple[float, list[Html]]:
    legend = _LEGEND_ROW * len(groups) + 6
    bottom = legend + _CURVES
    parts = list(axis_below(axis, legend, bottom, axis_name))
    for share in (0.5, 1):
        y = bottom - _CURVES * share
        parts += [
            line("0%", y, "100%", y, GRID),
            text(f"{share:.0%} of {noun}s", "0%", y + 13, size=TICK_PX, fill=FAINT),
        ]
    for place, group in enumerate(groups):
        dash = DASHES[(place + place // len(DASHES)) % len(DASHES)]
        stroke = {"stroke": colour(place), "stroke_width": 2, **({"stroke_dasharray": dash} if dash else {})}
        y = _LEGEND_ROW * place + 13
        parts += heading(group.name, _counted(group, noun) + _median(group, unit), y, indent=34)
        parts.append(element("line", x1=0, x2=26, y1=y - 4, y2=y - 4, **stroke))
        if group.median is not None:
            parts += _curve(group, axis, legend, stroke)
    return bottom + AXIS_PX, parts


def _curve(group: Group, axis: Axis, top: float, stroke: dict[str, object]) -> Iterator[Html]:
    """Yield the empirical distribution as steps, and dots for the values that are named."""
    steps = "".join(
        f"H{_UNITS / 100 * axis.at(value):.1f}V{_CURVES * (1 - share):.1f}" for value, share in group.points
    )
    path = element("path", d=f"M0 {_CURVES}{steps}H{_UNITS}", fill="none", vector_effect="non-scaling-stroke", **stroke)
    box = {"viewBox": f"0 0 {_UNITS} {_CURVES}", "preserveAspectRatio": "none", "overflow": "visible"}
    yield element("svg", path, x=0, y=f"{top:g}", width="100%", height=_CURVES, **box)
    named = len(group.dots) if len(group.dots) < group.n else 0
    first = group.n - named
    shown = (
        _dot(dot, axis, top + _CURVES * (1 - (first + number + 1) / group.n))
        for number, dot in enumerate(group.dots[len(group.dots) - named :])
    )
    yield joined([element("g", joined(shown), fill=stroke["stroke"])] if named else [])
