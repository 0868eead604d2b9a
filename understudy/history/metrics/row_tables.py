"""Defines and computes the tables of a run with one row per request, leadership, controller event and fault.

They may have as many rows as the run has records, so they are written as files, and no page shows them. Times are
milliseconds after the run's first record, to the microsecond; null if the logs have no such record.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeVar

from understudy.foundation.eventlog.records import (
    EventEnded,
    EventPreempted,
    EventQueued,
    EventStarted,
    RequestFailed,
    RequestSent,
    ResponseReceived,
)
from understudy.history.metrics.doubt import Doubts, marked
from understudy.history.metrics.instants import Instant
from understudy.history.metrics.leadership_history import LeadershipHistory
from understudy.history.metrics.metric_tables import Table
from understudy.history.metrics.reigns import (
    NOT_A_FAULT,
    UNDONE,
    ReignTimes,
    end_of_run,
    failover_rows,
    faults_of,
    find_reigns,
)
from understudy.history.metrics.row_doubt import of_event, of_fault, of_leadership, of_request
from understudy.history.reading.clocks import Incarnation
from understudy.history.reading.missing import MissingRecords, find_missing
from understudy.history.reading.run_records import (
    At,
    RunRecords,
    first_by_cause,
    firsts,
    millis,
    optional_millis,
)

E = TypeVar("E", EventQueued, EventStarted, EventEnded, EventPreempted)


class RequestRow(Table, frozen=True, kw_only=True, gc=False):
    """One attempt to send a request: a `RequestSent`, with the first answer and the first failure that it caused."""

    node: str
    """The node that sent it."""
    incarnation: int
    """How often that node had started."""
    seq: int
    """The sequence number of its `RequestSent`; with `node` and `incarnation` it identifies the row."""
    cause: int | None
    """The `seq` of the record that led to it, for example of an `EventStarted`."""
    event: str
    """The kind of controller event; empty for requests that no event sent."""
    controller_epoch: int
    """Controller epoch in the request; −1 if it has none."""
    to: int
    """Broker id of the receiver."""
    api: str
    """Kafka's name of the request."""
    correlation_id: int
    """Numbers the requests of this client id; equal for all attempts."""
    attempt: int
    """How often it has been tried, from 1."""
    partitions: int
    """How many partitions it names."""
    sent_at_ms: float
    """When its `RequestSent` was written."""
    answered_at_ms: float | None
    """When its `ResponseReceived` was written."""
    error: str
    """Kafka's name of the error of the whole answer; empty without an answer."""
    refused: int
    """How many partitions were answered with an error."""
    failed_at_ms: float | None
    """When its `RequestFailed` was written."""
    failure: str
    """Why it failed; empty if it did not."""


class LeadershipRow(Table, frozen=True, kw_only=True, gc=False):
    """One state of a partition, from the record that has it until the next one; late states are left out.

    `PartitionNumbers` says which states are dropped as late, and when a partition is without a leader.
    """

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number in the topic."""
    leader: int
    """Broker id of the leader; negative if it has none."""
    leader_epoch: int
    """Grows with every change of the leader or of the assignment."""
    isr: tuple[int, ...]
    """Broker ids of the in-sync replicas."""
    controller_epoch: int
    """Epoch of the controller that wrote or read the state."""
    why: str
    """The reason, as in `LeadershipWritten`; `loaded` if a new controller read it."""
    from_ms: float
    """When the record was written."""
    until_ms: float
    """When the record of the next state or of the topic's deletion was written; else the end of the run."""
    leaderless_ms: float
    """How long the partition was without a leader in between."""
    leaderless_within_ms: float
    """As in `PartitionNumbers`."""


class EventRow(Table, frozen=True, kw_only=True, gc=False):
    """One controller event: an `EventQueued`, or an `EventStarted` or `EventPreempted` of which the log has none."""

    node: str
    """The node of the controller."""
    incarnation: int
    """How often that node had started."""
    event_id: int
    """Numbers the events of this incarnation."""
    event: str
    """Kafka's name of the event."""
    controller_epoch: int
    """The newest controller epoch that the node had seen when it wrote the first record of the event."""
    queued_at_ms: float | None
    """When its `EventQueued` was written."""
    started_at_ms: float | None
    """When its `EventStarted` was written."""
    ended_at_ms: float | None
    """When its `EventEnded` was written."""
    preempted_at_ms: float | None
    """When its `EventPreempted` was written."""
    queued_ms: float | None
    """How long it waited in the queue, as in `EventStarted`."""
    took_ms: float | None
    """How long it was processed, as in `EventEnded`."""
    outcome: str
    """As in `EventEnded`; empty if it has not ended."""


class FaultRow(Table, frozen=True, kw_only=True, gc=False):
    """One injected fault, or one armed point that was reached, with the failover that followed if it ended a reign.

    The failover is null for a fault that ended no reign, and for a fault after which no other controller followed.
    """

    at_ms: float
    """When it was written, which is before the fault takes effect."""
    fault: str
    """The fault, or the action of the point."""
    target: str
    """The node, connection or znode."""
    role: str
    """The role for which the target was chosen, or the name of the point."""
    ended_epoch: int | None
    """The epoch of the reign that it ended."""
    next_epoch: int | None
    """The epoch of the next controller."""
    next_controller: int | None
    """The broker id of the next controller."""
    detection_ms: float | None
    """As in `Failover`."""
    detection_within_ms: float | None
    """As in `Failover`."""
    outage_ms: float | None
    """As in `Failover`."""
    outage_within_ms: float | None
    """As in `Failover`."""
    elections: int
    """Partitions for which a leader was elected between this fault and the next, or the end of the run."""


ROW_TABLES: dict[str, type[Table]] = {
    "request_log": RequestRow,
    "leaderships": LeadershipRow,
    "event_log": EventRow,
    "faults": FaultRow,
}
"""Tables by the names that they have on disk, in addition to `metric_tables.TABLES`."""


def rows(name: str, run: RunRecords, missing: Sequence[MissingRecords] | None = None) -> Iterator[Table]:
    """Return the rows of one of `ROW_TABLES`.

    Args:
        missing: the stretches in which records are missing; by default those that `find_missing` finds.

    Raises:
        msgspec.MsgspecError, OSError: as `metrics.measure_records`.
    """
    return _ROWS[name](_Run(run, find_missing(run) if missing is None else missing))


class _Run:
    """A run, its reigns, and the columns in doubt of its rows, as far as a table needs them."""

    def __init__(self, records: RunRecords, missing: Sequence[MissingRecords]) -> None:
        self.records = records
        self.doubts = Doubts(records, missing, self.reigns, self.end) if missing else None
        """None if no record is missing."""

    @cached_property
    def reigns(self) -> list[ReignTimes]:
        return find_reigns(self.records)

    @cached_property
    def end(self) -> Instant:
        return end_of_run(self.records, self.reigns)


def _request_rows(given: _Run) -> Iterator[Table]:
    run, doubts = given.records, given.doubts
    answers, failures = first_by_cause(run.of(ResponseReceived)), first_by_cause(run.of(RequestFailed))
    for sent in run.of(RequestSent):
        answer = answers.get((sent.incarnation, sent.key.seq))
        failure = failures.get((sent.incarnation, sent.key.seq))
        row = RequestRow(
            node=sent.node,
            incarnation=sent.key.incarnation,
            seq=sent.key.seq,
            cause=sent.cause,
            event=sent.data.event,
            controller_epoch=sent.data.controller_epoch,
            to=sent.data.to,
            api=sent.data.api,
            correlation_id=sent.data.correlation_id,
            attempt=sent.data.attempt,
            partitions=sent.data.partitions,
            sent_at_ms=millis(sent.us),
            answered_at_ms=millis(answer.us) if answer else None,
            error=answer.data.error if answer else "",
            refused=max(answer.data.refused_count, len(answer.data.refused)) if answer else 0,
            failed_at_ms=millis(failure.us) if failure else None,
            failure=failure.data.why if failure else "",
        )
        if doubts is None:
            yield row
        else:
            is_over = answer is not None or failure is not None
            yield marked(row, of_request(doubts, row, (sent.incarnation, sent.us), is_over=is_over))


def _leadership_rows(given: _Run) -> Iterator[Table]:
    doubts = given.doubts
    for span in LeadershipHistory.spans(given.records, given.end):
        state = span.leadership
        row = LeadershipRow(
            topic=state.topic,
            partition=state.partition,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            controller_epoch=span.writer_epoch,
            why=span.why,
            from_ms=millis(span.since),
            until_ms=millis(span.until),
            leaderless_ms=millis(span.leaderless_us),
            leaderless_within_ms=millis(span.leaderless_within_us),
        )
        yield row if doubts is None else marked(row, of_leadership(doubts, row, span))


def _event_rows(given: _Run) -> Iterator[Table]:
    run, doubts = given.records, given.doubts
    queued, started = _by_event(run.of(EventQueued)), _by_event(run.of(EventStarted))
    ended, preempted = _by_event(run.of(EventEnded)), _by_event(run.of(EventPreempted))
    for name in sorted({*queued, *started, *ended, *preempted}):
        incarnation, event_id = name
        entered, began, over, gone = queued.get(name), started.get(name), ended.get(name), preempted.get(name)
        records = (entered, began, over, gone)
        known = next(at for at in records if at is not None)
        row = EventRow(
            node=incarnation[0],
            incarnation=incarnation[1],
            event_id=event_id,
            event=known.data.event,
            controller_epoch=known.controller_epoch,
            queued_at_ms=optional_millis(entered.us if entered else None),
            started_at_ms=optional_millis(began.us if began else None),
            ended_at_ms=optional_millis(over.us if over else None),
            preempted_at_ms=optional_millis(gone.us if gone else None),
            queued_ms=began.data.queued_ms if began else None,
            took_ms=over.data.took_ms if over else None,
            outcome=over.data.outcome if over else "",
        )
        times = [at.us if at else None for at in records]
        yield row if doubts is None else marked(row, of_event(doubts, row, incarnation, times))


def _by_event(records: Iterable[At[E]]) -> dict[tuple[Incarnation, int], At[E]]:
    """Return the first record of each event, by incarnation and event id."""
    return firsts(((at.incarnation, at.data.event_id), at) for at in records)


def _fault_rows(given: _Run) -> Iterator[Table]:
    run, reigns, doubts = given.records, given.reigns, given.doubts
    ended = {reign.loss.ended.us: reign for reign in reigns if reign.loss.ended and reign.loss.by_fault}
    failovers = failover_rows(run, reigns)
    if doubts is not None:
        failovers = [marked(row, doubts.of_failover(row, place)) for place, row in enumerate(failovers, start=1)]
    followed = {row.previous_epoch: row for row in failovers}
    faults = faults_of(run)
    times = [fault.key.us for fault in faults]
    elections = _elections_after(times, run, given.end)
    untils = [*times, math.inf][1:]
    for fault, elected, until in zip(faults, elections, untils, strict=True):
        reign = ended.get(fault.key.us) if fault.fault not in (NOT_A_FAULT, *UNDONE) else None
        failover = followed.get(reign.elected.data.epoch) if reign else None
        row = FaultRow(
            at_ms=millis(fault.key.us),
            fault=fault.fault,
            target=fault.target,
            role=fault.role,
            ended_epoch=reign.elected.data.epoch if reign else None,
            next_epoch=failover.epoch if failover else None,
            next_controller=failover.broker if failover else None,
            detection_ms=failover.detection_ms if failover else None,
            detection_within_ms=failover.detection_within_ms if failover else None,
            outage_ms=failover.outage_ms if failover else None,
            outage_within_ms=failover.outage_within_ms if failover else None,
            elections=elected,
        )
        yield row if doubts is None else marked(row, of_fault(doubts, row, fault, until, reign, failover))


def _elections_after(times: Sequence[int], run: RunRecords, end: Instant) -> list[int]:
    """Return how many leaders were elected from each of the sorted `times` on, before the next of them."""
    counts = [0] * (len(times) + 1)
    for span in LeadershipHistory.spans(run, end):
        counts[bisect_right(times, span.since)] += span.is_election
    return counts[1:]


_ROWS: dict[str, Callable[[_Run], Iterator[Table]]] = {
    "request_log": _request_rows,
    "leaderships": _leadership_rows,
    "event_log": _event_rows,
    "faults": _fault_rows,
}
