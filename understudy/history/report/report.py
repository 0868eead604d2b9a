"""`render` turns a `Replay` into a page of text, at most 100 characters wide.

The page of one run has the injected faults, the controllers, each failover with its phases, the time that partitions
had no leader, the requests to brokers, the requests and writes that fences refused, and the damage to the logs. The
page of many runs compares their failovers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from textwrap import wrap

import msgspec

from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.eventlog.fences import Fence
from understudy.foundation.times import after, duration, fixed, micros, moment
from understudy.history.metrics.metric_tables import (
    PHASES,
    Failover,
    FenceHits,
    Missing,
    Moment,
    PartitionNumbers,
    Reign,
    RunMetrics,
    Table,
    Totals,
)
from understudy.history.metrics.metrics import nearest_rank
from understudy.history.reading.findings import LogFinding
from understudy.history.reading.missing import NO_ELECTION, NOT_ENDED
from understudy.history.report.figures import Figures, padded
from understudy.history.report.replay import Replay, worst_partitions
from understudy.history.report.runs import DIFFERENT_RUNS
from understudy.history.writing import WIDTH, counted, fitted

BAR = 36
MS_COLUMN = 13
"""Width of a column of times."""
LONGEST = 8
"""Maximum number of runs that a page of many runs shows."""
PAGE = 40
"""Maximum number of lines of a page whose sections are separated by empty lines."""
SHOWN = 6
"""Maximum number of rows of a list. If there are more, the last row has the number of the rest."""

_FENCE_OF_EVERY_FAILOVER = Fence.FETCH_LEADER_EPOCH.value
"""The fence that refuses fetches with the former leader epoch, as after every change of a leader."""


def render(replay: Replay) -> str:
    """Return the page, without a newline at its end."""
    if len(replay.runs) == 1:
        sections = _one_run(replay.runs[0], replay.engine)
    elif replay.runs:
        sections = _many_runs(replay)
    else:
        sections = [["No run: the logs hold no record."]]
    sections = [section for section in [*sections, _findings(replay)] if section]
    spaced = sum(len(section) + 1 for section in sections) - 1 <= PAGE
    lines = [line for section in sections for line in (*section, *([""] if spaced else []))]
    return "\n".join(fitted(line) for line in lines).rstrip("\n")


# ------------------------------------------------------------------ one run


def _one_run(run: RunMetrics, engine: str) -> list[list[str]]:
    figures, totals = Figures(), run.totals
    head = (
        f"Run {run.run}: {figures.text(moment(totals.ended_at_ms), totals, 'ended_at_ms')} "
        f"from {figures.text(_utc(totals.started_ms), totals, 'started_ms')}, "
        f"{_counted(figures, totals, 'nodes')}, {_counted(figures, totals, 'records')}"
    )
    sections = [
        _faults(run.moments, figures),
        _controllers(run, figures),
        *_failovers(run.failovers, figures),
        _partitions(run, figures),
        _requests(run, figures),
        _fences(run, figures),
    ]
    return [[head, f"  computed by {engine}", *_missing(run), *figures.legend()], *sections]


def _missing(run: RunMetrics) -> list[str]:
    nodes = sorted({row.node or "another controller" for row in run.missing})
    named = ", ".join(nodes) if len(nodes) <= 4 else counted(len(nodes), "node")
    return [f"  records of {named} are missing; figures that depend on them have a sign"] if nodes else []


def _faults(moments: Sequence[Moment], figures: Figures) -> list[str]:
    """Return the injected faults. Starts and stops of brokers are left out."""
    faults = [moment for moment in moments if moment.kind != "step" and moment.what not in ("start", "stop")]
    if not faults:
        return []
    lines = [f"  at {_at(figures, moment, 'at_ms'):>9}  {_fault(moment)}" for moment in faults]
    return ["Faults", *_some(lines, 5)]


def _fault(moment: Moment) -> str:
    reason = {"point": f" at {moment.note}", "fault": f", the {moment.note}" if moment.note else ""}[moment.kind]
    return f"{moment.what} {moment.target}{reason}"


def _controllers(run: RunMetrics, figures: Figures) -> list[str]:
    totals = run.totals
    without = (
        f"{figures.duration(totals, 'without_controller_ms', run=run)} without one"
        if totals.without_controller_ms is not None
        else ""
    )
    head = without or figures.text("none was ready", totals, "without_controller_ms")
    number = f"{figures.count(totals, 'controllers')}; " if "controllers" in totals.doubt else ""
    return [f"Controllers: {number}{head}", *_some([f"  {_reign(reign, figures)}" for reign in run.reigns], 5)]


def _reign(reign: Reign, figures: Figures) -> str:
    is_ready = reign.ready_at_ms is not None
    ready = f"ready {after(reign.ready_at_ms - reign.elected_at_ms)}" if reign.ready_at_ms is not None else ""
    end = "to the end" if reign.ended_at_ms is None else f"until {moment(reign.ended_at_ms)}: {reign.ended_by}"
    return (
        f"epoch {reign.epoch:>3}  broker {reign.broker:<3} from {_at(figures, reign, 'elected_at_ms'):>9} "
        f"{figures.text(end, reign, 'ended_at_ms'):<26} "
        f"{ready if is_ready else figures.text('never ready', reign, 'ready_at_ms')}"
    )


def _failovers(failovers: Sequence[Failover], figures: Figures) -> list[list[str]]:
    sections = [_failover(failover, figures) for failover in failovers[:3]]
    if len(failovers) > 3:
        sections.append([f"… and {counted(len(failovers) - 3, 'more failover')}"])
    return sections


def _failover(failover: Failover, figures: Figures) -> list[str]:
    previous = figures.text(str(failover.previous_broker), failover, "previous_broker")
    cause = figures.text(failover.cause, failover, "cause")
    noticed = figures.text(f"noticed by {failover.noticed_by}", failover, "noticed_by") if failover.noticed_by else ""
    outage = (
        figures.text("no controller followed", failover, "outage_ms")
        if failover.outage_ms is None
        else f"{figures.duration(failover, 'outage_ms')} without a controller"
    )
    title = (
        f"Failover to epoch {failover.epoch}: broker {previous} → {failover.broker} "
        f"({', '.join(filter(None, (cause, noticed)))}), {outage}"
    )
    times = [failover.time_ms(name) for name in PHASES]
    longest = max((time for time in times if time is not None), default=0.0)
    counts = ((failover.partitions, "partition"), (failover.brokers, "broker"))
    read = ", ".join(counted(number, noun) for number, noun in counts if number is not None)
    notes = ("", "", read, _answers(failover, figures))
    cells = padded([_cell(figures, failover, f"{name}_ms") for name in PHASES], MS_COLUMN)
    bar = BAR + MS_COLUMN - len(cells[0])
    phases = [
        f"  {name:<11} {cell}  {_bar(time, longest, bar):<{bar}} {note}"
        for name, cell, time, note in zip(PHASES, cells, times, notes, strict=True)
    ]
    return [
        title if len(title) <= WIDTH else title.replace(" without a controller", " without one"),
        *phases[:3],
        *_takeover(failover, figures),
        *phases[3:],
    ]


def _takeover(failover: Failover, figures: Figures) -> list[str]:
    reading, deciding, writing = failover.reading_ms, failover.deciding_ms, failover.writing_ms
    if reading is None:
        return []
    names = ("reading",) if deciding is None or writing is None else ("reading", "deciding", "writing")
    parts = (f"{name} {figures.duration(failover, f'{name}_ms')}" for name in names)
    return [f"    of which {', '.join(parts)}"]


def _answers(failover: Failover, figures: Figures) -> str:
    if not failover.requests:
        return ""
    unanswered = figures.text(f"{failover.unanswered or 'none'} unanswered", failover, "unanswered")
    return f"{_counted(figures, failover, 'requests')}, {unanswered}"


def _partitions(run: RunMetrics, figures: Figures) -> list[str]:
    totals = run.totals
    worst = worst_partitions(run.partitions)
    leaderless = figures.within(totals.leaderless_ms / 1000, totals.leaderless_within_ms / 1000)
    spent = figures.text(f"{leaderless} partition-seconds", totals, "leaderless_ms")
    clean = figures.text(f"{totals.clean_elections:,} clean", totals, "clean_elections")
    unclean = figures.text(f"{totals.unclean_elections:,} unclean", totals, "unclean_elections")
    shrinks = figures.text(f"−{totals.isr_shrinks:,}", totals, "isr_shrinks")
    expands = figures.text(f"+{totals.isr_expands:,}", totals, "isr_expands")
    head = f"Partitions: {figures.count(totals, 'partitions')}, leaderless for {spent};"
    moved = f"elections {clean}, {unclean}; ISR {shrinks} {expands}"
    return [
        *([f"{head} {moved}"] if len(head) + len(moved) < WIDTH else [head, f"  {moved}"]),
        *_some([f"  {_partition(row, figures)}" for row in worst], 3, of=totals.leaderless_partitions),
    ]


def _partition(row: PartitionNumbers, figures: Figures) -> str:
    now = "deleted" if row.leader is None else f"leader {row.leader} in epoch {row.leader_epoch}"
    leader = figures.text(now, row, "leader")
    return (
        f"{row.topic}-{row.partition}: {figures.duration(row, 'leaderless_ms')} without a leader; at the end {leader}"
    )


def _requests(run: RunMetrics, figures: Figures) -> list[str]:
    if not run.requests:
        return []
    rows = sorted(run.requests, key=lambda row: (-row.sent, row.event, row.api))
    shown = rows[: SHOWN if len(rows) <= SHOWN else SHOWN - 1]
    columns = [
        padded(["sent", *(figures.count(row, "sent") for row in shown)], 6),
        padded(["answered", *(figures.count(row, "answered") for row in shown)], 9),
        padded(["p50", *(_cell(figures, row, "p50_ms") for row in shown)], MS_COLUMN - 1),
        padded(["p99", *(_cell(figures, row, "p99_ms") for row in shown)], MS_COLUMN - 1),
    ]
    names = [f"{'Requests':<49}", *(f"  {row.event or '(no event)':<28}{row.api:<19}" for row in shown)]
    table = [" ".join(cells) for cells in zip(names, *columns, strict=True)]
    left = [f"  … and {len(rows) - len(shown):,} more"] if len(rows) > len(shown) else []
    partitions = [
        f"{row.api} {row.error} {figures.count(row, 'partitions')}×" for row in run.refusals if row.partitions
    ]
    whole = [f"{row.api} {row.error} {figures.count(row, 'requests')}×" for row in run.refusals if row.requests]
    refused = [f"  refused as a whole: {', '.join(whole[:5])}"] if whole else []
    refused += [f"  refused for a partition: {', '.join(partitions[:5])}"] if partitions else []
    return [*table, *left, *refused]


def _fences(run: RunMetrics, figures: Figures) -> list[str]:
    """Return a line for each fence and node, with the first request or write that was refused.

    Fences that refuse deposed controllers and brokers come before the fence of fetches, which refuses some after every
    failover.
    """
    hits, totals = run.fence_hits, run.totals
    if not hits:
        return []
    refused = figures.text(f"{totals.fence_hits - totals.let_through:,}", totals, "fence_hits")
    through = figures.text(f"{totals.let_through:,}", totals, "let_through") if totals.let_through else ""
    head = f"Fences: refused {refused}" + (f", let {through} through because they were switched off" if through else "")
    in_order = sorted(hits, key=lambda hit: (hit.fence == _FENCE_OF_EVERY_FAILOVER, hit.first_at_ms))
    by_fence = grouped(((hit.fence, hit.node), hit) for hit in in_order)
    return [head, *_some([f"  {_fence(same, figures)}" for same in by_fence.values()], SHOWN)]


def _fence(hits: Sequence[FenceHits], figures: Figures) -> str:
    first, times = hits[0], sum(hit.hits for hit in hits)
    verdict = "let through" if first.let_through else "refused"
    more = f"; {figures.sum_of(times, hits, 'hits')} in all" if times > 1 or "hits" in first.doubt else ""
    return f"{first.fence} on {first.node} {verdict} {first.what}: came with {first.offered}, known {first.known}{more}"


# ------------------------------------------------------------------ many runs

_COLUMNS = (*PHASES, "outage")


def _many_runs(replay: Replay) -> list[list[str]]:
    figures = Figures()
    totals = [run.totals for run in replay.runs]
    failovers = [failover for run in replay.runs for failover in run.failovers]
    clean, unclean = (
        figures.sum_of(sum(getattr(row, name) for row in totals), totals, name)
        for name in ("clean_elections", "unclean_elections")
    )
    leaderless = sum(row.leaderless_ms for row in totals) / 1000
    within = sum(row.leaderless_within_ms for row in totals) / 1000
    spent = figures.any_of(f"{figures.within(leaderless, within)} partition-seconds", totals, "leaderless_ms")
    hits = figures.any_of(counted(sum(row.fence_hits for row in totals), "hit"), totals, "fence_hits")
    records = figures.any_of(counted(sum(row.records for row in totals), "record"), totals, "records")
    number = figures.any_of(counted(len(failovers), "failover"), totals, "controllers")
    incomplete = sum(not run.is_complete for run in replay.runs)
    sections = [
        [
            f"{'Failovers, in ms':<29}" + "".join(f"{name:>14}" for name in _COLUMNS),
            *_some(
                [line for cause in sorted({row.cause for row in failovers}) for line in _cause(cause, failovers)], 15
            ),
            *_left_out(failovers),
        ],
        [
            f"Partitions: leaderless for {spent}; elections {clean} clean, {unclean} unclean",
            f"Fences: {hits}",
        ],
        ["Longest without a controller", *_longest(replay.runs, figures), *_never_ready(totals)],
    ]
    missing = [f"  records of {counted(incomplete, 'run')} are missing"] if incomplete else []
    head = f"{counted(len(replay.runs), 'run')}, {records}, {number}"
    return [[head, f"  computed by {replay.engine}", *missing, *figures.legend()], *sections]


def _longest(runs: Sequence[RunMetrics], figures: Figures) -> list[str]:
    ordered = sorted(runs, key=_longest_first)
    shown = ordered[: LONGEST if len(runs) <= LONGEST else LONGEST - 1]
    cells = padded([_cell(figures, run.totals, "without_controller_ms", run=run) for run in shown], MS_COLUMN)
    numbers = [figures.any_of(counted(len(run.failovers), "failover"), [run.totals], "controllers") for run in shown]
    lines = [f"  {run.run:<40} {cell}  {number}" for run, cell, number in zip(shown, cells, numbers, strict=True)]
    return [*lines, *([f"  … and {len(runs) - len(shown):,} more"] if len(runs) > len(shown) else ())]


def _longest_first(run: RunMetrics) -> tuple[float, str]:
    """Return the sort key of a run; runs in which no controller was ready come last."""
    without = run.totals.without_controller_ms
    return math.inf if without is None else -without, run.run


def _never_ready(totals: Sequence[Totals]) -> list[str]:
    runs = sum(row.without_controller_ms is None for row in totals)
    return [f"  No controller was ready in {counted(runs, 'run')}"] if runs else []


def _cause(cause: str, failovers: Sequence[Failover]) -> list[str]:
    rows = [row for row in failovers if row.cause == cause]
    names = (f"  {cause}, {len(rows):,}×", "")
    return [
        f"{name:<25} p{percent}" + "".join(f"{_percentile(_complete(rows, time), percent):>14}" for time in _COLUMNS)
        for name, percent in zip(names, (50, 99), strict=True)
    ]


def _complete(rows: Iterable[Failover], name: str) -> list[float | None]:
    """Return the lengths of a phase that missing records cannot change."""
    return [row.time_ms(name) for row in rows if f"{name}_ms" not in row.doubt]


def _left_out(failovers: Sequence[Failover]) -> list[str]:
    """Return what the percentiles leave out, and what clocks allow them to be wrong by."""
    in_doubt = sum(any(f"{name}_ms" in row.doubt for name in _COLUMNS) for row in failovers)
    within = max((row.time_within_ms(name) for row in failovers for name in _COLUMNS), default=0.0)
    lines = [f"  without the figures of {counted(in_doubt, 'failover')} that missing records may change"]
    clocks = [f"  the clocks of several machines allow each to be wrong by up to {duration(within)}"]
    return [*(lines if in_doubt else ()), *(clocks if within else ())]


def _percentile(values: Iterable[float | None], percent: int) -> str:
    rank = nearest_rank(sorted(micros(value) for value in values if value is not None), percent)
    return "—" if rank is None else fixed(rank / 1000)


# ------------------------------------------------------------------ findings, and formats


def _findings(replay: Replay) -> list[str]:
    """Return the damage to the logs, and the records that are missing: a run without some has figures in doubt."""
    # Numbers that mix several runs have no meaning, so the reader has to see that first.
    findings = sorted(replay.findings, key=lambda finding: finding.kind != DIFFERENT_RUNS)
    incomplete = [run for run in replay.runs if not run.is_complete]
    said = [counted(len(findings), "finding")] if findings else []
    if not incomplete:
        said = said or ["no findings"]
    elif len(replay.runs) == 1:
        said.append(_incompleteness(incomplete[0].missing))
    else:
        said.append(f"{len(incomplete):,} of {len(replay.runs):,} runs incomplete")
    return [
        f"Logs: {replay.lines:,} lines, {', '.join(said)}",
        *_some([f"  {_shortened(finding)}" for finding in findings], SHOWN),
        *(_stretches(incomplete[0].missing) if len(replay.runs) == 1 and incomplete else _incomplete(incomplete)),
    ]


def _incompleteness(missing: Sequence[Missing]) -> str:
    if all(row.kind == NOT_ENDED for row in missing):
        return "not ended"
    return f"incomplete: records are missing in {counted(len(missing), 'place')}"


def _stretches(missing: Sequence[Missing]) -> list[str]:
    """Return each stretch with its node, times, kind, evidence and the record that is the evidence."""
    shown = [
        f"{_writer(row)} from {moment(row.from_ms)} to {moment(row.until_ms)}, {row.kind}: "
        f"{row.evidence} ({row.witness})"
        for row in missing
    ]
    most = SHOWN if len(shown) <= SHOWN else SHOWN - 1
    lines = [line for text in shown[:most] for line in wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")]
    return [*lines, *([f"  … and {len(shown) - most:,} more"] if len(shown) > most else [])]


def _writer(row: Missing) -> str:
    if not row.node:
        return "a controller" if row.kind == NO_ELECTION else "a broker"
    return row.node if row.incarnation is None else f"{row.node}/{row.incarnation}"


def _incomplete(runs: Sequence[RunMetrics]) -> list[str]:
    return _some([f"  {run.run}, {_incompleteness(run.missing)}: {_writers(run.missing)}" for run in runs], SHOWN)


def _writers(missing: Iterable[Missing]) -> str:
    """Return the first few incarnations that lack records, and the number of the others."""
    writers = sorted({_writer(row) for row in missing})
    more = f" and {len(writers) - 2:,} more" if len(writers) > 3 else ""
    return ", ".join(writers[:2] if more else writers) + more


def _shortened(finding: LogFinding) -> str:
    """Return the text of a finding; if it is too long, with the beginning of the path left out."""
    text = str(finding)
    if len(text) <= WIDTH - 2:
        return text
    return str(msgspec.structs.replace(finding, file=f"…{finding.file[-45:]}"))


def _some(lines: Sequence[str], most: int, *, of: int | None = None) -> list[str]:
    """Return at most `most` of `lines`; if some are left out, the last one has their number.

    Args:
        of: the number of all rows; by default the number of `lines`.
    """
    whole = len(lines) if of is None else of
    if whole <= most:
        return [*lines]
    return [*lines[: most - 1], f"  … and {whole - most + 1:,} more"]


def _counted(figures: Figures, row: Table, column: str) -> str:
    return figures.text(counted(getattr(row, column), column.removesuffix("s")), row, column)


def _at(figures: Figures, row: Table, column: str) -> str:
    return figures.text(moment(getattr(row, column)), row, column)


def _cell(figures: Figures, row: Table, column: str, *, run: RunMetrics | None = None) -> str:
    """Return a time for a column of times; a dash if there is none."""
    if getattr(row, column) is None:
        return figures.text("—", row, column)
    return figures.cell(row, column, run=run)


def _bar(part: float | None, whole: float, width: int) -> str:
    """Return a bar for `part` of `whole`, at most `width` characters; not empty unless `part` is 0."""
    if not part or not whole:
        return ""
    full, rest = divmod(max(1, round(part / whole * width * 8)), 8)
    return "█" * full + " ▏▎▍▌▋▊▉"[rest].strip()


def _utc(ms: float) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
