"""`html_page` turns a `Replay` into one HTML file: pictures of its failovers, a table of them, and the page of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from understudy.foundation.times import digits
from understudy.history.metrics.metric_tables import PHASES, Failover, RunMetrics
from understudy.history.plots.names import short_names
from understudy.history.report.pictures import OUTAGE, draw_failovers, draw_phases
from understudy.history.report.replay import Replay
from understudy.history.report.report import render
from understudy.history.writing import Html, counted, element, note, page, table

MOST_ROWS: Final = 1_000
"""Maximum number of failovers in the table; the ones with the longest outages."""


def html_page(replay: Replay) -> str:
    """Return the page."""
    runs = replay.runs
    title = f"Run {runs[0].run}" if len(runs) == 1 else counted(len(runs), "run")
    return page(title, *_pictures(runs), *_table(runs), element("h2", "Report"), element("pre", render(replay)))


def picture_page(runs: Sequence[RunMetrics], group_of: Callable[[RunMetrics, Failover], str]) -> str:
    """Return a page with the outages of runs in groups, and the table of them."""
    return page("Failovers", element("figure", draw_failovers(runs, group_of) or "no failover"), *_table(runs))


def _pictures(runs: Sequence[RunMetrics]) -> Iterator[Html]:
    if len(runs) == 1 and (picture := draw_phases(runs[0])):
        yield element("h2", "Phases of each failover")
        yield element("figure", picture)
    elif picture := draw_failovers(runs, links=_links(runs)):
        yield element("h2", "Failovers by what ended the controller")
        yield note(
            "Each dot is the time without a controller of one failover, and leads to its run in the table; the line is "
            "the median. Below the dots are the phases of the mean. Figures that missing records may change are left "
            "out."
        )
        yield element("figure", picture)


def _failovers(runs: Sequence[RunMetrics]) -> list[tuple[RunMetrics, Failover]]:
    """Return all failovers, longest outage first; failovers without a next controller come last."""
    found = [(run, failover) for run in runs for failover in run.failovers]
    return sorted(found, key=lambda each: (-_or_zero(each[1].outage_ms), each[0].run, each[1].epoch))


def _or_zero(ms: float | None) -> float:
    return 0.0 if ms is None else ms


def _links(runs: Sequence[RunMetrics]) -> dict[str, str]:
    """Return the address of the first row of each run in the table."""
    shown = [run.run for run, _ in _failovers(runs)[:MOST_ROWS]]
    return {run: f"#row-{shown.index(run)}" for run in dict.fromkeys(shown)}


def _table(runs: Sequence[RunMetrics]) -> Iterator[Html]:
    """Yield the numbers of the pictures as a table."""
    found = _failovers(runs)
    if not found:
        return
    short = short_names(run.run for run in runs)
    rows = (
        (
            element("span", short[run.run], id=f"row-{place}", title=run.run),
            f"{failover.epoch}",
            failover.cause,
            *(_ms(failover, name) for name in (*PHASES, OUTAGE)),
        )
        for place, (run, failover) in enumerate(found[:MOST_ROWS])
    )
    left_out = f"; the first {MOST_ROWS:,} are shown" if len(found) > MOST_ROWS else ""
    summary = element("summary", f"{counted(len(found), 'failover')}, longest outage first, in ms{left_out}")
    yield element("details", summary, table(("run", "epoch", "cause", *PHASES, OUTAGE), rows, numbers=True))


def _ms(failover: Failover, name: str) -> str:
    ms = failover.time_ms(name)
    return "—" if ms is None else f"{digits(ms)}{' ?' if f'{name}_ms' in failover.doubt else ''}"
