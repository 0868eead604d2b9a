"""Draws a comparison with `understudy.history.plots`: values of groups, phases stacked, leaderless time by cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.foundation.times import digits
from understudy.history.compare.comparison import Comparison, GroupSummary
from understudy.history.compare.groups import Quantity
from understudy.history.compare.text_page import name, number
from understudy.history.metrics.metric_tables import PHASES
from understudy.history.plots.distribution import Dot, Group, distribution
from understudy.history.plots.stacked import PHASE, Bar, stacked
from understudy.history.writing import Html


def distributions(comparison: Comparison, quantity: Quantity, links: Mapping[str, str]) -> Html:
    """Return the values of a quantity in each group, on one axis; empty if there are no values.

    Args:
        links: the address of each run.
    """
    groups = [_group(group, quantity, links) for group in comparison.groups]
    noun = "run" if quantity.name == "leaderless" else "failover"
    return distribution(quantity.name, quantity.unit, groups, noun=noun)


def _group(group: GroupSummary, quantity: Quantity, links: Mapping[str, str]) -> Group:
    found = group.distributions[quantity.name]
    median = found.quantiles[50]
    dots = [
        Dot(
            value=each.value / quantity.scale,
            run=each.run,
            said=f"{each.run}: {number(each.value, quantity)} {quantity.unit}",
            link=links.get(each.run, ""),
        )
        for each in group.shown[quantity.name]
    ]
    return Group(
        name=name(group.key),
        n=found.n,
        dots=dots,
        curve=[(value / quantity.scale, share) for value, share in group.curves[quantity.name]],
        median=None if median is None else median / quantity.scale,
        median_said=number(median, quantity),
    )


def stacked_phases(comparison: Comparison, phases: Sequence[str], title: str) -> Html:
    """Return the mean of `phases` of each group as a stacked bar; empty if no failover has all phases."""
    bars = [_bar(group, phases) for group in comparison.groups]
    return stacked(title, f"{title.lower()}, mean, ms", phases, bars, first_colour=PHASE + PHASES.index(phases[0]))


def _bar(group: GroupSummary, phases: Sequence[str]) -> Bar:
    means = group.mean_phases_ms
    if not means:
        return Bar(name=name(group.key), parts=(), said=(), total_said="no failover")
    parts = [means.get(phase, 0.0) for phase in phases]
    said = [digits(means[phase]) if phase in means else "—" for phase in phases]
    return Bar(name=name(group.key), parts=parts, said=said, total_said=f"{digits(sum(parts))} ms")


def leaderless_by_cause(comparison: Comparison) -> Html:
    """Return the mean leaderless time of each group's runs, a bar for each cause."""
    bars = [
        Bar(name=f"{name(group.key)}, {cause}", parts=[mean], said=[digits(mean)], total_said=f"{runs:,} runs")
        for group in comparison.groups
        for cause, (mean, runs) in group.leaderless_s_by_cause.items()
    ]
    axis_name = "partition-seconds per run, mean"
    return stacked("Time without a leader, by what ended the controller", axis_name, ["mean"], bars)
