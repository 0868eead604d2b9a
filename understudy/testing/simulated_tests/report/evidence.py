"""Finds where the page of a run shows a problem, as the fragment of the page's address.

A problem of the user's code is shown where its process has failed, a lost record where a broker has removed it from its
log, and a violated invariant at the record that violates it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from understudy.clusters.virtual.world import TEST
from understudy.foundation.eventlog.records import (
    ClientLogged,
    ClientRequestEnded,
    Envelope,
    LogTruncated,
    RecordsAcknowledged,
)
from understudy.history.picture_parts import link_to, parts_of
from understudy.history.witness import link_to_problem
from understudy.testing.simulated_tests.outcome import FailureKind, LostRecord, Problem

LOGGER: Final = "understudy"
"""The logger of the line about a problem in the event log of a user's process."""
MOST_TEXT: Final = 500
"""Maximum number of characters of a line that a process logs."""
_OF_THE_TEST: Final = (FailureKind.TEST, FailureKind.TASKS, FailureKind.DEADLOCK, FailureKind.LIMIT)
_OF_A_PROCESS: Final = (FailureKind.SERVICE, FailureKind.EXCEPTION)


def process_of(problem: Problem) -> str:
    """Return the name of the user's process in which a problem was found; empty if it is in none or in any of them."""
    if problem.kind in _OF_THE_TEST:
        return TEST
    return problem.place.partition(": ")[0] if problem.kind in _OF_A_PROCESS else ""


def line_about(problem: Problem) -> ClientLogged:
    """Return the line about a problem for the event log of its process."""
    return ClientLogged(level="ERROR", logger=LOGGER, text=problem.text[:MOST_TEXT])


def link_of(problem: Problem, records: Sequence[Envelope]) -> str:
    """Return the fragment of the page's address that shows a problem.

    Args:
        records: the records of all processes of the run, in order of time.
    """
    if process := process_of(problem):
        return _link_to_failure(problem, [record for record in records if record.node == process])
    if problem.lost is not None and (proof := _proof_of_loss(problem.lost, records)) is not None:
        return link_to(proof, (*parts_of(proof), f"isr:{problem.lost.topic}-{problem.lost.partition}"))
    return link_to_problem(problem.text, [record for record in records if record.mono_ms <= problem.at_ms])


def _link_to_failure(problem: Problem, records: Sequence[Envelope]) -> str:
    """Return the link to the line about a problem, with the process and the partition of its last request."""
    text = line_about(problem)
    for place, record in enumerate(records):
        if record.data == text:
            return link_to(record, (f"client:{record.node}", *_last_partition(records[:place])))
    return ""


def _last_partition(records: Sequence[Envelope]) -> Iterator[str]:
    for record in reversed(records):
        if isinstance(record.data, ClientRequestEnded):
            yield f"isr:{record.data.topic}-{record.data.partition}"
            return


def _proof_of_loss(lost: LostRecord, records: Sequence[Envelope]) -> Envelope | None:
    """Return the last truncation that has removed a record, else its acknowledgement; None if there is neither."""
    acknowledgement = None
    for record in reversed(records):
        match record.data:
            case LogTruncated(topic=lost.topic, partition=lost.partition, to_offset=first, log_end_offset=end):
                if first <= lost.offset < end:
                    return record
            case RecordsAcknowledged(topic=lost.topic, partition=lost.partition, base_offset=first, last_offset=last):
                if acknowledgement is None and first <= lost.offset <= last:
                    acknowledgement = record
    return acknowledgement
