"""`draw_sweeps` draws the runs of a lesson's sweeps: their outages on one axis, and the phases of the mean."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import Final

from understudy.foundation.times import digits
from understudy.history.plots.distribution import Dot, Group, distribution
from understudy.history.plots.names import short_names
from understudy.history.plots.stacked import Bar
from understudy.trials.lessons.sweeping import SweepRow

_PARTS: Final = ("detection", "election", "takeover")
"""Phases that add up to the outage."""


def draw_sweeps(sweeps: Sequence[tuple[str, Sequence[SweepRow]]]) -> str:
    """Return the picture as SVG.

    Args:
        sweeps: the name of each, and its runs, shortest outage first.
    """
    groups = [_group(name, rows) for name, rows in sweeps]
    bars = [_bar(name, rows) for name, rows in sweeps]
    return str(distribution("outage", "ms", groups, part_names=_PARTS, bars=bars))


def _group(name: str, rows: Sequence[SweepRow]) -> Group:
    short = short_names(row.run for row in rows)
    middle = median(row.outage_ms for row in rows)
    return Group(
        name=_called(name),
        n=len(rows),
        dots=[
            Dot(value=row.outage_ms, run=row.run, said=f"run {short[row.run]}: {digits(row.outage_ms)} ms")
            for row in rows
        ],
        median=middle,
        median_said=digits(middle),
    )


def _bar(name: str, rows: Sequence[SweepRow]) -> Bar:
    means = [fmean(getattr(row, f"{part}_ms") for row in rows) for part in _PARTS]
    return Bar(name=_called(name), parts=means, said=[*map(digits, means)], total_said=f"{digits(sum(means))} ms")


def _called(title: str) -> str:
    """Return the title of a side without its number of runs, which the picture counts itself."""
    return title.partition(",")[0]
