"""Draws a line chart as SVG: sizes on a logarithmic axis, values from zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 44, 56
_GRID, _INK = "#d0d7de", "#57606a"


class Curve(NamedTuple):
    name: str
    colour: str
    points: Sequence[tuple[int, float]]


def chart(value: str, size: str, curves: Sequence[Curve]) -> str:
    """The text of an SVG file.

    Args:
        value: the name of the vertical axis.
        size: the name of the horizontal axis.
    """
    sizes = sorted({x for curve in curves for x, _ in curve.points})
    low, high = math.log(sizes[0]), math.log(sizes[-1])
    step = _step(max(y for curve in curves for _, y in curve.points))
    steps = math.ceil(max(y for curve in curves for _, y in curve.points) / step)

    def x_of(number: float) -> float:
        return LEFT + (math.log(number) - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def y_of(number: float) -> float:
        return HEIGHT - BOTTOM - number / (step * steps) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="20" fill="{_INK}">{escape(value)}</text>',
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 12}" fill="{_INK}" text-anchor="end">{escape(size)}</text>',
    ]
    for number in range(steps + 1):
        y = y_of(number * step)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_GRID}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" fill="{_INK}" text-anchor="end">{number * step:g}</text>')
    for number in sizes:
        label = f"{number:,}"
        parts.append(
            f'<text x="{x_of(number):.1f}" y="{HEIGHT - BOTTOM + 18}" fill="{_INK}" text-anchor="middle">{label}</text>'
        )
    for row, curve in enumerate(curves):
        line = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in curve.points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{curve.colour}" stroke-width="2.5"/>')
        for x, y in curve.points:
            parts.append(f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3.5" fill="{curve.colour}"/>')
            parts.append(
                f'<text x="{x_of(x):.1f}" y="{y_of(y) - 9:.1f}" fill="{curve.colour}" '
                f'text-anchor="middle">{y:.0f}</text>'
            )
        parts.append(
            f'<text x="{WIDTH - RIGHT}" y="{20 + 16 * row}" fill="{curve.colour}" '
            f'text-anchor="end">{escape(curve.name)}</text>'
        )
    parts.append("</svg>\n")
    return "\n".join(parts)


def _step(highest: float) -> float:
    """The distance of two grid lines: 1, 2 or 5 times a power of ten, such that about five lines fit."""
    rough = highest / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
