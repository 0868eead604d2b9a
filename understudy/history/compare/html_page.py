"""Writes a comparison as one HTML file with inline SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    RunValue,
)
from understudy.history.compare.groups import QUANTITIES, Quantity, assignments
from understudy.history.compare.modes import CLOCKS, LACKING, MEASURED, NOT_COMPARABLE, notes
from understudy.history.compare.pictures import (
    distributions,
    leaderless_by_cause,
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
from understudy.history.plots.names import short_names
from understudy.history.writing import Html, counted, element, joined, note, page, table

DRAWN_GROUPS = 24
"""Maximum number of groups that a picture can show in different lines; the tables have all groups."""


def write_page(comparison: Comparison, file: Path, pages: Mapping[str, str] | None = None) -> None:
    """Write the page; arguments are as in `html_page`. Raises OSError if that is not possible."""
    file.write_text(html_page(comparison, pages), encoding="utf-8")


def html_page(comparison: Comparison, pages: Mapping[str, str] | None = None) -> str:
    """Return the page.

    Args:
        pages: the addresses of the pages of runs, by the id of the run; dots of other runs lead to the table of runs.
    """
    pages = pages or {}
    return page(
        f"Failovers by {', '.join(comparison.by)}",
        f"{size(comparison)}. {_baseline(comparison)}",
        *_incomplete(comparison),
        *_pictures(comparison, {**_links(comparison), **pages}),
        element("h2", "Numbers"),
        *(_table(comparison, quantity) for quantity in QUANTITIES),
        *_measured(comparison),
        *_worst(comparison),
        *_runs(comparison, pages),
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


def _pictures(whole: Comparison, links: Mapping[str, str]) -> Iterator[str]:
    comparison = replace(whole, groups=whole.groups[:DRAWN_GROUPS])
    if left_out := len(whole.groups) - len(comparison.groups):
        yield f"The pictures show the first {DRAWN_GROUPS} groups; {left_out:,} more are below."
    yield element("h2", "Distributions")
    yield note(
        "Each dot is one value, and leads to its run in the table of runs. The line is the median. If there are more "
        "values than dots could show, each line is the share of a group's values that are at most the value below it, "
        "and only the largest values are dots."
    )
    panels = filter(None, (distributions(comparison, quantity, links) for quantity in QUANTITIES))
    yield element("div", joined(element("figure", panel) for panel in panels), class_="panels")
    yield element("h2", "Phases of a failover")
    yield note(
        "Means, because means of the parts add up to the mean of the whole. The second picture leaves detection out, "
        "which is mostly the session timeout. A part that is too short to be seen is drawn half a per cent wide."
    )
    pictures = [stacked_phases(comparison, PHASES, "All phases")]
    pictures.append(stacked_phases(comparison, PHASES[1:], "Without detection"))
    yield element("div", joined(element("figure", picture) for picture in pictures), class_="panels")
    yield element("h2", "Partitions without a leader")
    yield note("By what ended the controller; at the right of each group the number of its runs.")
    yield leaderless_by_cause(comparison)


def _links(comparison: Comparison) -> dict[str, str]:
    """Return the address of each run in the table of runs, by its id."""
    return {run.run: f"#run-{place}" for place, (run, _) in enumerate(shown_runs(comparison))}


def shown_runs(comparison: Comparison) -> list[tuple[RunValue, GroupSummary]]:
    """Return the runs that are dots, longest outage first, with their groups; runs without an outage come last."""
    found: dict[str, tuple[RunValue, GroupSummary]] = {}
    for quantity in ("outage", *(each.name for each in QUANTITIES)):
        for group in comparison.groups:
            for run in reversed(group.shown[quantity]):
                is_outage = quantity == "outage"
                found.setdefault(run.run, (run if is_outage else replace(run, value=-1), group))
    return sorted(found.values(), key=lambda each: (-each[0].value, each[0].run))


def _runs(comparison: Comparison, pages: Mapping[str, str]) -> Iterator[Html]:
    """Yield the table of the runs that are dots in the pictures, longest outage first."""
    shown = shown_runs(comparison)
    outage = next(quantity for quantity in QUANTITIES if quantity.name == "outage")
    short = short_names(run.run for run, _ in shown)
    rows = (
        (
            _named(short[run.run], run.run, f"run-{place}", pages),
            name(group.key),
            number(run.value if run.value >= 0 else None, outage),
            element("code", run.opened_by),
        )
        for place, (run, group) in enumerate(shown)
    )
    yield element("h2", "Runs")
    head = ("run", "group", f"longest {outage.name}, {outage.unit}", "opened by")
    summary = element("summary", f"The {counted(len(shown), 'run')} that the pictures name, longest outage first")
    yield element("details", summary, table(head, rows))


def _named(short: str, run: str, place: str, pages: Mapping[str, str]) -> Html:
    """Return the short name of a run, as a link if it has a page."""
    name = element("a", short, href=pages[run]) if run in pages else short
    return element("span", name, id=place, title=run)


def _table(comparison: Comparison, quantity: Quantity) -> str:
    if not any(group.distributions[quantity.name].n for group in comparison.groups):
        return "; ".join([f"{quantity.name}: no run has a value", *notes(quantity.name, comparison.modes)]) + "."
    head = [" · ".join(comparison.by), "n", *(f"p{percent}" for percent in PERCENTS), "max"]
    head += ["change of p50", "test"] if comparison.baseline else []
    about_clocks = clocks(comparison, quantity)
    about = f", {quantity.unit}: {quantity.meaning}{'; ' * bool(about_clocks)}{about_clocks}"
    about += "".join(f". — {note}" for note in notes(quantity.name, comparison.modes))
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


def _measured(comparison: Comparison) -> Iterator[Html]:
    """Yield the table of the measurement in each mode, if there are several."""
    modes = comparison.modes
    if len(modes) < 2:
        return
    yield element("h2", "Measured in each mode")
    yield table(("quantity", *modes), (("all", *(CLOCKS[mode] for mode in modes)), *_ends(modes)))
    yield note(" ".join(NOT_COMPARABLE))


def _ends(modes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for quantity, ends in MEASURED.items():
        yield (quantity, *(ends.get(mode) or f"— ({LACKING[quantity, mode]})" for mode in modes))


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
