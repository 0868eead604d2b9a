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
from understudy.history.metrics.metric_tables import (
    PHASES,
    Failover,
    FenceHits,
    Missing,
    Moment,
    PartitionNumbers,
    Reign,
    RunMetrics,
    Totals,
)
from understudy.history.metrics.metrics import nearest_rank
from understudy.history.reading.findings import LogFinding
from understudy.history.reading.missing import NOT_ENDED
from understudy.history.reading.run_records import micros
from understudy.history.report.replay import Replay, worst_partitions
from understudy.history.report.runs import DIFFERENT_RUNS
from understudy.history.writing import WIDTH, counted, fitted

BAR = 36
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
    totals = run.totals
    head = (
        f"Run {run.run}: {_seconds(totals.ended_at_ms)} from {_utc(totals.started_ms)}, "
        f"{counted(totals.nodes, 'node')}, {counted(totals.records, 'record')}"
    )
    return [
        [head, f"  computed by {engine}"],
        _faults(run.moments),
        _controllers(run),
        *_failovers(run.failovers),
        _partitions(run),
        _requests(run),
        _fences(run.fence_hits),
    ]


def _faults(moments: Sequence[Moment]) -> list[str]:
    """Return the injected faults. Starts and stops of brokers are left out."""
    faults = [moment for moment in moments if moment.kind != "step" and moment.what not in ("start", "stop")]
    if not faults:
        return []
    return ["Faults", *_some([f"  at {_seconds(moment.at_ms):>9}  {_fault(moment)}" for moment in faults], 5)]


def _fault(moment: Moment) -> str:
    reason = {"point": f" at {moment.note}", "fault": f", the {moment.note}" if moment.note else ""}[moment.kind]
    return f"{moment.what} {moment.target}{reason}"


def _controllers(run: RunMetrics) -> list[str]:
    without = run.totals.without_controller_ms
    head = "none was ready" if without is None else f"{_ms(without)} without one"
    return [f"Controllers: {head}", *_some([f"  {_reign(reign)}" for reign in run.reigns], 5)]


def _reign(reign: Reign) -> str:
    ready = (
        "never ready" if reign.ready_at_ms is None else f"ready after {_ms(reign.ready_at_ms - reign.elected_at_ms)}"
    )
    end = "to the end" if reign.ended_at_ms is None else f"until {_seconds(reign.ended_at_ms)}: {reign.ended_by}"
    return f"epoch {reign.epoch:>3}  broker {reign.broker:<3} from {_seconds(reign.elected_at_ms):>9} {end:<26} {ready}"


def _failovers(failovers: Sequence[Failover]) -> list[list[str]]:
    sections = [_failover(failover) for failover in failovers[:3]]
    if len(failovers) > 3:
        sections.append([f"… and {counted(len(failovers) - 3, 'more failover')}"])
    return sections


def _failover(failover: Failover) -> list[str]:
    noticed = f", noticed by {failover.noticed_by}" if failover.noticed_by else ""
    outage = (
        "no controller followed" if failover.outage_ms is None else f"{_ms(failover.outage_ms)} without a controller"
    )
    brokers = f"broker {failover.previous_broker} → {failover.broker}"
    times = [failover.time_ms(name) for name in PHASES]
    longest = max((time for time in times if time is not None), default=0.0)
    counts = ((failover.partitions, "partition"), (failover.brokers, "broker"))
    read = ", ".join(counted(number, noun) for number, noun in counts if number is not None)
    phases = [
        f"  {name:<11} {_ms_column(time)}  {_bar(time, longest):<{BAR}} {note}"
        for name, time, note in zip(PHASES, times, ("", "", read, _answers(failover)), strict=True)
    ]
    return [
        f"Failover to epoch {failover.epoch}: {brokers} ({failover.cause}{noticed}), {outage}",
        *phases[:3],
        *_takeover(failover),
        *phases[3:],
    ]


def _takeover(failover: Failover) -> list[str]:
    reading, deciding, writing = failover.reading_ms, failover.deciding_ms, failover.writing_ms
    if reading is None:
        return []
    if deciding is None or writing is None:
        return [f"    of which reading {_ms(reading)}"]
    return [f"    of which reading {_ms(reading)}, deciding {_ms(deciding)}, writing {_ms(writing)}"]


def _answers(failover: Failover) -> str:
    if not failover.requests:
        return ""
    return f"{counted(failover.requests, 'request')}, {failover.unanswered or 'none'} unanswered"


def _partitions(run: RunMetrics) -> list[str]:
    totals = run.totals
    worst = worst_partitions(run.partitions)
    return [
        f"Partitions: {totals.partitions:,}, leaderless for {totals.leaderless_ms / 1000:,.3f} partition-seconds; "
        f"elections {totals.clean_elections:,} clean, {totals.unclean_elections:,} unclean; "
        f"ISR −{totals.isr_shrinks:,} +{totals.isr_expands:,}",
        *_some([f"  {_partition(row)}" for row in worst], 3, of=totals.leaderless_partitions),
    ]


def _partition(row: PartitionNumbers) -> str:
    now = "deleted" if row.leader is None else f"leader {row.leader} in epoch {row.leader_epoch}"
    return f"{row.topic}-{row.partition}: {_ms(row.leaderless_ms)} without a leader; at the end {now}"


def _requests(run: RunMetrics) -> list[str]:
    if not run.requests:
        return []
    rows = sorted(run.requests, key=lambda row: (-row.sent, row.event, row.api))
    table = [
        f"  {row.event or '(no event)':<28}{row.api:<20}{row.sent:>6,}{row.answered:>10,}"
        f"{_ms_column(row.p50_ms)}{_ms_column(row.p99_ms)}"
        for row in rows
    ]
    partitions = [f"{row.api} {row.error} {row.partitions:,}×" for row in run.refusals if row.partitions]
    whole = [f"{row.api} {row.error} {row.requests:,}×" for row in run.refusals if row.requests]
    head = f"Requests{'':<42}{'sent':>6}{'answered':>10}{'p50':>13}{'p99':>13}"
    refused = [f"  refused as a whole: {', '.join(whole[:5])}"] if whole else []
    refused += [f"  refused for a partition: {', '.join(partitions[:5])}"] if partitions else []
    return [head, *_some(table, SHOWN), *refused]


def _fences(hits: Sequence[FenceHits]) -> list[str]:
    """Return a line for each fence and node, with the first request or write that was refused.

    Fences that refuse deposed controllers and brokers come before the fence of fetches, which refuses some after every
    failover.
    """
    if not hits:
        return []
    through = sum(hit.let_through for hit in hits)
    refused = sum(hit.hits for hit in hits) - through
    head = f"Fences: refused {refused:,}" + (
        f", let {through:,} through because they were switched off" if through else ""
    )
    in_order = sorted(hits, key=lambda hit: (hit.fence == _FENCE_OF_EVERY_FAILOVER, hit.first_at_ms))
    by_fence = grouped(((hit.fence, hit.node), hit) for hit in in_order)
    return [head, *_some([f"  {_fence(same)}" for same in by_fence.values()], SHOWN)]


def _fence(hits: Sequence[FenceHits]) -> str:
    first, times = hits[0], sum(hit.hits for hit in hits)
    verdict = "let through" if first.let_through else "refused"
    more = f"; {times:,} in all" if times > 1 else ""
    return f"{first.fence} on {first.node} {verdict} {first.what}: came with {first.offered}, known {first.known}{more}"


# ------------------------------------------------------------------ many runs

_COLUMNS = (*PHASES, "outage")


def _many_runs(replay: Replay) -> list[list[str]]:
    totals = [run.totals for run in replay.runs]
    failovers = [failover for run in replay.runs for failover in run.failovers]
    records = sum(row.records for row in totals)
    clean, unclean = sum(row.clean_elections for row in totals), sum(row.unclean_elections for row in totals)
    return [
        [
            f"{counted(len(replay.runs), 'run')}, {counted(records, 'record')}, {counted(len(failovers), 'failover')}",
            f"  computed by {replay.engine}",
        ],
        [
            f"{'Failovers, in ms':<29}" + "".join(f"{name:>14}" for name in _COLUMNS),
            *_some(
                [line for cause in sorted({row.cause for row in failovers}) for line in _cause(cause, failovers)], 15
            ),
        ],
        [
            f"Partitions: leaderless for {sum(row.leaderless_ms for row in totals) / 1000:,.3f} partition-seconds; "
            f"elections {clean:,} clean, {unclean:,} unclean",
            f"Fences: {counted(sum(row.fence_hits for row in totals), 'hit')}",
        ],
        [
            "Longest without a controller",
            *_some(
                [
                    f"  {run.run:<40} {_ms_column(run.totals.without_controller_ms)}"
                    f"  {counted(len(run.failovers), 'failover')}"
                    for run in sorted(replay.runs, key=_longest_first)
                ],
                8,
            ),
            *_never_ready(totals),
        ],
    ]


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
        f"{name:<25} p{percent}"
        + "".join(f"{_percentile([row.time_ms(time) for row in rows], percent):>14}" for time in _COLUMNS)
        for name, percent in zip(names, (50, 99), strict=True)
    ]


def _percentile(values: Iterable[float | None], percent: int) -> str:
    rank = nearest_rank(sorted(micros(value) for value in values if value is not None), percent)
    return "—" if rank is None else f"{rank / 1000:,.3f}"


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
        f"{_writer(row)} from {_seconds(row.from_ms)} to {_seconds(row.until_ms)}, {row.kind}: "
        f"{row.evidence} ({row.witness})"
        for row in missing
    ]
    most = SHOWN if len(shown) <= SHOWN else SHOWN - 1
    lines = [line for text in shown[:most] for line in wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")]
    return [*lines, *([f"  … and {len(shown) - most:,} more"] if len(shown) > most else [])]


def _writer(row: Missing) -> str:
    if not row.node:
        return "a node"
    return row.node if row.incarnation is None else f"{row.node}/{row.incarnation}"


def _incomplete(runs: Sequence[RunMetrics]) -> list[str]:
    return _some(
        [
            f"  {run.run}, {_incompleteness(run.missing)}: {', '.join(sorted({_writer(row) for row in run.missing}))}"
            for run in runs
        ],
        SHOWN,
    )


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


def _bar(part: float | None, whole: float) -> str:
    """Return a bar for `part` of `whole`; not empty unless `part` is 0."""
    if not part or not whole:
        return ""
    full, rest = divmod(max(1, round(part / whole * BAR * 8)), 8)
    return "█" * full + " ▏▎▍▌▋▊▉"[rest].strip()


def _ms(ms: float) -> str:
    return f"{ms:,.1f} ms"


def _ms_column(ms: float | None) -> str:
    return f"{'—':>13}" if ms is None else f"{ms:>10,.3f} ms"


def _seconds(ms: float) -> str:
    return f"{ms / 1000:,.3f} s"


def _utc(ms: float) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
