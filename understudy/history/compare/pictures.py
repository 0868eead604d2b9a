"""Draws a comparison as SVG: distributions side by side, phases stacked, leaderless time by cause.

Every picture has a title, axes with units, and a text alternative. Colours come from style sheet variables, which the
page sets for light and dark; lines and areas differ in dashes and patterns too, so that a reader needs no colour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from understudy.history.compare.comparison import Comparison, GroupSummary
from understudy.history.compare.groups import PHASES, QUANTITIES, Quantity
from understudy.history.compare.text_page import name, number

SERIES = 6
"""How many colours there are; further groups repeat them with another dash."""
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "1 4", "12 4")
_LABEL = 220
_BAR = 18


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


def distributions(comparison: Comparison, quantity: Quantity) -> str:
    """Return the share of values up to each value, as a line for each group; empty without values."""
    width, height, left, right, top, bottom = 460, 280, 52, 14, 34, 46
    found = [(result.group, result.group.curves[quantity.name]) for result in comparison.groups]
    largest = max((points[-1][0] for _, points in found if points), default=None)
    if largest is None:
        return ""
    across = _Scale(largest / quantity.scale or 1.0, left, width - right)
    up = _Scale(1.0, height - bottom, top)
    parts = [_title(left, quantity.name), *_x_axis(across, height - bottom, top, f"{quantity.name}, {quantity.unit}")]
    parts += [
        f'<line class="grid" x1="{left}" x2="{width - right}" y1="{up.at(share):.1f}" y2="{up.at(share):.1f}"/>'
        f'<text class="tick" x="{left - 6}" y="{up.at(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>'
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    parts.append(
        _y_name(height, top, bottom, "share of runs" if quantity.name == "leaderless" else "share of failovers")
    )
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


def _curve(points: Sequence[tuple[float, float]], across: _Scale, up: _Scale, series: int) -> str:
    """Return an empirical distribution, values with the share up to each, as steps."""
    steps = "".join(f"H{across.at(value):.1f}V{up.at(share):.1f}" for value, share in points)
    return f'<path class="line" {_stroke(series)} d="M{across.at(0):.1f} {up.at(0):.1f}{steps}H{across.end:.1f}"/>'


def _stroke(series: int) -> str:
    dash = _DASHES[(series + series // SERIES) % len(_DASHES)]
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'style="stroke:var(--s{series % SERIES + 1})"{dashes}'


def legend(comparison: Comparison) -> str:
    """Return the list of groups with the line of each."""
    items = [
        f'<li><svg width="34" height="10" aria-hidden="true"><line class="line" x1="0" x2="34" y1="5" y2="5" '
        f"{_stroke(series)}/></svg> {escape(name(result.group.key))}</li>"
        for series, result in enumerate(comparison.groups)
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def stacked_phases(comparison: Comparison, phases: Sequence[str], title: str) -> str:
    """Return the mean of `phases` of each group as a stacked bar; empty if no failover has all phases."""
    rows = [(result.group, result.group.mean_phases_ms) for result in comparison.groups]
    if not any(means for _, means in rows):
        return ""
    top = 62
    width, height = 960, top + (_BAR + 8) * len(rows) + 50
    longest = max(sum(means.get(phase, 0.0) for phase in phases) for _, means in rows)
    across = _Scale(longest or 1.0, _LABEL, width - 70)
    parts = [_title(16, title), *_phase_legend(phases)]
    parts += _x_axis(across, height - 46, top - 6, "mean time, ms")
    for row, (group, means) in enumerate(rows):
        y = top + row * (_BAR + 8)
        parts.append(_row_label(group, y))
        begin = 0.0
        for phase in phases:
            mean = means.get(phase, 0.0)
            parts.append(
                f'<rect class="bar" style="fill:{_fill(phase)}" x="{across.at(begin):.1f}" y="{y}" '
                f'width="{across.at(begin + mean) - across.at(begin):.1f}" height="{_BAR}"/>'
            )
            begin += mean
        total = f"{begin:,.1f}" if means else "no failover"
        parts.append(f'<text class="tick" x="{across.at(begin) + 6:.1f}" y="{y + 13}">{total}</text>')
    spoken = "; ".join(
        f"{name(group.key)}: " + ", ".join(f"{phase} {means[phase]:,.1f}" for phase in phases if phase in means)
        for group, means in rows
    )
    return _svg(width, height, title, f"Means in ms. {spoken}", parts)


def leaderless_by_cause(comparison: Comparison) -> str:
    """Return the mean leaderless time of each group's runs, a bar for each cause."""
    title = "Time without a leader, by what ended the controller"
    rows = [
        (result.group, cause, mean, runs)
        for result in comparison.groups
        for cause, (mean, runs) in result.group.leaderless_s_by_cause.items()
    ]
    causes = sorted({cause for _, cause, _, _ in rows})
    top = 40
    width, height = 960, top + (_BAR + 8) * len(rows) + 50
    across = _Scale(max(mean for _, _, mean, _ in rows) or 1.0, _LABEL + 80, width - 110)
    parts = [_title(16, title), *_x_axis(across, height - 46, top - 6, "partition-seconds per run, mean")]
    for row, (group, cause, mean, runs) in enumerate(rows):
        y = top + row * (_BAR + 8)
        parts += [
            _row_label(group, y),
            f'<text class="tick" x="{_LABEL + 72}" y="{y + 13}" text-anchor="end">{escape(_cut(cause, 12))}</text>',
            f'<rect class="bar" style="fill:var(--s{causes.index(cause) % SERIES + 1})" x="{across.start:.1f}" y="{y}" '
            f'width="{across.at(mean) - across.start:.1f}" height="{_BAR}"/>',
            f'<text class="tick" x="{across.at(mean) + 6:.1f}" y="{y + 13}">{mean:,.3f} ({runs:,})</text>',
        ]
    spoken = "; ".join(f"{name(group.key)}, {cause}: {mean:,.3f} in {runs} runs" for group, cause, mean, runs in rows)
    return _svg(width, height, title, f"Mean partition-seconds per run. {spoken}", parts)


def quantity_named(wanted: str) -> Quantity:
    """Return one of `QUANTITIES`."""
    return next(quantity for quantity in QUANTITIES if quantity.name == wanted)


# ------------------------------------------------------------------ parts of a picture


def _svg(width: int, height: int, title: str, description: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>{''.join(parts)}</svg>"
    )


def _title(x: float, text: str) -> str:
    return f'<text class="title" x="{x}" y="20">{escape(text)}</text>'


def _x_axis(across: _Scale, bottom: float, top: float, what: str) -> list[str]:
    parts = [
        f'<line class="grid" x1="{across.at(tick):.1f}" x2="{across.at(tick):.1f}" y1="{top}" y2="{bottom}"/>'
        f'<text class="tick" x="{across.at(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick:,.10g}</text>'
        for tick in across.ticks()
    ]
    parts.append(f'<line class="axis" x1="{across.start}" x2="{across.end}" y1="{bottom}" y2="{bottom}"/>')
    middle = (across.start + across.end) / 2
    return [*parts, f'<text class="name" x="{middle:.1f}" y="{bottom + 36}" text-anchor="middle">{escape(what)}</text>']


def _y_name(height: int, top: int, bottom: int, what: str) -> str:
    middle = (height - bottom + top) / 2
    return (
        f'<text class="name" x="12" y="{middle:.1f}" text-anchor="middle" '
        f'transform="rotate(-90 12 {middle:.1f})">{escape(what)}</text>'
    )


def _row_label(group: GroupSummary, y: int) -> str:
    return f'<text class="label" x="16" y="{y + 13}">{escape(_cut(name(group.key), 30))}</text>'


def _phase_legend(phases: Sequence[str]) -> list[str]:
    return [
        f'<rect class="bar" style="fill:{_fill(phase)}" x="{_LABEL + place * 130}" y="32" width="14" height="14"/>'
        f'<text class="tick" x="{_LABEL + place * 130 + 20}" y="44">{phase}</text>'
        for place, phase in enumerate(phases)
    ]


def _fill(phase: str) -> str:
    """Return the fill of a phase; the second and the fourth are hatched."""
    place = PHASES.index(phase)
    return f"url(#p{place + 1})" if place % 2 else f"var(--s{place + 1})"


def patterns() -> str:
    """Return the hatched fills, which the page has once."""
    lines = "".join(
        f'<pattern id="p{place + 1}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="6" height="6" style="fill:var(--s{place + 1})"/>'
        '<line class="hatch" x1="0" y1="0" x2="0" y2="6"/></pattern>'
        for place in range(len(PHASES))
        if place % 2
    )
    return f'<svg width="0" height="0" aria-hidden="true" class="defs"><defs>{lines}</defs></svg>'


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
