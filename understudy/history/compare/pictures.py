"""Draws a comparison as SVG: distributions side by side, phases stacked, leaderless time by cause.

Every picture has a title, axes with units, and a text alternative. Colours come from style sheet variables, which the
page sets for light and dark; lines and areas also differ in dashes and patterns, so that a reader needs no colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from understudy.history.compare.comparison import Comparison, GroupSummary
from understudy.history.compare.groups import Quantity
from understudy.history.compare.text_page import name, number
from understudy.history.metrics.metric_tables import PHASES
from understudy.history.writing import Html, cut, element, joined

SERIES = 6
"""Number of colours; further groups repeat them with another dash."""
_DASHES = ("none", "7 3", "2 3", "9 3 2 3", "1 4", "12 4")
_LABEL = 220
_BAR = 18
_ROW = _BAR + 8


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps values from 0 to `top` to pixels from `start` to `end`."""

    top: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (self.end - self.start) * (value / self.top if self.top else 0.0)

    def ticks(self) -> list[float]:
        """Return round values from 0 on, at most six."""
        if not self.top:
            return [0.0]
        raw = self.top / 5
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
        return [step * index for index in range(int(self.top / step * 1.000001) + 1)]


def distributions(comparison: Comparison, quantity: Quantity) -> Html:
    """Return the share of values up to each value, as a line for each group; empty if there are no values."""
    width, height, left, right, top, bottom = 460, 280, 52, 14, 34, 46
    found = [(group, group.curves[quantity.name]) for group in comparison.groups]
    largest = max((points[-1][0] for _, points in found if points), default=None)
    if largest is None:
        return Html()
    across = _Scale(largest / quantity.scale or 1.0, left, width - right)
    up = _Scale(1.0, height - bottom, top)
    parts = [
        _text("title", left, 20, quantity.name),
        *_x_axis(across, height - bottom, top, f"{quantity.name}, {quantity.unit}"),
        _y_name(height, top, bottom, "share of runs" if quantity.name == "leaderless" else "share of failovers"),
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        parts += [
            _line("grid", left, up.at(share), width - right, up.at(share)),
            _text("tick", left - 6, up.at(share) + 4, f"{share:.0%}", "end"),
        ]
    parts += [
        _curve([(value / quantity.scale, share) for value, share in points], across, up, series)
        for series, (_, points) in enumerate(found)
        if points
    ]
    medians = "; ".join(
        f"{name(group.key)}: {number(group.distributions[quantity.name].quantiles[50], quantity)}"
        for group, points in found
        if points
    )
    title = f"Distribution of {quantity.name} in {quantity.unit}, by group"
    return _svg(width, height, title, f"Medians, in {quantity.unit}. {medians}", parts)


def _curve(points: Sequence[tuple[float, float]], across: _Scale, up: _Scale, series: int) -> Html:
    """Return an empirical distribution as steps. Each point is a value and the share of values up to it."""
    steps = "".join(f"H{across.at(value):.1f}V{up.at(share):.1f}" for value, share in points)
    path = f"M{across.at(0):.1f} {up.at(0):.1f}{steps}H{across.end:.1f}"
    return element("path", class_="line", d=path, **_stroke(series))


def _stroke(series: int) -> dict[str, str]:
    dash = _DASHES[(series + series // SERIES) % len(_DASHES)]
    return {"style": f"stroke:var(--s{series % SERIES + 1})", "stroke_dasharray": dash}


def legend(comparison: Comparison) -> Html:
    """Return the list of groups with the line of each."""
    items = []
    for series, group in enumerate(comparison.groups):
        line = element("line", class_="line", x1=0, x2=34, y1=5, y2=5, **_stroke(series))
        drawn = element("svg", line, width=34, height=10, aria_hidden="true")
        items.append(element("li", drawn, f" {name(group.key)}"))
    return element("ul", *items, class_="legend")


def stacked_phases(comparison: Comparison, phases: Sequence[str], title: str) -> Html:
    """Return the mean of `phases` of each group as a stacked bar; empty if no failover has all phases."""
    rows = [(group, group.mean_phases_ms) for group in comparison.groups]
    if not any(means for _, means in rows):
        return Html()
    top = 62
    width, height = 960, top + _ROW * len(rows) + 50
    longest = max(sum(means.get(phase, 0.0) for phase in phases) for _, means in rows)
    across = _Scale(longest or 1.0, _LABEL, width - 70)
    parts = [_text("title", 16, 20, title), *_phase_legend(phases)]
    parts += _x_axis(across, height - 46, top - 6, "mean time, ms")
    for row, (group, means) in enumerate(rows):
        y = top + row * _ROW
        parts.append(_row_label(group, y))
        begin = 0.0
        for phase in phases:
            end = begin + means.get(phase, 0.0)
            parts.append(_bar(_fill(phase), across.at(begin), y, across.at(end) - across.at(begin)))
            begin = end
        parts.append(_text("tick", across.at(begin) + 6, y + 13, f"{begin:,.1f}" if means else "no failover"))
    spoken = "; ".join(
        f"{name(group.key)}: " + ", ".join(f"{phase} {means[phase]:,.1f}" for phase in phases if phase in means)
        for group, means in rows
    )
    return _svg(width, height, title, f"Means in ms. {spoken}", parts)


def leaderless_by_cause(comparison: Comparison) -> Html:
    """Return the mean leaderless time of each group's runs, a bar for each cause."""
    title = "Time without a leader, by what ended the controller"
    rows = [
        (group, cause, mean, runs)
        for group in comparison.groups
        for cause, (mean, runs) in group.leaderless_s_by_cause.items()
    ]
    causes = sorted({cause for _, cause, _, _ in rows})
    top = 40
    width, height = 960, top + _ROW * len(rows) + 50
    across = _Scale(max(mean for _, _, mean, _ in rows) or 1.0, _LABEL + 80, width - 110)
    parts = [
        _text("title", 16, 20, title),
        *_x_axis(across, height - 46, top - 6, "partition-seconds per run, mean"),
    ]
    for row, (group, cause, mean, runs) in enumerate(rows):
        y = top + row * _ROW
        parts += [
            _row_label(group, y),
            _text("tick", _LABEL + 72, y + 13, cut(cause, 12), "end"),
            _bar(f"var(--s{causes.index(cause) % SERIES + 1})", across.start, y, across.at(mean) - across.start),
            _text("tick", across.at(mean) + 6, y + 13, f"{mean:,.3f} ({runs:,})"),
        ]
    spoken = "; ".join(f"{name(group.key)}, {cause}: {mean:,.3f} in {runs} runs" for group, cause, mean, runs in rows)
    return _svg(width, height, title, f"Mean partition-seconds per run. {spoken}", parts)


# ------------------------------------------------------------------ parts of a picture


def _svg(width: int, height: int, title: str, description: str, parts: Sequence[Html]) -> Html:
    return element(
        "svg",
        element("title", title),
        element("desc", description),
        *parts,
        viewBox=f"0 0 {width} {height}",
        role="img",
        xmlns="http://www.w3.org/2000/svg",
    )


def _text(kind: str, x: float, y: float, text: str, anchor: str = "start", **attributes: str) -> Html:
    return element("text", text, class_=kind, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, **attributes)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Html:
    return element("line", class_=kind, x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}")


def _bar(fill: str, x: float, y: int, width: float, height: int = _BAR) -> Html:
    return element("rect", class_="bar", style=f"fill:{fill}", x=f"{x:.1f}", y=y, width=f"{width:.1f}", height=height)


def _x_axis(across: _Scale, bottom: float, top: float, what: str) -> Iterator[Html]:
    for tick in across.ticks():
        yield _line("grid", across.at(tick), top, across.at(tick), bottom)
        yield _text("tick", across.at(tick), bottom + 16, f"{tick:,.10g}", "middle")
    yield _line("axis", across.start, bottom, across.end, bottom)
    yield _text("name", (across.start + across.end) / 2, bottom + 36, what, "middle")


def _y_name(height: int, top: int, bottom: int, what: str) -> Html:
    middle = (height - bottom + top) / 2
    return _text("name", 12, middle, what, "middle", transform=f"rotate(-90 12 {middle:.1f})")


def _row_label(group: GroupSummary, y: int) -> Html:
    return _text("label", 16, y + 13, cut(name(group.key), 30))


def _phase_legend(phases: Sequence[str]) -> Iterator[Html]:
    for place, phase in enumerate(phases):
        yield _bar(_fill(phase), _LABEL + place * 130, 32, 14, 14)
        yield _text("tick", _LABEL + place * 130 + 20, 44, phase)


def _fill(phase: str) -> str:
    """Return the fill of a phase; the second and the fourth are hatched."""
    place = PHASES.index(phase)
    return f"url(#p{place + 1})" if place % 2 else f"var(--s{place + 1})"


def patterns() -> Html:
    """Return the hatched fills, which the page has once."""
    fills = joined(
        element(
            "pattern",
            element("rect", width=6, height=6, style=f"fill:var(--s{place + 1})"),
            element("line", class_="hatch", x1=0, y1=0, x2=0, y2=6),
            id=f"p{place + 1}",
            width=6,
            height=6,
            patternUnits="userSpaceOnUse",
            patternTransform="rotate(45)",
        )
        for place in range(1, len(PHASES), 2)
    )
    return element("svg", element("defs", fills), width=0, height=0, aria_hidden="true", class_="defs")
