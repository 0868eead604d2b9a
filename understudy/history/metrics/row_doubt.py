"""Finds the columns in doubt of each request, leadership, controller event and fault, as `doubt` does for a run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from understudy.history.metrics.doubt import Doubts
from understudy.history.metrics.leadership_history import LeadershipSpan
from understudy.history.metrics.metric_tables import Failover, Table
from understudy.history.metrics.reigns import NOT_A_FAULT, UNDONE, Fault, ReignTimes
from understudy.history.reading.clocks import Incarnation


def of_request(doubts: Doubts, row: Table, sent: tuple[Incarnation, int], *, is_over: bool) -> set[str]:
    """An attempt ends with an answer or a failure, in the log of the node that sent it.

    Args:
        sent: the process that sent it, and when.
        is_over: whether there is an answer or a failure.
    """
    process, us = sent
    doubt = doubts.shifted(row, "sent_at_ms", "answered_at_ms", "failed_at_ms")
    if not is_over and doubts.evidence.of_process(process, us, math.inf):
        doubt |= {"answered_at_ms", "error", "refused", "failed_at_ms", "failure"}
    return doubt


def of_leadership(doubts: Doubts, row: Table, span: LeadershipSpan) -> set[str]:
    """A state lasts until the next one, which a controller's missing records may have."""
    doubt = doubts.shifted(row, "from_ms", "until_ms")
    leader = span.leadership.leader
    if doubts.evidence.of_changes(span.since, span.until):
        doubt |= {"until_ms", "leaderless_ms"}
    if doubts.leader_may_be_down(leader, span.until):
        doubt.add("leaderless_ms")
    if span.is_last and doubts.moves_end:
        doubt.add("until_ms")
        if doubts.is_leaderless_at_the_end(leader):
            doubt.add("leaderless_ms")
    return doubt


def of_event(doubts: Doubts, row: Table, process: Incarnation, times: Sequence[int | None]) -> set[str]:
    """The records of an event are in the log of its process, in this order: queued, started, ended; or preempted.

    Args:
        times: when it was queued, started, ended and preempted, in microseconds.
    """
    doubt = doubts.shifted(row, "queued_at_ms", "started_at_ms", "ended_at_ms", "preempted_at_ms")
    queued, started, ended, preempted = times
    first = min(us for us in times if us is not None)
    if queued is None and doubts.evidence.of_process(process, -math.inf, first):
        doubt |= {"queued_at_ms", "controller_epoch"}
    if started is None and preempted is None and doubts.evidence.of_process(process, -math.inf, math.inf):
        doubt |= {"started_at_ms", "queued_ms"}
    if ended is None and preempted is None and doubts.evidence.of_process(process, first, math.inf):
        doubt |= {"ended_at_ms", "took_ms", "outcome", "preempted_at_ms"}
    return doubt


def of_fault(
    doubts: Doubts, row: Table, fault: Fault, until: float, reign: ReignTimes | None, failover: Failover | None
) -> set[str]:
    """Whether a fault ended a reign depends on all reigns at its time, and the rest on the failover that followed.

    Args:
        until: when the next fault was injected.
        reign: the reign that it ended.
        failover: the failover after that reign.
    """
    evidence, doubt = doubts.evidence, doubts.shifted(row, "at_ms")
    of_failover = {"next_epoch", "next_controller", "detection_ms", "outage_ms"}
    if reign is None:
        if fault.fault not in (NOT_A_FAULT, *UNDONE) and doubts.may_have_ended_a_reign(fault):
            doubt |= {"ended_epoch", *of_failover}
    else:
        own = doubts.doubt_of(reign)
        if own.ended:
            doubt |= {"ended_epoch", *of_failover}
        if own.hides_others:
            doubt |= of_failover
        if failover is not None:
            doubt |= {"detection_ms", "outage_ms"}.intersection(failover.doubt)
    if evidence.of_any(fault.key.us, until) or evidence.of_changes(-math.inf, until):
        doubt.add("elections")
    return doubt
