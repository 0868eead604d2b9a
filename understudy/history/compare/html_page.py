"""Writes a comparison as one HTML file with inline SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from understudy.history.compare.comparison import (
    BELOW_CLOCKS,
    CHANGED,
    PERCENTS,
    SIGNIFICANT,
    TOO_FEW,
    Comparison,
    GroupSummary,
    MetricChange,
)
from understudy.history.compare.groups import QUANTITIES, Quantity, assignments
from understudy.history.compare.pictures import (
    distributions,
    leaderless_by_cause,
    legend,
    patterns,
    stacked_phases,
)
from understudy.history.compare.statistics import CONFIDENCE, RESAMPLES, runs_needed
from understudy.history.compare.text_page import (
    SHOWN_INCOMPLETE,
    WITHOUT_P,
    clocks,
    difference,
    incomplete,
    name,
    number,
    p_value,
    size,
)
from understudy.history.metrics.metric_tables import PHASES
from understudy.history.writing import Html, counted, element, joined, note, page, table

DRAWN_GROUPS = 24
"""Maximum number of groups that a picture can show in different lines; the tables have all groups."""


def write_page(comparison: Comparison, file: Path) -> None:
    """Write the page. Raises OSError if that is not possible."""
    file.write_text(html_page(comparison), encoding="utf-8")


def html_page(comparison: Comparison) -> str:
    """Return the page."""
    return page(
        f"Failovers by {', '.join(comparison.by)}",
        patterns(),
        f"{size(comparison)}. {_baseline(comparison)}",
        *_incomplete(comparison),
        *_pictures(comparison),
        element("h2", "Numbers"),
        *(_table(comparison, quantity) for quantity in QUANTITIES),
        *_worst(comparison),
        element("h2", "Method"),
        _method(comparison),
    )


def _baseline(comparison: Comparison) -> str:
    if not comparison.baseline:
        return "Without a baseline, no change is tested."
    return f"Compared with {assignments(comparison.baseline)}."


def _incomplete(comparison: Comparison) -> Iterator[Html]:
    if comparison.incomplete:
        yield element("p", f"{incomplete(comparison)}.")
        rows = ((run.run, run.missing, element("code", run.opened_by)) for run in comparison.incomplete)
        yield table(("run", "first evidence of missing records", "all of them"), islice(rows, SHOWN_INCOMPLETE))


def _pictures(whole: Comparison) -> Iterator[str]:
    comparison = replace(whole, groups=whole.groups[:DRAWN_GROUPS])
    if left_out := len(whole.groups) - len(comparison.groups):
        yield f"The pictures show the first {DRAWN_GROUPS} groups; {left_out:,} more are below."
    yield element("h2", "Distributions")
    yield note(
        "Each line is the share of a group's values that are at most the value below it: the further to the left, the "
        "shorter."
    )
    yield legend(comparison)
    panels = filter(None, (distributions(comparison, quantity) for quantity in QUANTITIES))
    yield element("div", joined(element("figure", panel) for panel in panels), class_="panels")
    yield element("h2", "Phases of a failover")
    yield note(
        "Means, because means of the parts add up to the mean of the whole. The second picture leaves detection out, "
        "which is mostly the session timeout."
    )
    yield stacked_phases(comparison, PHASES, "All phases")
    yield stacked_phases(comparison, PHASES[1:], "Without detection")
    yield element("h2", "Partitions without a leader")
    yield note("Behind each bar: the mean, and the number of runs.")
    yield leaderless_by_cause(comparison)


def _table(comparison: Comparison, quantity: Quantity) -> str:
    if not any(group.distributions[quantity.name].n for group in comparison.groups):
        return f"{quantity.name}: no run has a value."
    head = [" · ".join(comparison.by), "n", *(f"p{percent}" for percent in PERCENTS), "max"]
    head += ["change of p50", "test"] if comparison.baseline else []
    about_clocks = clocks(comparison, quantity)
    about = f", {quantity.unit}: {quantity.meaning}{'; ' * bool(about_clocks)}{about_clocks}"
    caption = joined((element("b", quantity.name), about))
    rows = (_row(comparison, group, quantity) for group in comparison.groups)
    return table(head, rows, caption=caption, numbers=True)


def _row(comparison: Comparison, group: GroupSummary, quantity: Quantity) -> Sequence[str]:
    found = group.distributions[quantity.name]
    return (
        name(group.key),
        f"{found.n:,}",
        *(
            _with_small(number(found.quantiles[percent], quantity), _interval(found.intervals[percent], quantity))
            for percent in PERCENTS
        ),
        number(found.quantiles[100], quantity),
        *(_change(group.changes.get(quantity.name), quantity) if comparison.baseline else ()),
    )


def _change(change: MetricChange | None, quantity: Quantity) -> tuple[str, str]:
    if change is None:
        return "", ""
    moved = _with_small(difference(change, quantity), _interval(change.interval, quantity))
    if change.verdict in WITHOUT_P:
        return moved, change.verdict
    verdict = element("span", change.verdict, class_="changed") if change.verdict == CHANGED else change.verdict
    return moved, _with_small(verdict, p_value(change.corrected_p))


def _interval(ends: tuple[int, int] | None, quantity: Quantity) -> str:
    return "" if ends is None else f"{number(ends[0], quantity)} to {number(ends[1], quantity)}".replace("-", "−")


def _with_small(text: str, small: str) -> str:
    return joined((text, element("small", small))) if small else text


def _worst(comparison: Comparison) -> Iterator[Html]:
    for quantity in QUANTITIES:
        if quantity.name in comparison.worst:
            rows = (
                (worst.run, number(worst.value, quantity), name(worst.key), element("code", worst.opened_by))
                for worst in comparison.worst[quantity.name]
            )
            yield element("h2", f"Worst runs by {quantity.name}")
            yield table(("run", f"{quantity.name}, {quantity.unit}", "group", "opened by"), rows)


def _method(comparison: Comparison) -> str:
    needed = ", ".join(f"{runs_needed(percent)} for p{percent}" for percent in PERCENTS)
    text = (
        f"Quantiles are nearest rank. Intervals have a level of {CONFIDENCE:.0%}: percentile bootstrap over whole "
        f"runs, {RESAMPLES:,} samples, one value wider at each end; they are given if there are enough runs "
        f"({needed}), and never for a maximum. "
    )
    if comparison.baseline:
        text += (
            f"A quantity has changed if the p value is at most {SIGNIFICANT}: a permutation test of the mean "
            f"ranks over whole runs, after Holm's correction for {counted(comparison.tests, 'test')}. “{TOO_FEW}” "
            "means that no difference, however large, could reach that; "
            f"“{BELOW_CLOCKS}” that the difference may come from the clocks of several machines alone."
        )
    return text
