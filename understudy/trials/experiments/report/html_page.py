"""Writes a verdict as one HTML file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from understudy.foundation.times import moment
from understudy.history.metrics.metric_tables import PHASES, Failover
from understudy.history.report.figures import Figures
from understudy.history.writing import Html, counted, element, joined, note, page, table
from understudy.trials.experiments.report.verdict import Expected, Status, StepDone, Verdict

BEGINS = "the load begins, from which times of steps count"
_HEAD = ("expectation", "when", "verdict", "seen")


def html_page(verdict: Verdict, *, run_page: str = "", folder: str = "RUN") -> str:
    """Return the report of a verdict.

    Args:
        run_page: the address of the page that shows the run; empty if there is none.
        folder: the run folder, for the command that writes such a page.
    """
    kind = "held" if verdict.status is Status.HELD else "violated"
    clients = verdict.clients
    return page(
        verdict.title or verdict.name,
        note(
            f"{verdict.name} · engine {verdict.engine} · seed {verdict.seed} · {counted(verdict.records, 'record')}, "
            f"{counted(verdict.transactions, 'transaction')}"
        ),
        element("p", f"{verdict.status.value}: {verdict.why}", class_=f"verdict {kind}"),
        *([element("p", element("b", "Question."), f" {verdict.question}")] if verdict.question else []),
        element("h2", "What happened"),
        _link(run_page, folder),
        table(("step", "broker", "done", "ended", ""), [_begin(verdict), *map(_step, verdict.steps)]),
        element("h2", "What was expected"),
        *_expectations(verdict, run_page),
        element("h2", "Where the milliseconds went"),
        *_failovers(verdict),
        *((element("h2", "Why"), verdict.story) if verdict.story else ()),
        element("h2", "Clients"),
        f"{clients.sent:,} records sent, {clients.acknowledged:,} acknowledged, {clients.refused:,} refused, "
        f"{clients.unknown:,} of unknown outcome; {clients.read:,} read; "
        f"{clients.all_lost:,} acknowledged and not in the log at the end.",
        *map(note, verdict.notes),
        *(note(f"Missing: {missing}") for missing in verdict.missing),
        element("h2", "Run it again"),
        element("pre", element("code", verdict.command)),
        "With everything drawn:",
        element("pre", element("code", verdict.frozen)),
    )


def _link(run_page: str, folder: str) -> Html:
    """Return the link to the page of the run, or the command that writes one."""
    if run_page:
        way = joined((element("a", "Scrub through the run", href=run_page), ": the page shows"))
    else:
        command = f"understudy page {shlex.quote(folder)}"
        way = joined((element("code", command), " writes a page to scrub through the run. It shows"))
    return element("p", way, " which broker was up, paused or controller, and every election and fault.")


def _begin(verdict: Verdict) -> Sequence[str]:
    return BEGINS, "", moment(verdict.timeline.from_ms), "", ""


def _step(step: StepDone) -> Sequence[str]:
    failure = element("span", step.failure, class_="violated") if step.failure else ""
    return step.text, ", ".join(map(str, step.brokers)), _moment(step.done_ms), _moment(step.ended_ms), failure


def _moment(ms: float | None) -> str:
    return "" if ms is None else moment(ms)


def _expectations(verdict: Verdict, run_page: str) -> Iterator[Html]:
    def row(each: Expected) -> Sequence[str]:
        kind = {Status.VIOLATED: "violated", Status.HELD: "held"}.get(each.status, "note")
        return (
            joined((element("b", each.name), f" {each.sentence}")),
            each.expected or "in every run",
            element("span", each.status.value, class_=kind),
            joined((each.seen, *((" ", _place(each, run_page)) if each.where else ()))),
        )

    shown = (Status.VIOLATED, Status.UNJUDGED)
    first = [each for each in verdict.expected if each.kind != "always" or each.status in shown]
    rest = [each for each in verdict.expected if each not in first]
    yield table(_HEAD, map(row, sorted(first, key=lambda each: each.status is not Status.VIOLATED)))
    held = sum(each.status is Status.HELD for each in rest)
    summary = element("summary", f"{held} invariants held, {len(rest) - held} had nothing to test")
    yield element("details", summary, table(_HEAD, map(row, rest)))


def _place(expected: Expected, run_page: str) -> Html:
    """Return a witness, as a link to its moment and to what proves it if there is a page."""
    text = element("code", expected.where)
    return element("a", text, href=f"{run_page}{expected.link}") if run_page and expected.link else text


def _failovers(verdict: Verdict) -> Iterator[str]:
    if not verdict.failovers:
        yield "No controller failover."
        return
    figures = Figures()
    head = ("epoch", "from", "to", "cause", "detection", "election", "takeover", "propagation", "without a controller")
    rows = [
        (
            str(each.epoch),
            f"broker {each.previous_broker}",
            f"broker {each.broker}",
            each.cause,
            *(_phase(each, f"{phase}_ms", figures) for phase in (*PHASES, "outage")),
        )
        for each in verdict.failovers
    ]
    yield table(head, rows)
    yield note("Detection is mostly ZooKeeper's session timeout.")
    yield from map(note, map(str.strip, figures.legend()))


def _phase(failover: Failover, column: str, figures: Figures) -> str:
    """Return a time of a failover, with its uncertainty and its doubt; empty if the run does not have it."""
    ms: float | None = getattr(failover, column)
    if ms is None:
        return ""
    return figures.duration(failover, column)
