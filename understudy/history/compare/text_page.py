"""`render` turns a `Comparison` into a page of text, at most 100 characters wide.

Only the command that opens a run may be longer, because a shortened command would not work.
"""

from __future__ import annotations

from understudy.foundation.times import digits, fixed
from understudy.history.compare.comparison import (
    BELOW_CLOCKS,
    CHANGED,
    PERCENTS,
    SIGNIFICANT,
    TOO_FEW,
    Comparison,
    GroupSummary,
    MetricChange,
    ValueDistribution,
)
from understudy.history.compare.groups import QUANTITIES, USE_THEM, Key, Quantity, assignments
from understudy.history.compare.modes import CLOCKS, MEASURED, NOT_COMPARABLE, notes
from understudy.history.compare.statistics import CONFIDENCE, runs_needed
from understudy.history.writing import counted, cut, fitted

_QUANTILE = 14
_CHANGE = 20
_LABEL = 23
"""Width of a group's name if there is also a column of changes."""
_SEPARATOR = " · "
WITHOUT_P = (TOO_FEW, BELOW_CLOCKS)
"""Verdicts that do not follow from the p value."""
SHOWN_INCOMPLETE = 3
"""Maximum number of runs with missing records that a page shows; the JSON page has all of them."""


def render(comparison: Comparison) -> str:
    """Return the page, without a newline at its end."""
    sections = [
        _head(comparison),
        *(_quantity(comparison, quantity) for quantity in QUANTITIES),
        _causes(comparison),
        _worst(comparison),
        _measured(comparison),
        _legend(comparison),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _head(comparison: Comparison) -> list[str]:
    lines = [f"{size(comparison)} by {', '.join(comparison.by)}"]
    if comparison.baseline:
        lines.append(f"  compared with {assignments(comparison.baseline)}")
    without = [group for group in comparison.groups if not group.failovers]
    lines += [f"  no failover in the runs of {name(group.key)}" for group in without]
    return [*map(fitted, lines), *_incomplete(comparison)]


def _incomplete(comparison: Comparison) -> list[str]:
    """Return the number of runs with missing records, and the evidence of the first ones."""
    if not comparison.incomplete:
        return []
    lines = [fitted(f"  {incomplete(comparison)}")]
    for run in comparison.incomplete[:SHOWN_INCOMPLETE]:
        lines.append(fitted(f"    {run.run}: {run.missing}"))
        lines += [f"      {run.opened_by}"] if run.opened_by else []
    more = len(comparison.incomplete) - SHOWN_INCOMPLETE
    return [*lines, f"    and {counted(more, 'other')}; --json lists all"] if more > 0 else lines


def _quantity(comparison: Comparison, quantity: Quantity) -> list[str]:
    if not any(group.distributions[quantity.name].n for group in comparison.groups):
        return [f"{quantity.name}: no run has a value", *_notes(comparison, quantity)]
    columns = "".join(f"{f'p{percent}':>{_QUANTILE}}" for percent in PERCENTS)
    change = f"{'change of p50':>{_CHANGE}}" if comparison.baseline else ""
    width = _LABEL if comparison.baseline else _LABEL + _CHANGE
    by = _SEPARATOR.join(comparison.by)
    head = _labelled(by if _fits(by, width) else "group", f"{'n':>5}{columns}{'max':>10}{change}", width)
    rows = [line for group in comparison.groups for line in _rows(group, quantity, width)]
    return [
        f"{quantity.name}, {quantity.unit}: {quantity.meaning}",
        *_clocks(comparison, quantity),
        *head,
        *rows,
        *_notes(comparison, quantity),
    ]


def _notes(comparison: Comparison, quantity: Quantity) -> list[str]:
    """Return why some modes have no value of a quantity."""
    return [fitted(f"  — {note}") for note in notes(quantity.name, comparison.modes)]


def _clocks(comparison: Comparison, quantity: Quantity) -> list[str]:
    text = clocks(comparison, quantity)
    return [f"  {text}"] if text else []


def _rows(group: GroupSummary, quantity: Quantity, width: int) -> list[str]:
    """Return the row of quantiles, and below it the row of their intervals and of the test."""
    found = group.distributions[quantity.name]
    change = group.changes.get(quantity.name)
    moved = "" if change is None else difference(change, quantity)
    quantiles = "".join(f"{number(found.quantiles[percent], quantity):>{_QUANTILE}}" for percent in PERCENTS)
    largest = f"{number(found.quantiles[100], quantity):>10}"
    intervals = "".join(f"{_interval(found, percent, quantity):>{_QUANTILE}}" for percent in PERCENTS)
    second = f"{'':<{width + 5}}{intervals}{'':>10}{_verdict(change):>{_CHANGE}}".rstrip()
    first = f"{found.n:>5,}{quantiles}{largest}{moved:>{_CHANGE}}".rstrip()
    return [*_labelled(name(group.key), first, width), *([second] if second else [])]


def _labelled(label: str, columns: str, width: int) -> list[str]:
    """Return a row with its label. A label that is too long for its column gets a separate line."""
    if _fits(label, width):
        return [f"  {label:<{width - 2}}{columns}"]
    return [fitted(f"  {label}"), f"{'':<{width}}{columns}"]


def _fits(label: str, width: int) -> bool:
    return len(label) <= width - 3


def _interval(found: ValueDistribution, percent: int, quantity: Quantity) -> str:
    ends = found.intervals[percent]
    return "" if ends is None else f"{number(ends[0], quantity)}–{number(ends[1], quantity)}"


def _verdict(change: MetricChange | None) -> str:
    if change is None:
        return ""
    return change.verdict if change.verdict in WITHOUT_P else f"{change.verdict}, {p_value(change.corrected_p)}"


def _causes(comparison: Comparison) -> list[str]:
    rows = [
        fitted(f"  {cut(name(group.key), 40):<40}{cause:<20}{runs:>8,}{fixed(mean):>24}")
        for group in comparison.groups
        for cause, (mean, runs) in group.leaderless_s_by_cause.items()
    ]
    head = f"  {cut(_SEPARATOR.join(comparison.by), 40):<40}{'cause':<20}{'runs':>8}{'partition-s per run':>24}"
    return ["Leaderless time by what ended the controller, mean", head, *rows]


def _worst(comparison: Comparison) -> list[str]:
    lines = []
    for quantity in QUANTITIES:
        worst = comparison.worst.get(quantity.name, ())
        if worst:
            lines.append(f"Worst runs by {quantity.name}")
        for run in worst:
            lines.append(fitted(f"  {number(run.value, quantity):>10} {quantity.unit}  {name(run.key)}"))
            lines.append(f"{'':14}{run.opened_by or fitted(run.run)}")
    return lines


def _measured(comparison: Comparison) -> list[str]:
    """Return the lines about the measurement in each mode, if there are several."""
    if len(comparison.modes) < 2:
        return []
    lines = ["Measured in each mode"]
    lines += [f"  {mode:<13}{CLOCKS[mode]}" for mode in comparison.modes]
    for quantity, ends in MEASURED.items():
        lines.append(f"  {quantity}")
        lines += [f"    {mode:<13}{ends[mode]}" for mode in comparison.modes if mode in ends]
    return [*map(fitted, lines), *(fitted(f"  {sentence}") for sentence in NOT_COMPARABLE)]


def _legend(comparison: Comparison) -> list[str]:
    needed = ", ".join(f"{runs_needed(percent)} for p{percent}" for percent in PERCENTS)
    lines = [
        f"Quantiles are nearest rank. Below them: {CONFIDENCE:.0%} bootstrap intervals (percentile method over whole",
        f"runs), if there are enough runs: {needed}. A maximum has no interval.",
    ]
    if comparison.baseline:
        lines += [
            f'"{CHANGED}": p is at most {SIGNIFICANT} in a permutation test of ranks over whole runs, after Holm\'s',
            f"correction for {counted(comparison.tests, 'test')}. docs/guides/compare.md has the reasons.",
        ]
        verdicts = {change.verdict for group in comparison.groups for change in group.changes.values()}
        lines += [f'"{BELOW_CLOCKS}": the difference may come from the clocks of several machines alone.'] * (
            BELOW_CLOCKS in verdicts
        )
    return lines


# ------------------------------------------------------------------ formats, which the HTML page also uses


def size(comparison: Comparison) -> str:
    """Return the numbers of runs, failovers and groups."""
    counts = ((comparison.runs, "run"), (comparison.failovers, "failover"), (len(comparison.groups), "group"))
    return ", ".join(counted(count, noun) for count, noun in counts)


def incomplete(comparison: Comparison) -> str:
    """Return the number of runs with missing records, and whether they are used; empty if there are none."""
    if not comparison.incomplete:
        return ""
    runs = counted(len(comparison.incomplete), "run")
    if not comparison.uses_incomplete:
        return f"{runs} left out, because records are missing; {USE_THEM}"
    return f"{runs} used in spite of missing records, without {counted(comparison.doubtful, 'value')} in doubt"


def clocks(comparison: Comparison, quantity: Quantity) -> str:
    """Return by how much values of a quantity may be wrong; empty if each run is on one clock."""
    within = max(group.distributions[quantity.name].within for group in comparison.groups)
    return f"clocks of several machines: values are right within ±{number(within, quantity)}" if within else ""


def name(key: Key) -> str:
    """Return the name of a group."""
    return _SEPARATOR.join(key)


def number(value: int | None, quantity: Quantity) -> str:
    """Return a value in the quantity's unit; a dash for None."""
    return "—" if value is None else digits(value / quantity.scale)


def difference(change: MetricChange, quantity: Quantity) -> str:
    """Return a difference with its sign, and its share of the baseline."""
    value, share = change.difference, change.share
    moved = f"{'+' if value > 0 else '−' if value < 0 else '±'}{number(abs(value), quantity)}"
    return moved if share is None else f"{moved} ({'−' if share < 0 else '+'}{abs(100 * share):.0f} %)"


def p_value(p: float) -> str:
    """Return `p` and its value with its meaningful digits."""
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}" if p < 0.1 else f"p {p:.2f}"
