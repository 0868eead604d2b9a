"""`draw_failovers` draws the failovers of runs: outages on one axis by group, and the phases of their means stacked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Final

from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.times import digits, micros
from understudy.history.metrics.metric_tables import PHASES, Failover, RunMetrics
from understudy.history.metrics.metrics import nearest_rank
from understudy.history.plots.distribution import Dot, Group, distribution
from understudy.history.plots.names import short_names
from understudy.history.plots.stacked import Bar, stacked
from understudy.history.writing import Html

OUTAGE: Final = "outage"
SEPARATOR: Final = " · "
"""Text between the values of settings in the name of a group."""
OF_OUTAGE: Final = PHASES[:3]
"""Phases that add up to the outage."""


def by_cause(run: RunMetrics, failover: Failover) -> str:
    """Return what ended the controller, as the name of the group."""
    return failover.cause


def is_sound(failover: Failover, name: str = OUTAGE) -> bool:
    """Whether a failover has a time that missing records cannot change."""
    return failover.time_ms(name) is not None and f"{name}_ms" not in failover.doubt


def draw_failovers(
    runs: Sequence[RunMetrics],
    group_of: Callable[[RunMetrics, Failover], str] = by_cause,
    links: Mapping[str, str] | None = None,
) -> Html:
    """Return the picture; empty if no failover has an outage.

    Args:
        group_of: the name of a failover's group.
        links: the address of each run.
    """
    short = short_names(run.run for run in runs)
    found = [(run, failover) for run in runs for failover in run.failovers]
    groups = grouped((group_of(run, failover), (run, failover)) for run, failover in found)
    names = sorted(groups, key=_in_order)
    drawn = [_group(name, groups[name], short, links or {}) for name in names]
    bars = [_bar(name, [failover for _, failover in groups[name]]) for name in names]
    return distribution(OUTAGE, "ms", drawn, noun="failover", part_names=OF_OUTAGE, bars=bars)


def draw_phases(run: RunMetrics) -> Html:
    """Return the phases of each failover of one run, stacked; empty if no failover has all phases."""
    bars = [_phases(failover) for failover in run.failovers]
    return stacked("Phases of each failover", "from the loss of the controller, ms", PHASES, bars)


def _phases(failover: Failover) -> Bar:
    name = f"epoch {failover.epoch}: broker {failover.previous_broker} → {failover.broker}"
    found = {phase: ms for phase in PHASES if (ms := failover.time_ms(phase)) is not None}
    if len(found) < len(PHASES):
        return Bar(name=name, parts=(), said=(), total_said=f"{failover.cause}, not all phases")
    said = [f"{digits(ms)}{'' if is_sound(failover, phase) else ' ?'}" for phase, ms in found.items()]
    total = f"{failover.cause}, {digits(sum(found.values()))} ms"
    return Bar(name=name, parts=[*found.values()], said=said, total_said=total)


def _group(
    name: str, failovers: Iterable[tuple[RunMetrics, Failover]], short: Mapping[str, str], links: Mapping[str, str]
) -> Group:
    dots = sorted(
        (
            Dot(
                value=failover.outage_ms,
                run=run.run,
                said=f"{short[run.run]}, epoch {failover.epoch}: {digits(failover.outage_ms)} ms",
                link=links.get(run.run, ""),
            )
            for run, failover in failovers
            if failover.outage_ms is not None and is_sound(failover)
        ),
        key=lambda dot: (dot.value, dot.run),
    )
    rank = nearest_rank([micros(dot.value) for dot in dots], 50)
    median = None if rank is None else rank / 1000
    return Group(
        name=name, n=len(dots), dots=dots, median=median, median_said="—" if median is None else digits(median)
    )


def _bar(name: str, failovers: Iterable[Failover]) -> Bar:
    """Return the mean phases of the failovers that have all of them."""
    rows = [
        [failover.time_ms(phase) or 0.0 for phase in OF_OUTAGE]
        for failover in failovers
        if is_sound(failover) and all(is_sound(failover, phase) for phase in OF_OUTAGE)
    ]
    if not rows:
        return Bar(name=name, parts=(), said=(), total_said="not all phases")
    means = [*map(fmean, zip(*rows, strict=True))]
    return Bar(name=name, parts=means, said=[*map(digits, means)], total_said=f"{digits(sum(means))} ms")


def _in_order(name: str) -> list[tuple[bool, float, str]]:
    """Return the sort key of a group, whose name has values of settings: numbers by size, before texts."""
    return [(not part.isdecimal(), float(part) if part.isdecimal() else 0.0, part) for part in name.split(SEPARATOR)]
