"""Computes the numbers of one run from its records. `metric_tables` defines what they mean.

Tests compare the numbers with results of SQL in Spark, which is written from the same definitions and shares no code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.eventlog.records import (
    Envelope,
    EventEnded,
    EventPreempted,
    EventQueued,
    EventStarted,
    FaultInjected,
    FenceHit,
    LeadershipNotWritten,
    PointReached,
    RequestFailed,
    RequestSent,
    ResponseReceived,
    StepReached,
)
from understudy.foundation.times import micros
from understudy.history.metrics.clock_doubt import mark_clocks
from understudy.history.metrics.clock_rows import clock_rows
from understudy.history.metrics.doubt import Doubts, mark
from understudy.history.metrics.instants import Instant, instant, within_us
from understudy.history.metrics.leadership_history import LeadershipHistory
from understudy.history.metrics.metric_tables import (
    Elections,
    EventNumbers,
    FailedElections,
    FenceHits,
    Missing,
    Moment,
    PartitionNumbers,
    Refusals,
    Requests,
    RunMetrics,
    Totals,
)
from understudy.history.metrics.reigns import ReignTimes, end_of_run, failover_rows, find_reigns
from understudy.history.metrics.settings import settings_row
from understudy.history.reading.clocks import ONE_CLOCK, RunClocks
from understudy.history.reading.missing import MissingRecords, find_missing
from understudy.history.reading.run_builder import run_records_of
from understudy.history.reading.run_records import (
    RunRecords,
    SequenceDamage,
    first_by_cause,
    millis,
    optional_millis,
)

NO_ERROR = "NONE"


def measure(
    run: str,
    records: Iterable[Envelope],
    sequences: Iterable[SequenceDamage] | None = None,
    clocks: RunClocks = ONE_CLOCK,
) -> RunMetrics:
    """Compute all tables of one run from its records, in any order.

    Args:
        sequences, clocks: as for `run_records_of`.
    """
    return measure_records(run, run_records_of(records, sequences, clocks))


def measure_records(run: str, found: RunRecords, missing: Sequence[MissingRecords] | None = None) -> RunMetrics:
    """Compute all tables of one run.

    Args:
        missing: the stretches in which records are missing; by default those that `find_missing` finds.

    Raises:
        msgspec.MsgspecError: a record that is read from its file again is damaged.
        OSError: its file cannot be read.
    """
    missing = find_missing(found) if missing is None else tuple(missing)
    reigns = find_reigns(found)
    end = end_of_run(found, reigns)
    history = LeadershipHistory.of(found, end)
    partitions = history.rows()
    requests = request_rows(found)
    fence_hits = fence_rows(found)
    metrics = RunMetrics(
        run=run,
        settings=settings_row(found),
        totals=_totals(found, not missing, reigns, end, partitions, requests, fence_hits),
        reigns=tuple(reign.row() for reign in reigns),
        failovers=tuple(failover_rows(found, reigns)),
        partitions=partitions,
        elections=election_rows(history),
        failed_elections=failed_election_rows(found),
        requests=requests,
        refusals=refusal_rows(found),
        fence_hits=fence_hits,
        events=event_rows(found),
        moments=moment_rows(found),
        missing=missing_rows(missing),
        clocks=clock_rows(found),
    )
    if not found.clocks.is_one:
        metrics = mark_clocks(found, metrics)
    return mark(Doubts(found, missing, reigns, end), metrics, history) if missing else metrics


def nearest_rank(values: Sequence[int], percent: int) -> int | None:
    """Return the smallest of the sorted `values` that `percent` of them do not exceed; None without values."""
    return values[(percent * len(values) + 99) // 100 - 1] if values else None


def election_rows(history: LeadershipHistory) -> tuple[Elections, ...]:
    return tuple(
        Elections(why=why, records=records, partitions=history.written_by_why[why], elected=history.elected_by_why[why])
        for why, records in sorted(history.records_by_why.items())
    )


def failed_election_rows(run: RunRecords) -> tuple[FailedElections, ...]:
    failed = Counter(
        (at.data.why, refused.error) for at in run.of(LeadershipNotWritten) for refused in at.data.partitions
    )
    return tuple(
        FailedElections(why=why, error=error, partitions=count) for (why, error), count in sorted(failed.items())
    )


def request_rows(run: RunRecords) -> tuple[Requests, ...]:
    sent_by_kind = grouped(((at.data.event, at.data.api), at) for at in run.of(RequestSent))
    answers, failures = first_by_cause(run.of(ResponseReceived)), first_by_cause(run.of(RequestFailed))
    rows = []
    for (event, api), sent in sorted(sent_by_kind.items()):
        requests = [((at.incarnation, at.key.seq), at) for at in sent]
        waited = sorted(answers[name].us - at.us for name, at in requests if name in answers)
        rows.append(
            Requests(
                event=event,
                api=api,
                sent=len(sent),
                resent=sum(at.data.attempt > 1 for at in sent),
                partitions=sum(at.data.partitions for at in sent),
                answered=len(waited),
                failed=sum(name in failures for name, _ in requests),
                p50_ms=optional_millis(nearest_rank(waited, 50)),
                p99_ms=optional_millis(nearest_rank(waited, 99)),
                max_ms=optional_millis(nearest_rank(waited, 100)),
            )
        )
    return tuple(rows)


def refusal_rows(run: RunRecords) -> tuple[Refusals, ...]:
    requests, partitions = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for answer in run.of(ResponseReceived):
        if answer.data.error != NO_ERROR:
            requests[answer.data.api, answer.data.error] += 1
        partitions.update((answer.data.api, refused.error) for refused in answer.data.refused)
    return tuple(
        Refusals(api=api, error=error, requests=requests[api, error], partitions=partitions[api, error])
        for api, error in sorted({*requests, *partitions})
    )


def fence_rows(run: RunRecords) -> tuple[FenceHits, ...]:
    hits = grouped(
        ((at.data.fence, at.node, at.data.what, at.data.offered, at.data.known), at) for at in run.of(FenceHit)
    )
    return tuple(
        FenceHits(
            fence=fence,
            node=node,
            what=what,
            offered=offered,
            known=known,
            hits=len(same),
            let_through=sum(at.data.switched_off for at in same),
            first_at_ms=millis(same[0].us),
        )
        for (fence, node, what, offered, known), same in sorted(hits.items())
    )


def event_rows(run: RunRecords) -> tuple[EventNumbers, ...]:
    queued = Counter(at.data.event for at in run.of(EventQueued))
    preempted = Counter(at.data.event for at in run.of(EventPreempted))
    not_done = Counter(at.data.event for at in run.of(EventEnded) if at.data.outcome != "done")
    waited = grouped((at.data.event, micros(at.data.queued_ms)) for at in run.of(EventStarted))
    took = grouped((at.data.event, micros(at.data.took_ms)) for at in run.of(EventEnded))
    rows = []
    for event in sorted({*queued, *preempted, *waited, *took}):
        queued_us, took_us = sorted(waited.get(event, ())), sorted(took.get(event, ()))
        rows.append(
            EventNumbers(
                event=event,
                queued=queued[event],
                started=len(queued_us),
                ended=len(took_us),
                preempted=preempted[event],
                not_done=not_done[event],
                queued_p50_ms=optional_millis(nearest_rank(queued_us, 50)),
                queued_p99_ms=optional_millis(nearest_rank(queued_us, 99)),
                took_p50_ms=optional_millis(nearest_rank(took_us, 50)),
                took_p99_ms=optional_millis(nearest_rank(took_us, 99)),
                took_max_ms=optional_millis(nearest_rank(took_us, 100)),
            )
        )
    return tuple(rows)


def moment_rows(run: RunRecords) -> tuple[Moment, ...]:
    moments = [(at.key, "fault", at.data.fault, at.data.target, at.data.role) for at in run.of(FaultInjected)]
    moments += [(at.key, "point", at.data.action, at.node, at.data.point) for at in run.of(PointReached)]
    moments += [(at.key, "step", at.data.step, "", at.data.note) for at in run.of(StepReached)]
    return tuple(
        Moment(at_ms=millis(key.us), kind=kind, what=what, target=target, note=note)
        for key, kind, what, target, note in sorted(moments)
    )


def missing_rows(missing: Iterable[MissingRecords]) -> tuple[Missing, ...]:
    return tuple(
        Missing(
            node=stretch.node,
            incarnation=stretch.incarnation or None,
            from_ms=millis(stretch.from_us),
            until_ms=millis(stretch.until_us),
            kind=stretch.kind,
            evidence=stretch.evidence,
            witness=stretch.witness,
        )
        for stretch in missing
    )


def _totals(
    run: RunRecords,
    is_complete: bool,
    reigns: Sequence[ReignTimes],
    end: Instant,
    partitions: Sequence[PartitionNumbers],
    requests: Sequence[Requests],
    fence_hits: Sequence[FenceHits],
) -> Totals:
    without = _without_controller(run, reigns, end)
    return Totals(
        is_complete=is_complete,
        started_ms=run.started_ms,
        ended_at_ms=millis(end.us),
        nodes=len(run.signs.nodes),
        incarnations=len(run.signs.incarnations),
        records=run.signs.count,
        controllers=len(reigns),
        without_controller_ms=millis(without.us) if without else None,
        without_controller_within_ms=millis(without.within_us) if without else None,
        partitions=len(partitions),
        leaderless_ms=millis(sum(micros(row.leaderless_ms) for row in partitions)),
        leaderless_within_ms=millis(sum(micros(row.leaderless_within_ms) for row in partitions)),
        leaderless_partitions=sum(row.leaderless_ms > 0 for row in partitions),
        clean_elections=sum(row.clean_elections for row in partitions),
        unclean_elections=sum(row.unclean_elections for row in partitions),
        isr_shrinks=sum(row.isr_shrinks for row in partitions),
        isr_expands=sum(row.isr_expands for row in partitions),
        requests=sum(row.sent for row in requests),
        fence_hits=sum(row.hits for row in fence_hits),
        let_through=sum(row.let_through for row in fence_hits),
    )


class _Duration(NamedTuple):
    """A sum of times in microseconds, and by how much the clocks allow it to be wrong."""

    us: int
    within_us: int


def _without_controller(run: RunRecords, reigns: Sequence[ReignTimes], end: Instant) -> _Duration | None:
    """Return the time between reigns, which do not overlap; None if none was ever ready."""
    spans = []
    for reign in reigns:
        if reign.ready is not None:
            since = min(instant(reign.ready.key), end)
            until = end if reign.loss.ended is None else min(reign.loss.ended, end)
            spans.append((since, max(until, since)))
    if not spans:
        return None
    first_ready = min(since.us for since, _ in spans)
    total = end.us - first_ready - sum(until.us - since.us for since, until in spans)
    ends, begins = [until for _, until in spans], [*(since for since, _ in spans[1:]), end]
    return _Duration(total, sum(within_us(run, lost, ready) for lost, ready in zip(ends, begins, strict=True)))
