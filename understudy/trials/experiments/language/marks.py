"""Marks: what a run has reached, read from its event logs. `sometimes` and `never` of an experiment name them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from understudy.controller.points import POINTS
from understudy.foundation.eventlog.fences import Fence
from understudy.foundation.eventlog.records import (
    AnswerInjected,
    ControllerElected,
    ControllerResigned,
    Envelope,
    FenceHit,
    IsrProposed,
    LeadershipWritten,
    LogTruncated,
    PointReached,
    RequestFailed,
    SessionExpiredRecord,
    ZkWriteDone,
)

EVENTS: Final = {
    "elected": "a broker has won the election of the controller",
    "resigned": "a controller has resigned",
    "session-expired": "a broker has learnt that its session has ended",
    "write-outcome-unknown": "a broker's connection to ZooKeeper was lost before the answer to a write",
    "request-failed": "a request of the controller to a broker was not answered",
    "isr-shrunk": "a leader has proposed an ISR without one of its replicas",
    "isr-expanded": "a leader has proposed an ISR with one replica more",
    "truncated": "a broker has truncated a log that had records of its own",
    "unclean-election": "a replica outside the ISR has been elected",
    "answer-injected": "a broker has given an answer that was armed by `answer`",
    "leaderless": "the controller has written that a partition has no leader",
}
"""Every mark that is neither a fence nor a point, with its meaning."""

FENCED: Final = "fenced."
AT_POINT: Final = "point."

MARKS: Final[tuple[str, ...]] = (
    *EVENTS,
    *(FENCED + fence.value for fence in Fence),
    *(AT_POINT + point for point in POINTS),
)


def marks_of(record: Envelope) -> Iterator[str]:
    """Yield the marks that a record reaches."""
    match record.data:
        case FenceHit(fence=fence) if FENCED + fence in MARKS:
            yield FENCED + fence
        case PointReached(point=point):
            yield AT_POINT + point
        case AnswerInjected():
            yield "answer-injected"
        case ControllerElected():
            yield "elected"
        case ControllerResigned():
            yield "resigned"
        case SessionExpiredRecord():
            yield "session-expired"
        case ZkWriteDone(outcome="Unknown"):
            yield "write-outcome-unknown"
        case RequestFailed():
            yield "request-failed"
        case IsrProposed(joining=joining, leaving=leaving):
            if joining:
                yield "isr-expanded"
            if leaving:
                yield "isr-shrunk"
        case LogTruncated(to_offset=to_offset, log_end_offset=end) if to_offset < end:
            yield "truncated"
        case LeadershipWritten(why=why, partitions=partitions):
            if why == "unclean":
                yield "unclean-election"
            if any(each.leader == -1 for each in partitions):
                yield "leaderless"
        case _:
            return
