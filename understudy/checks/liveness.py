"""L6: controllers handle their events. Only an event left when a broker's log ends violates it, no earlier pause."""

from __future__ import annotations

from typing import NamedTuple

from understudy.checks.check import Incarnation, InvariantCheck, incarnation_of
from understudy.checks.facts import ClusterFacts
from understudy.checks.missing import RefutedBy
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    Envelope,
    EventEnded,
    EventPreempted,
    EventQueued,
    IsrProposed,
    MetadataUpdated,
    ProcessExiting,
    RequestReceived,
    ResponseSent,
)
from understudy.foundation.times import duration


class _Waiting(NamedTuple):
    record: Envelope
    event: str


class EventsAreHandled(InvariantCheck):
    id = "L6"
    sentence = "when the log of a broker ends, no event of its controller has been waiting or running for 30 s"
    refuted_by = RefutedBy.ALL_OF_INCARNATION
    reads = (
        EventQueued,
        EventEnded,
        EventPreempted,
        BrokerRegistered,
        IsrProposed,
        MetadataUpdated,
        ProcessExiting,
        RequestReceived,
        ResponseSent,
    )

    BOUND_MS = 30_000.0
    """Maximum time of an event: far more than one takes, also if it writes to a ZooKeeper that has just come back."""

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._waiting: dict[Incarnation, dict[int, _Waiting]] = {}
        self._last_ms: dict[Incarnation, float] = {}

    def on_record(self, record: Envelope) -> None:
        incarnation, data = incarnation_of(record), record.data
        self._last_ms[incarnation] = record.mono_ms
        waiting = self._waiting.setdefault(incarnation, {})
        if isinstance(data, EventQueued):
            self.times_tested += 1
            waiting[data.event_id] = _Waiting(record, data.event)
        elif isinstance(data, EventEnded | EventPreempted):
            waiting.pop(data.event_id, None)

    def at_end(self) -> None:
        for incarnation, waiting in self._waiting.items():
            for event_id, (queued, event) in waiting.items():
                waited_ms = self._last_ms[incarnation] - queued.mono_ms
                if waited_ms > self.BOUND_MS:
                    self.violated(queued, f"{event} {event_id} had not ended {duration(waited_ms)} later")


CHECKS: tuple[type[InvariantCheck], ...] = (EventsAreHandled,)
