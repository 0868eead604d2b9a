"""The records of one run as the metrics need them: by type, in order, in whole microseconds after the first."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from understudy.foundation.eventlog import records as types
from understudy.foundation.eventlog.records import (
    ContextLoaded,
    LeadershipWritten,
    Payload,
    RequestReceived,
    TopicsChanged,
)
from understudy.foundation.times import micros
from understudy.history.reading.clocks import ONE_CLOCK, Incarnation, MachineClock, RunClocks

K = TypeVar("K")
V = TypeVar("V")
P = TypeVar("P", bound=Payload)

StatePayload: TypeAlias = LeadershipWritten | ContextLoaded | TopicsChanged
"""The records that change the state of partitions."""

STATE_TYPES: tuple[type[StatePayload], ...] = (LeadershipWritten, ContextLoaded, TopicsChanged)
KEPT_TYPES: tuple[type, ...] = (
    types.BecameCandidate,
    types.BrokerRegistered,
    types.BrokersChanged,
    types.ControllerElected,
    types.ControllerReady,
    types.ControllerResigned,
    types.ElectionLost,
    types.EventEnded,
    types.EventPreempted,
    types.EventQueued,
    types.EventStarted,
    types.FaultInjected,
    types.FenceHit,
    types.LeadershipNotWritten,
    types.LogSeen,
    types.PointReached,
    types.ProcessExiting,
    types.ProcessStarted,
    types.RequestFailed,
    types.RequestSent,
    types.ResponseReceived,
    types.RunDescribed,
    types.SessionExpiredRecord,
    types.SessionOpened,
    types.StepReached,
    types.WatchFiredRecord,
    types.ZkWrite,
    types.ZkWriteDone,
)
"""Record types that metrics read, besides `STATE_TYPES`. Of other records only the time is kept."""


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
    """Return the payload. Raises `msgspec.MsgspecError` or `OSError` if it is read from a file again and that fails."""


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

    def first_of(self, incarnation: Incarnation) -> int:
        """Return the time of the first record of an incarnation; there must be one."""
        return self._times[incarnation][0]

    def end_of(self, incarnation: Incarnation) -> int:
        """Return the time of the last record of an incarnation; there must be one."""
        return self._times[incarnation][-1]

    def count_of(self, incarnation: Incarnation) -> int:
        """Return the number of records of an incarnation; there must be one."""
        return len(self._times[incarnation])

    def last_until(self, incarnation: Incarnation, bound: int) -> int:
        """Return the time of the last record of an incarnation at or before `bound`; there must be one."""
        own = self._times[incarnation]
        return own[bisect_right(own, bound) - 1]

    def last_of(self, node: str) -> int:
        """Return the time of the last record of a node, in any of its incarnations."""
        return max(own[-1] for (name, _), own in self._times.items() if name == node)


class ShiftedSigns(Signs):
    """Signs whose clocks are a little different.

    Args:
        shift: returns the microseconds that are added to a time of an incarnation; it changes slowly.
    """

    def __init__(self, signs: Signs, shift: Callable[[Incarnation, int], int]) -> None:
        super().__init__({})
        self._times = signs._times
        self._shift = shift
        self.count = signs.count
        self.last_us = max(map(self.end_of, self._times), default=0)

    def first_of(self, incarnation: Incarnation) -> int:
        us = super().first_of(incarnation)
        return us + self._shift(incarnation, us)

    def end_of(self, incarnation: Incarnation) -> int:
        us = super().end_of(incarnation)
        return us + self._shift(incarnation, us)

    def last_until(self, incarnation: Incarnation, bound: int) -> int:
        by = self._shift(incarnation, bound)
        own = self._times[incarnation]
        return own[max(bisect_right(own, bound - by) - 1, 0)] + by

    def last_of(self, node: str) -> int:
        return max(self.end_of(incarnation) for incarnation in self._times if incarnation[0] == node)


class SequenceGap(NamedTuple):
    """Sequence numbers of an incarnation that are missing; times in microseconds, of the records before and after."""

    incarnation: Incarnation
    from_us: int
    """As `until_us` if there is no record before."""
    until_us: int
    first: int
    """The first sequence number that is missing."""
    last: int
    """The last sequence number that is missing."""

    def placed(self, placed: Callable[[Key], Key]) -> SequenceGap:
        """Return it with the times of its records by the reference clock, as `placed` returns the place of a record."""
        from_us, until_us = (placed(Key(us, *self.incarnation, 0)).us for us in (self.from_us, self.until_us))
        return self._replace(from_us=from_us, until_us=until_us)


class SequenceDamage(NamedTuple):
    """An incarnation whose sequence numbers have gaps, repeats, or records that are left out."""

    writer: tuple[str, str, int]
    """Run, node and incarnation."""
    last_seq: int
    """The last sequence number."""
    gaps: tuple[tuple[int, int, float, float], ...]
    """The first and the last number that are missing, and the clocks of the records before and after."""

    def aligned(self, clock: MachineClock) -> SequenceDamage:
        """Return it with the times of its records by the reference clock."""

        def time_ms(ms: float) -> float:
            return clock.time_us(micros(ms)) / 1000

        return self._replace(
            gaps=tuple((first, last, time_ms(since), time_ms(until)) for first, last, since, until in self.gaps)
        )


class EpochSeen(NamedTuple):
    """The first record of an incarnation whose envelope has a controller epoch; sorts by place."""

    key: Key
    epoch: int


class RunRecords:
    """All records of one run.

    Args:
        signs: the times of every record.
        records: the records of `KEPT_TYPES`, by type, in any order.
        states: the records of `STATE_TYPES`, in any order.
        started_ms: the smallest wall clock, in milliseconds since 1970; 0 without a record.
        clocks: the clocks of its machines; all times are by the reference clock.
        gaps: the sequence numbers that are missing before another record of the same incarnation.
        epochs: the controller epochs of the envelopes, each with the first record of each incarnation that has it.
        last_seqs: the last sequence number of each incarnation, if it is not the number of its records.
        received: the last control request that each incarnation received, by controller epoch and broker epoch.
        start_us: the time of the first record by the reference clock, in microseconds.
    """

    def __init__(
        self,
        signs: Signs,
        records: Mapping[type, Sequence[At[Any]]],
        states: Iterable[StateRecord],
        started_ms: float,
        clocks: RunClocks = ONE_CLOCK,
        gaps: Sequence[SequenceGap] = (),
        epochs: Iterable[EpochSeen] = (),
        last_seqs: Mapping[Incarnation, int] | None = None,
        received: Iterable[At[RequestReceived]] = (),
        start_us: int = 0,
    ) -> None:
        self.signs = signs
        self.clocks = clocks
        self.gaps = tuple(gaps)
        self.epochs = tuple(sorted(epochs))
        self.received = tuple(sorted(received, key=lambda at: at.key))
        self._last_seqs = last_seqs or {}
        self.start_us = start_us
        self.started_ms = started_ms
        self.states = sorted(states, key=lambda state: state.key)
        self._by_type = {kind: sorted(records.get(kind, ()), key=lambda at: at.key) for kind in KEPT_TYPES}

    def last_seq(self, incarnation: Incarnation) -> int:
        """Return the last sequence number of an incarnation that was read; it must have a record."""
        return self._last_seqs.get(incarnation) or self.signs.count_of(incarnation)

    def of(self, kind: type[P]) -> list[At[P]]:
        """Return all records of one of `KEPT_TYPES`, in order."""
        return self._by_type[kind]


# ------------------------------------------------------------------ records of one kind


def firsts(pairs: Iterable[tuple[K, V]]) -> dict[K, V]:
    """Return the first value of each key."""
    found: dict[K, V] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


def first_by_cause(records: Iterable[At[P]]) -> dict[tuple[Incarnation, int], At[P]]:
    """Return the first record that each record caused, by the incarnation and the sequence number of the cause."""
    return firsts(((at.incarnation, at.cause), at) for at in records if at.cause is not None)


# ------------------------------------------------------------------ times and names


def millis(us: int) -> float:
    return us / 1000


def optional_millis(us: int | None) -> float | None:
    return None if us is None else us / 1000


def broker_node(broker: int) -> str:
    """Return the node name of a broker."""
    return f"broker-{broker}"
