"""`Timeline`: when each broker ran, was paused or down, and was controller, and when its records are missing, read from
the event logs of a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec

from understudy.foundation.eventlog.records import (
    AnswerInjected,
    BrokerRegistered,
    ControllerElected,
    ControllerResigned,
    Envelope,
    FaultInjected,
    LeadershipWritten,
    PointReached,
    StepReached,
)
from understudy.history.reading.missing import NOT_ENDED, find_missing
from understudy.history.reading.run_builder import run_records_of
from understudy.history.reading.run_records import millis

LOAD_BEGUN = "the load has begun"
"""The step that an engine records when the time of an experiment begins."""

_AFTER = {
    "kill": "down",
    "power_loss": "down",
    "stop": "stopping",
    "start": "starting",
    "pause": "paused",
    "resume": "running",
    "continue": "running",  # as older runs call it
    "isolate": "isolated",
    "heal": "running",
}
"""The state of a broker after a fault."""
_TESTBEDS = ("testbed", "simulator")
_Timed: TypeAlias = tuple[float, Envelope]
"""A record, after its time since the first one in ms."""


class TimelineSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A state of a broker from one time to another, in ms since the first record of the run."""

    state: str
    """`running`, `paused`, `isolated`, `down`, `starting`, `stopping`, or `controller N` at controller epoch N."""
    from_ms: float
    to_ms: float


class TimelineGap(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch in which records of a node are missing, in ms since the first record of the run."""

    from_ms: float
    to_ms: float
    evidence: str
    """The evidence, in words."""
    witness: str
    """The record that is the evidence, for example `broker-1/3#42`."""


class TimelineMoment(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened at one time."""

    at_ms: float
    node: str
    text: str


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """The states of every broker, by name, and what happened, from the moment at which the load began.

    A state or a reign in a stretch of `missing` is the last one on record.
    """

    from_ms: float
    to_ms: float
    states: dict[str, tuple[TimelineSpan, ...]]
    reigns: dict[str, tuple[TimelineSpan, ...]]
    moments: tuple[TimelineMoment, ...]
    missing: dict[str, tuple[TimelineGap, ...]] = {}
    """By node; empty if it cannot be said which node it was."""


def timeline(records: Mapping[str, Sequence[Envelope]]) -> Timeline:
    """Build the timeline of a run from the records of each node."""
    ordered = sorted((record for each in records.values() for record in each), key=lambda record: record.mono_ms)
    first_ms = ordered[0].mono_ms if ordered else 0.0
    begun_ms = _load_begun_ms(ordered) - first_ms
    timed = [(record.mono_ms - first_ms, record) for record in ordered]
    end_ms = timed[-1][0] if timed else 0.0
    brokers = sorted(name for name in records if name.startswith("broker-"))
    return Timeline(
        from_ms=begun_ms,
        to_ms=end_ms,
        states={broker: tuple(_states(broker, timed, begun_ms, end_ms)) for broker in brokers},
        reigns={broker: tuple(_reigns(broker, timed, begun_ms, end_ms)) for broker in brokers},
        moments=tuple(found for at_ms, record in timed if at_ms >= begun_ms and (found := _moment(record, at_ms))),
        missing=_missing(ordered),
    )


def _missing(ordered: Sequence[Envelope]) -> dict[str, tuple[TimelineGap, ...]]:
    """Return the stretches of each node. That the testbed has not ended its log yet is none."""
    found: dict[str, list[TimelineGap]] = {}
    for each in find_missing(run_records_of(ordered)):
        if each.kind != NOT_ENDED:
            gap = TimelineGap(
                from_ms=millis(each.from_us),
                to_ms=millis(each.until_us),
                evidence=each.evidence,
                witness=each.witness,
            )
            found.setdefault(each.node, []).append(gap)
    return {node: tuple(gaps) for node, gaps in sorted(found.items())}


def _load_begun_ms(records: Iterable[Envelope]) -> float:
    """Return when the load began, by the monotonic clock; the time of the first record if no record says it."""
    first_ms = math.inf
    for record in records:
        if isinstance(record.data, StepReached) and record.data.step == LOAD_BEGUN:
            return record.mono_ms
        first_ms = min(first_ms, record.mono_ms)
    return first_ms if first_ms < math.inf else 0.0


def _states(broker: str, timed: Iterable[_Timed], begun_ms: float, end_ms: float) -> Iterator[TimelineSpan]:
    state, since_ms = "running", begun_ms
    for record_ms, record in timed:
        after = _state_after(broker, record)
        if after is None or after == state:
            continue
        at_ms = max(begun_ms, record_ms)
        if at_ms > since_ms:
            yield TimelineSpan(state=state, from_ms=since_ms, to_ms=at_ms)
        state, since_ms = after, at_ms
    if end_ms > since_ms:
        yield TimelineSpan(state=state, from_ms=since_ms, to_ms=end_ms)


def _state_after(broker: str, record: Envelope) -> str | None:
    """Return the state of a broker after a record; None if the record does not change it."""
    match record.data:
        case FaultInjected(fault=fault, target=target) if record.node in _TESTBEDS and target == broker:
            return _AFTER.get(fault)
        case BrokerRegistered() if record.node == broker:
            return "running"
        case PointReached(action=action) if record.node == broker:
            return {"pause": "paused", "crash": "down"}.get(action)
    return None


def _reigns(broker: str, timed: Iterable[_Timed], begun_ms: float, end_ms: float) -> Iterator[TimelineSpan]:
    epoch, since_ms = 0, begun_ms
    for record_ms, record in timed:
        at_ms = max(begun_ms, record_ms)
        is_own = record.node == broker
        ends = (is_own and isinstance(record.data, ControllerResigned)) or _state_after(broker, record) == "down"
        if epoch and ends:
            yield TimelineSpan(state=f"controller {epoch}", from_ms=since_ms, to_ms=at_ms)
            epoch = 0
        if is_own and isinstance(record.data, ControllerElected):
            epoch, since_ms = record.data.epoch, at_ms
    if epoch:
        yield TimelineSpan(state=f"controller {epoch}", from_ms=since_ms, to_ms=end_ms)


def _moment(record: Envelope, at_ms: float) -> TimelineMoment | None:
    match record.data:
        case FaultInjected(fault=fault, target=target) if record.node in _TESTBEDS:
            node = target if target.startswith("broker-") and " " not in target else ""
            return TimelineMoment(at_ms=at_ms, node=node, text=fault if node else f"{fault} {target}")
        case ControllerElected(epoch=epoch):
            return TimelineMoment(at_ms=at_ms, node=record.node, text=f"elected at epoch {epoch}")
        case PointReached(point=point, action=action):
            return TimelineMoment(at_ms=at_ms, node=record.node, text=f"{action} at {point}")
        case AnswerInjected(api=api, error=error):
            return TimelineMoment(at_ms=at_ms, node=record.node, text=f"answers {api} with {error}")
        case LeadershipWritten(why="unclean"):
            return TimelineMoment(at_ms=at_ms, node=record.node, text="unclean election")
    return None
