"""The records of one run as the metrics need them: by type, in order, in whole microseconds after the first."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    BrokersChanged,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    ControllerResigned,
    ElectionLost,
    Envelope,
    EventEnded,
    EventPreempted,
    EventQueued,
    EventStarted,
    FaultInjected,
    FenceHit,
    LeadershipNotWritten,
    LeadershipWritten,
    Payload,
    PointReached,
    ProcessExiting,
    RequestFailed,
    RequestSent,
    ResponseReceived,
    RunDescribed,
    SessionExpiredRecord,
    SessionOpened,
    StepReached,
    TopicsChanged,
    WatchFiredRecord,
    ZkWrite,
    ZkWriteDone,
)

P = TypeVar("P", bound=Payload)

StatePayload: TypeAlias = LeadershipWritten | ContextLoaded | TopicsChanged
"""The records that change the state of partitions."""

STATE_TYPES: tuple[type[StatePayload], ...] = (LeadershipWritten, ContextLoaded, TopicsChanged)
KEPT_TYPES: tuple[type, ...] = (
    BrokerRegistered,
    BrokersChanged,
    ControllerElected,
    ControllerReady,
    ControllerResigned,
    ElectionLost,
    EventEnded,
    EventPreempted,
    EventQueued,
    EventStarted,
    FaultInjected,
    FenceHit,
    LeadershipNotWritten,
    PointReached,
    ProcessExiting,
    RequestFailed,
    RequestSent,
    ResponseReceived,
    RunDescribed,
    SessionExpiredRecord,
    SessionOpened,
    StepReached,
    WatchFiredRecord,
    ZkWrite,
    ZkWriteDone,
)
"""The record types that metrics read, besides `STATE_TYPES`. Of the others only the time is kept."""

Incarnation: TypeAlias = tuple[str, int]
"""The name of a node, and how often it has started."""


class Key(NamedTuple):
    """The place of a record in the total order of its run; `us` is microseconds after the run's first record."""

    us: int
    node: str
    incarnation: int
    seq: int


class At(msgspec.Struct, Generic[P], frozen=True, gc=False):
    """A record with its place in the run."""

    key: Key
    data: P
    cause: int | None
    controller_epoch: int

    @property
    def us(self) -> int:
        return self.key.us

    @property
    def node(self) -> str:
        return self.key.node

    @property
    def incarnation(self) -> Incarnation:
        return (self.key.node, self.key.incarnation)


class StateRecord(msgspec.Struct, frozen=True, gc=False):
    """A record that changes partition states. It may have megabytes, so it can be decoded only when it is needed."""

    kind: type[StatePayload]
    key: Key
    controller_epoch: int
    read: Callable[[], StatePayload]
    """Return the payload. Raises `msgspec.MsgspecError` or `OSError` where it is read from a file again and fails."""


class Signs:
    """The times of all records of each incarnation: its signs of life, in microseconds.

    Attributes:
        count: the number of records.
        last_us: the time of the last one; 0 without any.
    """

    def __init__(self, times: Mapping[Incarnation, Sequence[int]]) -> None:
        self._times = {incarnation: sorted(own) for incarnation, own in times.items() if own}
        self.count = sum(len(own) for own in self._times.values())
        self.last_us = max((own[-1] for own in self._times.values()), default=0)

    @property
    def incarnations(self) -> frozenset[Incarnation]:
        return frozenset(self._times)

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(node for node, _ in self._times)

    def last_until(self, incarnation: Incarnation, bound: int) -> int:
        """Return the time of the last record of an incarnation at or before `bound`, where it has one."""
        own = self._times[incarnation]
        return own[bisect_right(own, bound) - 1]

    def last_of(self, node: str) -> int:
        """Return the time of the last record of a node, in any of its incarnations."""
        return max(own[-1] for (name, _), own in self._times.items() if name == node)


class RunRecords:
    """All records of one run.

    Args:
        signs: the times of every record.
        records: the records of `KEPT_TYPES`, by type, in any order.
        states: the records of `STATE_TYPES`, in any order.
        started_ms: the smallest wall clock, in milliseconds since 1970; 0 without a record.
    """

    def __init__(
        self,
        signs: Signs,
        records: Mapping[type, Sequence[At[Any]]],
        states: Iterable[StateRecord],
        started_ms: float,
    ) -> None:
        self.signs = signs
        self.started_ms = started_ms
        self.states = sorted(states, key=lambda state: state.key)
        self._by_type = {kind: sorted(records.get(kind, ()), key=lambda at: at.key) for kind in KEPT_TYPES}

    @classmethod
    def from_envelopes(cls, records: Iterable[Envelope]) -> RunRecords:
        """Place the records of one run, given in any order."""
        given = list(records)
        start = min((micros(record.mono_ms) for record in given), default=0)
        signs: dict[Incarnation, list[int]] = {}
        kept: dict[type, list[At[Any]]] = {}
        states = []
        for record in given:
            key = Key(micros(record.mono_ms) - start, record.node, record.incarnation, record.seq)
            signs.setdefault((record.node, record.incarnation), []).append(key.us)
            data = record.data
            if isinstance(data, LeadershipWritten | ContextLoaded | TopicsChanged):
                states.append(StateRecord(type(data), key, record.controller_epoch, _returning(data)))
            else:
                kept.setdefault(type(data), []).append(At(key, data, record.cause, record.controller_epoch))
        return cls(Signs(signs), kept, states, min((record.wall_ms for record in given), default=0.0))

    def of(self, kind: type[P]) -> list[At[P]]:
        """Return all records of one of `KEPT_TYPES`, in order."""
        return self._by_type[kind]


def _returning(payload: StatePayload) -> Callable[[], StatePayload]:
    return lambda: payload


def micros(ms: float) -> int:
    """Return milliseconds as whole microseconds, rounded half up; every engine calculates with them."""
    return math.floor(ms * 1000 + 0.5)


def millis(us: int) -> float:
    return us / 1000


def optional_millis(us: int | None) -> float | None:
    return None if us is None else us / 1000


def broker_node(broker: int) -> str:
    """Return the node name of a broker."""
    return f"broker-{broker}"
