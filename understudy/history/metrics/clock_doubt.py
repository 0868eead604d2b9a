"""Finds the columns that the uncertainty of clocks could change by more than it says: the order of two records decides
what ended a reign, who noticed it and when a broker was down.

The reigns and the down times are computed again with each clock set forward and back by its uncertainty. If a result
is another one, and not only a little earlier or later, its columns are in doubt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import msgspec

from understudy.foundation.eventlog import records as types
from understudy.history.metrics.doubt import marked
from understudy.history.metrics.instants import Instant, instant
from understudy.history.metrics.leadership_history import DownTime, down_times
from understudy.history.metrics.metric_tables import Failover, PartitionNumbers, RunMetrics
from understudy.history.metrics.reigns import (
    CONTROLLER,
    NOT_A_FAULT,
    Fault,
    ReignTimes,
    end_of_run,
    faults_of,
    find_reigns,
)
from understudy.history.reading.clocks import Incarnation
from understudy.history.reading.run_records import At, Key, RunRecords, ShiftedSigns, broker_node, millis

_WIDE_US: Final = 20_000
"""Uncertainty above which a clock is also set by a part of it: several records may lie within."""


_KINDS: Final = (
    types.BecameCandidate,
    types.BrokerRegistered,
    types.BrokersChanged,
    types.ControllerElected,
    types.ControllerReady,
    types.ControllerResigned,
    types.ElectionLost,
    types.FaultInjected,
    types.PointReached,
    types.ProcessExiting,
    types.RunDescribed,
    types.SessionExpiredRecord,
    types.SessionOpened,
)
"""The types of records that decide about reigns and down times, besides watches of `/controller`."""
_LOSS: Final = frozenset({"ended_at_ms", "ended_by", "by_fault", "noticed_at_ms", "noticed_by"})
_COLUMNS_OF_FAILOVER: Final = {
    "ended_at_ms": ("lost_at_ms", "detection_ms", "outage_ms"),
    "ended_by": ("cause",),
    "by_fault": ("by_fault",),
    "noticed_at_ms": ("detection_ms", "election_ms"),
    "noticed_by": ("noticed_by",),
}
"""The columns of a failover that follow from each column of the reign before it."""


class _Variant(NamedTuple):
    """The reigns, down times and end of a run with its clocks a little different."""

    reigns: list[ReignTimes]
    down: dict[str, list[DownTime]]
    end_us: int
    shift: _Shift

    def apart_us(self, nominal: Instant, own: Instant) -> int:
        """Return by how much an instant differs from the nominal one for another reason than its clock."""
        if own.on != nominal.on:
            return abs(own.us - nominal.us)
        return abs(own.us - nominal.us - self.shift.of(nominal.on, nominal.us))


def mark_clocks(run: RunRecords, metrics: RunMetrics) -> RunMetrics:
    """Return the tables of a run on several clocks with the columns in doubt, and with the uncertainty of its times."""
    shifts = _Shifts(run)
    nominal = _variant(run, shifts.none)
    placed = _placed(run, shifts)
    variants = [_variant(_shifted(run, placed, shift), shift) for shift in shifts.all()]
    faults = [fault for fault in faults_of(run) if fault.fault != NOT_A_FAULT]
    doubts = [
        {column for variant in variants for column in _other_columns(shifts, reign, variant.reigns[place])}
        | (_LOSS if _may_have_another_fault(shifts, faults, reign, following) else set())
        for place, (reign, following) in enumerate(zip_longest(nominal.reigns, nominal.reigns[1:]))
    ]
    down = _DownDoubt.of(shifts, nominal, variants)
    has_other_end = any(abs(variant.end_us - nominal.end_us) > run.clocks.most_us for variant in variants)
    in_totals: set[str] = set()
    if down.unsure or has_other_end:
        in_totals |= {"leaderless_ms", "leaderless_partitions"}
    if any(0 < row.leaderless_within_ms >= row.leaderless_ms for row in metrics.partitions):
        in_totals.add("leaderless_partitions")
    if has_other_end:
        in_totals.add("ended_at_ms")
    if has_other_end or any("ended_at_ms" in doubt for doubt in doubts):
        in_totals.add("without_controller_ms")
    led = _led_by(run, down.unsure | down.apart_us.keys())
    return msgspec.structs.replace(
        metrics,
        totals=marked(metrics.totals, in_totals),
        reigns=tuple(marked(row, doubt) for row, doubt in zip(metrics.reigns, doubts, strict=True)),
        failovers=tuple(
            _failover(row, doubts[place], place, nominal, variants) for place, row in enumerate(metrics.failovers)
        ),
        partitions=tuple(
            down.marked(row, led.get((row.topic, row.partition), set()), has_other_end=has_other_end)
            for row in metrics.partitions
        ),
    )


class _Shifts:
    """The uncertainty of each clock of a run.

    Attributes:
        clocks: the numbers of the clocks that an incarnation reads.
    """

    def __init__(self, run: RunRecords) -> None:
        self._clocks = run.clocks
        self._start_us = run.start_us
        self.clocks = sorted(set(map(run.clocks.number, run.signs.incarnations)))
        self._within: dict[tuple[Incarnation, int], int] = {}

    @property
    def none(self) -> _Shift:
        return self._shift(set(), 0.0)

    def number(self, incarnation: Incarnation) -> int:
        """Return the number of an incarnation's clock."""
        return self._clocks.number(incarnation)

    def within_us(self, incarnation: Incarnation, us: int) -> int:
        """Return by how much the clock of an incarnation may differ from the reference clock."""
        found = self._within.get((incarnation, us))
        if found is None:
            found = self._within[incarnation, us] = self._clocks.of_reference_us(incarnation, self._start_us + us)
        return found

    def apart_us(self, one: Instant, other: Instant) -> int:
        """Return by how much the time between two instants may be wrong."""
        return self.within_us(one.on, one.us) + self.within_us(other.on, other.us)

    def all(self) -> Iterator[_Shift]:
        """Yield shifts that set each clock forward and each other one back, by all of their uncertainty.

        Each two clocks differ in a bit of their places, so a pair of shifts for each bit is enough. A clock that is
        very uncertain is also set forward and back by the half.
        """
        for bit in range((len(self.clocks) - 1).bit_length()):
            forward = {number for place, number in enumerate(self.clocks) if place >> bit & 1}
            yield from (self._shift(forward, 1.0), self._shift(forward, -1.0))
        for number in self.clocks:
            if max(point.within_us for point in self._clocks.clocks[number].points) > _WIDE_US:
                yield from (self._shift({number}, 0.5), self._shift({number}, -0.5))

    def _shift(self, forward: set[int], share: float) -> _Shift:
        return _Shift(self, frozenset(forward), share)


class _Shift(NamedTuple):
    """Sets some clocks forward, and all others back, by a share of their uncertainty; a negative one the other way."""

    shifts: _Shifts
    forward: frozenset[int]
    share: float

    def of(self, incarnation: Incarnation, us: int) -> int:
        """Return the microseconds that are added to a time of an incarnation."""
        by = round(self.share * self.shifts.within_us(incarnation, us))
        return by if self.shifts.number(incarnation) in self.forward else -by

    def moved(self, found: Sequence[_Placed]) -> list[At[Any]]:
        """Return records at other times."""
        forward, share, new = self.forward, self.share, tuple.__new__
        moved = []
        for at, number, within_us in found:
            us, node, incarnation, seq = at.key
            by = round(share * within_us)
            key = new(Key, (us + by if number in forward else us - by, node, incarnation, seq))
            moved.append(At(key, at.data, at.cause, at.controller_epoch))
        return moved


class _Placed(NamedTuple):
    """A record, the number of the clock of its time, and by how much this may be wrong."""

    at: At[Any]
    number: int
    within_us: int


def _placed(run: RunRecords, shifts: _Shifts) -> dict[type, list[_Placed]]:
    """Return the records that `_variant` reads, by type."""
    read: dict[type, list[At[Any]]] = {kind: run.of(kind) for kind in _KINDS}
    read[types.WatchFiredRecord] = [at for at in run.of(types.WatchFiredRecord) if at.data.path == CONTROLLER]
    return {
        kind: [_Placed(at, shifts.number(at.incarnation), shifts.within_us(at.incarnation, at.us)) for at in found]
        for kind, found in read.items()
    }


def _variant(run: RunRecords, shift: _Shift) -> _Variant:
    reigns = find_reigns(run)
    return _Variant(reigns, down_times(run), end_of_run(run, reigns).us, shift)


def _shifted(run: RunRecords, placed: Mapping[type, Sequence[_Placed]], shift: _Shift) -> RunRecords:
    """Return the records that `_variant` reads at other times."""
    records = {kind: shift.moved(found) for kind, found in placed.items()}
    return RunRecords(ShiftedSigns(run.signs, shift.of), records, (), run.started_ms)


# ------------------------------------------------------------------ reigns and failovers


def _may_have_another_fault(
    shifts: _Shifts, faults: Sequence[Fault], reign: ReignTimes, following: ReignTimes | None
) -> bool:
    """Return whether the clocks leave open if a fault that could end a reign was injected in its window."""
    for fault in faults:
        if fault.target in reign.targets:
            at = instant(fault.key)
            for edge in (reign, following):
                if edge is not None and abs(at.us - edge.elected.us) <= shifts.apart_us(at, instant(edge.elected.key)):
                    return True
    return False


def _other_columns(shifts: _Shifts, nominal: ReignTimes, variant: ReignTimes) -> Iterator[str]:
    """Yield the columns of a reign that are other ones in a variant."""
    one, other = nominal.loss, variant.loss
    if (one.ended_by, one.by_fault) != (other.ended_by, other.by_fault):
        yield from _LOSS
        return
    if not _is_same(shifts, one.ended, other.ended):
        yield "ended_at_ms"
    if (one.noticed is None) != (other.noticed is None):
        yield from ("noticed_at_ms", "noticed_by")
    elif one.noticed is not None and other.noticed is not None:
        if not _is_same(shifts, instant(one.noticed), instant(other.noticed)):
            yield from ("noticed_at_ms", "noticed_by")
        elif one.noticed.node != other.noticed.node:
            yield "noticed_by"


def _is_same(shifts: _Shifts, one: Instant | None, other: Instant | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one.us - other.us) <= shifts.apart_us(one, other) + 1


def _failover(row: Failover, doubt: set[str], place: int, nominal: _Variant, variants: Sequence[_Variant]) -> Failover:
    """Return a failover with its columns in doubt. Times that are only a little different are less certain instead."""
    row = marked(row, {column for cause in doubt for column in _COLUMNS_OF_FAILOVER[cause]})
    loss, losses = nominal.reigns[place].loss, [(variant, variant.reigns[place].loss) for variant in variants]
    if "ended_at_ms" not in doubt and loss.ended is not None:
        apart = [variant.apart_us(loss.ended, other.ended) for variant, other in losses if other.ended is not None]
        row = _less_certain(row, max(apart, default=0), "detection", "outage")
    if "noticed_at_ms" not in doubt and loss.noticed is not None:
        noticed = instant(loss.noticed)
        apart = [
            variant.apart_us(noticed, instant(other.noticed)) for variant, other in losses if other.noticed is not None
        ]
        row = _less_certain(row, max(apart, default=0), "detection", "election")
    return row


def _less_certain(row: Failover, by_us: int, *phases: str) -> Failover:
    """Return a failover with the uncertainty of some of its times increased."""
    within = {f"{phase}_within_ms": getattr(row, f"{phase}_within_ms") for phase in phases} if by_us else {}
    known = {name: value + millis(by_us) for name, value in within.items() if value is not None}
    return msgspec.structs.replace(row, **known) if known else row


# ------------------------------------------------------------------ down times


class _DownDoubt(NamedTuple):
    """What the clocks leave open about the times during which brokers were down.

    Attributes:
        unsure: the nodes that were down at other times in a variant.
        apart_us: by how much the times of each other node differ in a variant because another record decides them.
    """

    unsure: frozenset[str]
    apart_us: dict[str, int]

    @classmethod
    def of(cls, shifts: _Shifts, nominal: _Variant, variants: Sequence[_Variant]) -> _DownDoubt:
        unsure: set[str] = set()
        apart_us: dict[str, int] = {}
        for variant in variants:
            for node in nominal.down.keys() | variant.down.keys():
                one, other = nominal.down.get(node, ()), variant.down.get(node, ())
                edges = [
                    edge
                    for before, after in zip(one, other, strict=False)
                    for edge in ((before.fell, after.fell), (before.up, after.up))
                ]
                if len(one) != len(other) or not all(_is_same(shifts, before, after) for before, after in edges):
                    unsure.add(node)
                elif by := sum(variant.apart_us(before, after) for before, after in edges):
                    apart_us[node] = max(by, apart_us.get(node, 0))
        return cls(frozenset(unsure), apart_us)

    def marked(self, row: PartitionNumbers, leaders: set[str], *, has_other_end: bool) -> PartitionNumbers:
        """Return a partition's row with its time without a leader in doubt, or less certain."""
        row = marked(row, {"leaderless_ms"} if has_other_end or not self.unsure.isdisjoint(leaders) else ())
        by = sum(self.apart_us.get(node, 0) for node in leaders)
        return msgspec.structs.replace(row, leaderless_within_ms=row.leaderless_within_ms + millis(by)) if by else row


def _led_by(run: RunRecords, nodes: Collection[str]) -> dict[tuple[str, int], set[str]]:
    """Return which of some brokers led each partition at some time."""
    found: dict[tuple[str, int], set[str]] = {}
    for state in run.states if nodes else ():
        data = state.read()
        if not isinstance(data, types.TopicsChanged):
            for one in data.partitions:
                if (node := broker_node(one.leader)) in nodes:
                    found.setdefault((one.topic, one.partition), set()).add(node)
    return found
