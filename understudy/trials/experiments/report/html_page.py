"""Writes a verdict as one HTML file with inline SVG: no network, no script, readable in light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from urllib.parse import quote

from understudy.clusters.values import duration
from understudy.trials.experiments.report.timeline import Timeline
from understudy.trials.experiments.report.verdict import Expected, Status, Verdict

_STYLE = """
:root { color-scheme: light dark; --text: #1a1a1a; --faint: #595959; --back: #ffffff; --grid: #d9d9d9;
  --running: #cfe3d8; --paused: #e6c229; --isolated: #a6408f; --down: #4d4d4d; --changing: #b9cbe0;
  --controller: #0072b2; --good: #006b4f; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --text: #ececec; --faint: #b3b3b3; --back: #15171a; --grid: #3a3d42;
  --running: #24483a; --paused: #c9a400; --isolated: #e08fc8; --down: #8a8a8a; --changing: #39506b;
  --controller: #56b4e9; --good: #2fc99b; --bad: #ff8a80; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 2rem auto;
  max-width: 68rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.verdict { font-size: 1.15rem; font-weight: 600; } .held { color: var(--good); } .violated { color: var(--bad); }
p.note { color: var(--faint); } svg { max-width: 100%; height: auto; }
svg text { fill: var(--text); font-family: system-ui, sans-serif; font-size: 12px; }
svg text.tick { fill: var(--faint); }
.grid { stroke: var(--grid); } .fault { stroke: var(--bad); stroke-width: 1.5; }
.running { fill: var(--running); } .paused { fill: var(--paused); } .isolated { fill: var(--isolated); }
.down { fill: var(--down); } .starting, .stopping { fill: var(--changing); } .controller { fill: var(--controller); }
table { border-collapse: collapse; margin: .6rem 0 1.4rem; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: left; border-bottom: 1px solid var(--grid); vertical-align: top; }
td.number { text-align: right; } code, pre { font-size: .9em; overflow-wrap: anywhere; } pre { white-space: pre-wrap; }
.wide { overflow-x: auto; }
ul.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; }
ul.legend svg { vertical-align: middle; }
"""

_LEFT, _WIDTH, _ROW, _TOP = 90, 1000, 46, 24
_STATES = {
    "running": "running",
    "starting": "starting or stopping",
    "paused": "paused",
    "isolated": "isolated",
    "down": "down",
    "controller": "controller",
}
_SHOWN_MOMENTS = 400


def html_page(verdict: Verdict, *, page: str = "") -> str:
    """Return the report of a verdict.

    Args:
        page: the address of the page that shows the run; empty if there is none.
    """
    title = verdict.title or verdict.name
    kind = "held" if verdict.status is Status.HELD else "violated"
    sections = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="note">{escape(verdict.name)} · engine {escape(verdict.engine)} · seed {verdict.seed} · '
        f"{verdict.records:,} records, {verdict.transactions:,} transactions</p>",
        f'<p class="verdict {kind}">{escape(verdict.status.value)}: {escape(verdict.why)}</p>',
        *([f"<p><b>Question.</b> {escape(verdict.question)}</p>"] if verdict.question else []),
        "<h2>What happened</h2>",
        *([f'<p><a href="{escape(page)}">Scrub through the run</a></p>'] if page else []),
        *_picture(verdict.timeline),
        _table(("step", "broker", "done", "ended", ""), _step_rows(verdict)),
        "<h2>What was expected</h2>",
        *_expectations(verdict, page),
        "<h2>Where the milliseconds went</h2>",
        *_failovers(verdict),
        *([f"<h2>Why</h2><p>{escape(verdict.story)}</p>"] if verdict.story else []),
        "<h2>Clients</h2>",
        f"<p>{verdict.clients.sent:,} records sent, {verdict.clients.acknowledged:,} acknowledged, "
        f"{verdict.clients.refused:,} refused, {verdict.clients.unknown:,} of unknown outcome; "
        f"{verdict.clients.read:,} read.</p>",
        *(f'<p class="note">{escape(note)}</p>' for note in verdict.notes),
        "<h2>Run it again</h2>",
        f"<pre><code>{escape(verdict.command)}</code></pre>",
        f"<p>With everything drawn:</p><pre><code>{escape(verdict.frozen)}</code></pre>",
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n" + "\n".join(sections) + "\n</body>\n</html>\n"
    )


# ------------------------------------------------------------------ the picture


def _picture(line: Timeline) -> Iterator[str]:
    brokers = list(line.states)
    height = _TOP + _ROW * len(brokers) + 30
    length_ms = max(1.0, line.to_ms)

    def x(ms: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - 10) * min(max(ms, 0.0), length_ms) / length_ms, 1)

    parts = [f"<title>States of the brokers over {escape(duration(round(length_ms)))}</title>"]
    for tick in _ticks(length_ms):
        parts.append(f'<line class="grid" x1="{x(tick)}" x2="{x(tick)}" y1="{_TOP - 6}" y2="{height - 24}"/>')
        parts.append(f'<text class="tick" x="{x(tick)}" y="{height - 8}" text-anchor="middle">{duration(tick)}</text>')
    for place, broker in enumerate(brokers):
        top = _TOP + _ROW * place
        parts.append(f'<text x="0" y="{top + 18}">{escape(broker)}</text>')
        for span in line.states[broker]:
            width = max(1.0, x(span.to_ms) - x(span.from_ms))
            about = f"{span.state}, {duration(round(span.from_ms))} to {duration(round(span.to_ms))}"
            parts.append(
                f'<rect class="{escape(span.state)}" x="{x(span.from_ms)}" y="{top}" width="{width:.1f}" height="26">'
                f"<title>{escape(about)}</title></rect>"
            )
        for span in line.reigns[broker]:
            width = max(1.0, x(span.to_ms) - x(span.from_ms))
            parts.append(
                f'<rect class="controller" x="{x(span.from_ms)}" y="{top + 28}" width="{width:.1f}" height="6">'
                f"<title>{escape(span.state)}</title></rect>"
            )
    for moment in line.moments[:_SHOWN_MOMENTS]:
        row = brokers.index(moment.node) if moment.node in brokers else -1
        top, bottom = (_TOP + _ROW * row - 4, _TOP + _ROW * row + 36) if row >= 0 else (_TOP - 8, height - 24)
        text = f"{duration(round(moment.at_ms))}: {moment.node} {moment.text}"
        parts.append(
            f'<line class="fault" x1="{x(moment.at_ms)}" x2="{x(moment.at_ms)}" y1="{top}" y2="{bottom}">'
            f"<title>{escape(text)}</title></line>"
        )
    yield f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">{"".join(parts)}</svg>'
    yield (
        '<ul class="legend">'
        + "".join(
            f'<li><svg width="22" height="12" aria-hidden="true"><rect class="{state}" width="22" height="12"/></svg> '
            f"{words}</li>"
            for state, words in _STATES.items()
        )
        + "<li>a red line: a fault or an election</li></ul>"
    )


def _ticks(length_ms: float) -> list[float]:
    step = next(
        (each for each in (500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000) if length_ms / each <= 12), 300_000
    )
    return [float(number * step) for number in range(int(length_ms // step) + 1)]


# ------------------------------------------------------------------ tables


def _step_rows(verdict: Verdict) -> list[Sequence[str]]:
    return [
        (
            escape(step.text),
            escape(", ".join(map(str, step.brokers))),
            _time(step.done_ms),
            _time(step.ended_ms),
            f'<span class="violated">{escape(step.failure)}</span>' if step.failure else "",
        )
        for step in verdict.steps
    ]


def _expectations(verdict: Verdict, page: str) -> Iterator[str]:
    def row(each: Expected) -> Sequence[str]:
        kind = "violated" if each.status is Status.VIOLATED else "held" if each.status is Status.HELD else ""
        where = f" {_place(each.where, page)}" if each.where else ""
        return (
            f"<b>{escape(each.name)}</b> {escape(each.sentence)}",
            escape(each.expected or "in every run"),
            f'<span class="{kind}">{escape(each.status.value)}</span>',
            escape(each.seen) + where,
        )

    head = ("expectation", "when", "verdict", "seen")
    first = [each for each in verdict.expected if each.kind != "always" or each.status is Status.VIOLATED]
    rest = [each for each in verdict.expected if each not in first]
    yield _table(head, [row(each) for each in sorted(first, key=lambda each: each.status is not Status.VIOLATED)])
    held = sum(each.status is Status.HELD for each in rest)
    yield f"<details><summary>{held} invariants held, {len(rest) - held} had nothing to test</summary>"
    yield _table(head, [row(each) for each in rest]) + "</details>"


def _place(where: str, page: str) -> str:
    """A witness, as a link to the moment of its record if there is a page and it is a record."""
    text = f"<code>{escape(where)}</code>"
    record = re.fullmatch(r"(?P<node>.+)/(?P<incarnation>\d+)#(?P<seq>\d+)", where)
    if not page or record is None:
        return text
    moment = quote(f"{record['node']}.{record['incarnation']}.{record['seq']}")
    return f'<a href="{escape(page)}#at={moment}">{text}</a>'


def _failovers(verdict: Verdict) -> Iterator[str]:
    if not verdict.failovers:
        yield "<p>No controller failover.</p>"
        return
    head = ("epoch", "from", "to", "cause", "detection", "election", "takeover", "propagation", "without a controller")
    rows = [
        (
            str(each.epoch),
            f"broker {each.previous_broker}",
            f"broker {each.broker}",
            escape(each.cause),
            *(
                _time(value)
                for value in (
                    each.detection_ms,
                    each.election_ms,
                    each.takeover_ms,
                    each.propagation_ms,
                    each.outage_ms,
                )
            ),
        )
        for each in verdict.failovers
    ]
    yield _table(head, rows)
    yield '<p class="note">Detection is mostly ZooKeeper\'s session timeout.</p>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = "".join(f"<th scope=col>{each}</th>" for each in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>'


def _time(ms: float | None) -> str:
    return "" if ms is None else duration(round(ms, 1 if ms < 100 else 0))
