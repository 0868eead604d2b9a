"""Writes a comparison as one HTML file with inline SVG: no network, no script, readable in light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from understudy.history.compare.comparison import (
    CHANGED,
    PERCENTS,
    SIGNIFICANT,
    TOO_FEW,
    Change,
    Comparison,
    GroupResult,
)
from understudy.history.compare.groups import PHASES, QUANTITIES, Quantity
from understudy.history.compare.pictures import (
    distributions,
    leaderless_by_cause,
    legend,
    patterns,
    quantity_named,
    stacked_phases,
)
from understudy.history.compare.statistics import CONFIDENCE, RESAMPLES, runs_needed
from understudy.history.compare.text_page import assignments, count, difference, name, number, p_value, signed

DRAWN_GROUPS = 24
"""The most groups that a picture can show in lines that differ; the tables have all."""

# The colours are those of Okabe and Ito, lighter ones on dark.
_STYLE = """
:root { color-scheme: light dark; --text: #1a1a1a; --faint: #595959; --back: #ffffff; --grid: #d9d9d9;
  --s1: #0072b2; --s2: #d55e00; --s3: #009e73; --s4: #a6408f; --s5: #8a6d00; --s6: #4d4d4d; }
@media (prefers-color-scheme: dark) { :root { --text: #ececec; --faint: #b3b3b3; --back: #15171a; --grid: #3a3d42;
  --s1: #56b4e9; --s2: #ff8c42; --s3: #2fc99b; --s4: #e08fc8; --s5: #e6c229; --s6: #c4c4c4; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 2rem auto;
  max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.note, caption { color: var(--faint); text-align: left; }
figure { margin: 0; } .panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); gap: 1rem; }
svg { max-width: 100%; height: auto; } .defs { position: absolute; }
.legend svg { vertical-align: middle; }
ul.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; }
svg text { fill: var(--text); font-family: system-ui, sans-serif; font-size: 12px; }
svg text.title { font-size: 14px; font-weight: 600; } svg text.tick { fill: var(--faint); font-size: 11px; }
.grid { stroke: var(--grid); } .axis { stroke: var(--faint); } .line { fill: none; stroke-width: 2; }
.bar { stroke: var(--back); stroke-width: 1; } .hatch { stroke: var(--back); stroke-width: 2; }
table { border-collapse: collapse; margin: .6rem 0 1.4rem; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--grid); vertical-align: top; }
th:first-child, td:first-child { text-align: left; } td small { color: var(--faint); display: block; }
.changed { font-weight: 600; } code { font-size: .9em; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
"""


def write_page(comparison: Comparison, file: Path) -> None:
    """Write the page. Raises OSError if that is not possible."""
    file.write_text(html_page(comparison), encoding="utf-8")


def html_page(comparison: Comparison) -> str:
    """Return the page."""
    title = f"Failovers by {', '.join(comparison.by)}"
    sections = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{count(comparison.runs, 'run')}, {count(comparison.failovers, 'failover')}, "
        f"{count(len(comparison.groups), 'group')}. {escape(_baseline(comparison))}</p>",
        *_pictures(comparison),
        "<h2>Numbers</h2>",
        *(_table(comparison, quantity) for quantity in QUANTITIES),
        *_worst(comparison),
        *_method(comparison),
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{patterns()}\n" + "\n".join(sections) + "\n</body>\n</html>\n"
    )


def _baseline(comparison: Comparison) -> str:
    if not comparison.baseline:
        return "Without a baseline, no change is tested."
    return f"Compared with {assignments(comparison.baseline.items())}."


def _pictures(whole: Comparison) -> list[str]:
    comparison = replace(whole, groups=whole.groups[:DRAWN_GROUPS])
    left_out = len(whole.groups) - len(comparison.groups)
    panels = [picture for quantity in QUANTITIES if (picture := distributions(comparison, quantity))]
    return [
        *(
            [f"<p>The pictures show the first {DRAWN_GROUPS} groups; {left_out:,} more are below.</p>"]
            if left_out
            else []
        ),
        "<h2>Distributions</h2>",
        '<p class="note">Each line is the share of a group\'s values that are at most the value below it: the further '
        "to the left, the shorter.</p>",
        legend(comparison),
        f'<div class="panels">{"".join(f"<figure>{panel}</figure>" for panel in panels)}</div>',
        "<h2>Phases of a failover</h2>",
        '<p class="note">Means, because means of the parts add up to the mean of the whole. The second picture leaves '
        "detection out, which is mostly the session timeout.</p>",
        stacked_phases(comparison, PHASES, "All phases"),
        stacked_phases(comparison, PHASES[1:], "Without detection"),
        "<h2>Partitions without a leader</h2>",
        '<p class="note">Behind each bar: the mean, and the number of runs.</p>',
        leaderless_by_cause(comparison),
    ]


def _table(comparison: Comparison, quantity: Quantity) -> str:
    if not any(result.group.distributions[quantity.name].n for result in comparison.groups):
        return f"<p>{quantity.name}: no run has a value.</p>"
    head = [" · ".join(comparison.by), "n", *(f"p{percent}" for percent in PERCENTS), "max"]
    head += ["change of p50", "test"] if comparison.baseline else []
    rows = "".join(_row(comparison, result, quantity) for result in comparison.groups)
    return (
        f'<div class="wide"><table><caption><b>{quantity.name}</b>, {quantity.unit}: {quantity.meaning}</caption>'
        f"<thead><tr>{_cells('th scope=col', head)}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(comparison: Comparison, result: GroupResult, quantity: Quantity) -> str:
    found = result.group.distributions[quantity.name]
    cells = [
        _with_small(number(found.quantiles[percent], quantity), _interval(found.intervals[percent], quantity))
        for percent in PERCENTS
    ]
    cells.append(number(found.quantiles[100], quantity))
    if comparison.baseline:
        cells += _change(result.changes.get(quantity.name), quantity)
    label = f"<td>{escape(name(result.group.key))}</td>"
    return f"<tr>{label}<td>{found.n:,}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _change(change: Change | None, quantity: Quantity) -> list[str]:
    if change is None:
        return ["", ""]
    share = "" if change.share is None else f" ({signed(100 * change.share, '.0f')} %)"
    moved = _with_small(f"{difference(change.difference, quantity)}{share}", _interval(change.interval, quantity))
    if change.verdict == TOO_FEW:
        return [moved, TOO_FEW]
    kind = ' class="changed"' if change.verdict == CHANGED else ""
    return [moved, f"<span{kind}>{change.verdict}</span><small>{escape(p_value(change.corrected_p))}</small>"]


def _interval(ends: tuple[int, int] | None, quantity: Quantity) -> str:
    return "" if ends is None else f"{_plain(ends[0], quantity)} to {_plain(ends[1], quantity)}"


def _plain(value: int, quantity: Quantity) -> str:
    return f"−{number(-value, quantity)}" if value < 0 else number(value, quantity)


def _with_small(text: str, small: str) -> str:
    return f"{text}<small>{small}</small>" if small else text


def _cells(tag: str, texts: Sequence[str]) -> str:
    return "".join(f"<{tag}>{escape(text)}</{tag.split()[0]}>" for text in texts)


def _worst(comparison: Comparison) -> list[str]:
    found = []
    for wanted, runs in comparison.worst.items():
        quantity = quantity_named(wanted)
        rows = "".join(
            f"<tr><td>{escape(worst.run)}</td><td>{number(worst.value, quantity)}</td>"
            f"<td>{escape(name(worst.key))}</td><td><code>{escape(worst.opened_by)}</code></td></tr>"
            for worst in runs
        )
        head = _cells("th scope=col", ["run", f"{wanted}, {quantity.unit}", "group", "opened by"])
        found.append(
            f'<h2>Worst runs by {wanted}</h2><div class="wide"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )
    return found


def _method(comparison: Comparison) -> list[str]:
    needed = ", ".join(f"{runs_needed(percent)} for p{percent}" for percent in PERCENTS)
    text = (
        f"Quantiles are nearest rank. Intervals have a level of {CONFIDENCE:.0%}: percentile bootstrap over whole "
        f"runs, {RESAMPLES:,} samples, one value wider at each end; they are given if there are enough runs "
        f"({needed}), and never for a maximum. "
    )
    if comparison.baseline:
        text += (
            f"A quantity has changed where the p value is at most {SIGNIFICANT}: a permutation test of the mean "
            f"ranks over whole runs, after Holm's correction for {count(comparison.tests, 'test')}. “{TOO_FEW}” means "
            "that no difference, however large, could reach that."
        )
    return ["<h2>Method</h2>", f"<p>{escape(text)}</p>"]
