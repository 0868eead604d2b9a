"""Finds the columns that the uncertainty of clocks could change by more than it says: the order of two records decides
what ended a reign, who noticed it and when a broker was down.

The reigns and the down times are computed again with each clock set forward and back by its uncertainty. If a result
is another one, and not only a little earlier or later, its columns are in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from understudy.foundation.eventlog import records as types
from understudy.history.metrics.doubt import marked
from understudy.history.metrics.instants import Instant, instant
from understudy.history.metrics.leadership_history import DownTime, down_times
from understudy.history.metrics.metric_tables import Failover, RunMetrics
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
from understudy.history.reading.run_records import At, RunRecords, ShiftedSigns, broker_node, millis

_WIDE_US: Final = 20_000
"""Uncertainty above which a clock is also set by a part of it: several records may lie within."""

_Shift: TypeAlias = Callable[[Incarnation, int], int]
"""Returns the microseconds that are added to a time of an incarnation."""

_KINDS: Final = (
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


def mark_clocks(run: RunRecords, metrics: RunMetrics) -> RunMetrics:
    """Return the tables of a run on several clocks with the columns in doubt, and with the uncertainty of its times."""
    shifts = _Shifts(run)
    nominal = _variant(run)
    variants = [
        _variant(_shifted(run, shifts.of(number, share))) for number in shifts.clocks for share in shifts.shares(number)
    ]
    faults = [fault for fault in faults_of(run) if fault.fault != NOT_A_FAULT]
    doubts = [
        {column for variant in variants for column in _other_columns(shifts, reign, variant.reigns[place])}
        | (_LOSS if _may_have_another_fault(shifts, faults, reign, following) else set())
        for place, (reign, following) in enumerate(zip_longest(nominal.reigns, nominal.reigns[1:]))
    ]
    unsure = {node for variant in variants for node in _other_down_times(shifts, nominal.down, variant.down)}
    has_other_end = any(abs(variant.end_us - nominal.end_us) > run.clocks.most_us for variant in variants)
    in_totals: set[str] = set()
    if unsure or has_other_end:
        in_totals |= {"leaderless_ms", "leaderless_partitions"}
    if any(0 < row.leaderless_within_ms >= row.leaderless_ms for row in metrics.partitions):
        in_totals.add("leaderless_partitions")
    if has_other_end:
        in_totals.add("ended_at_ms")
    if has_other_end or any("ended_at_ms" in doubt for doubt in doubts):
        in_totals.add("without_controller_ms")
    led = _led_by(run, unsure)
    return msgspec.structs.replace(
        metrics,
        totals=marked(metrics.totals, in_totals),
        reigns=tuple(marked(row, doubt) for row, doubt in zip(metrics.reigns, doubts, strict=True)),
        failovers=tuple(
            _failover(row, doubts[place], nominal.reigns[place], [variant.reigns[place] for variant in variants])
            for place, row in enumerate(metrics.failovers)
        ),
        partitions=tuple(
            marked(row, {"leaderless_ms"} if has_other_end or (row.topic, row.partition) in led else ())
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

    def within_us(self, incarnation: Incarnation, us: int) -> int:
        """Return by how much the clock of an incarnation may differ from the reference clock."""
        clock = self._clocks.of(incarnation)
        return clock.within_us(clock.clock_us(self._start_us + us))

    def apart_us(self, one: Instant, other: Instant) -> int:
        """Return by how much the time between two instants may be wrong."""
        return self.within_us(one.on, one.us) + self.within_us(other.on, other.us)

    def shares(self, number: int) -> tuple[float, ...]:
        """Return the shares of its uncertainty by which a clock is set forward and back."""
        widest_us = max(point.within_us for point in self._clocks.clocks[number].points)
        return (-1.0, 1.0) if widest_us <= _WIDE_US else (-1.0, -0.6, -0.3, 0.3, 0.6, 1.0)

    def of(self, number: int, share: float) -> _Shift:
        """Return the shift of one clock by a share of its uncertainty, and of all others against it."""

        def shift(incarnation: Incarnation, us: int) -> int:
            sign = 1.0 if self._clocks.number(incarnation) == number else -1.0
            return round(sign * share * self.within_us(incarnation, us))

        return shift


def _variant(run: RunRecords) -> _Variant:
    reigns = find_reigns(run)
    return _Variant(reigns, down_times(run), end_of_run(run, reigns).us)


def _shifted(run: RunRecords, shift: _Shift) -> RunRecords:
    """Return the records that `_variant` reads at other times."""
    records: dict[type, list[At[Any]]] = {kind: [_moved(at, shift) for at in run.of(kind)] for kind in _KINDS}
    watches = (at for at in run.of(types.WatchFiredRecord) if at.data.path == CONTROLLER)
    records[types.WatchFiredRecord] = [_moved(at, shift) for at in watches]
    return RunRecords(ShiftedSigns(run.signs, shift), records, (), run.started_ms)


def _moved(at: At[Any], shift: _Shift) -> At[Any]:
    return msgspec.structs.replace(at, key=at.key._replace(us=at.us + shift(at.incarnation, at.us)))


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
    elif one.noticed is not None and other.noticed is not None and one.noticed.node != other.noticed.node:
        yield "noticed_by"


def _is_same(shifts: _Shifts, one: Instant | None, other: Instant | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one.us - other.us) <= shifts.apart_us(one, other) + 1


def _failover(row: Failover, doubt: set[str], before: ReignTimes, variants: Sequence[ReignTimes]) -> Failover:
    """Return a failover with its columns in doubt. Times that are only a little different are less certain instead."""
    in_doubt = {column for cause in doubt for column in _COLUMNS_OF_FAILOVER[cause]}
    noticed = [each.loss.noticed for each in (before, *variants)]
    if "noticed_at_ms" in doubt or row.detection_ms is None or None in noticed:
        return marked(row, in_doubt)
    times = [key.us for key in noticed if key is not None]
    apart_ms = millis(max(abs(us - times[0]) for us in times))
    return msgspec.structs.replace(
        marked(row, in_doubt),
        detection_within_ms=max(row.detection_within_ms or 0.0, apart_ms),
        election_within_ms=max(row.election_within_ms or 0.0, apart_ms),
    )


# ------------------------------------------------------------------ down times


def _other_down_times(
    shifts: _Shifts, nominal: Mapping[str, Sequence[DownTime]], variant: Mapping[str, Sequence[DownTime]]
) -> Iterator[str]:
    """Yield the nodes that were down at other times in a variant."""
    for node in nominal.keys() | variant.keys():
        one, other = nominal.get(node, ()), variant.get(node, ())
        if len(one) != len(other) or not all(
            _is_same(shifts, before.fell, after.fell) and _is_same(shifts, before.up, after.up)
            for before, after in zip(one, other, strict=True)
        ):
            yield node


def _led_by(run: RunRecords, nodes: set[str]) -> set[tuple[str, int]]:
    """Return the partitions that one of some brokers led at some time."""
    found: set[tuple[str, int]] = set()
    for state in run.states if nodes else ():
        data = state.read()
        if not isinstance(data, types.TopicsChanged):
            found.update((one.topic, one.partition) for one in data.partitions if broker_node(one.leader) in nodes)
    return found
