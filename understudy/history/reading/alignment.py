"""Aligns the clocks of a run by what `ClockEvidence` has gathered.

Clocks are told apart by the boot that `ProcessStarted` names. Incarnations without one share a clock if nothing
contradicts it. The offset of a clock lies in its bounds, and changes as little as they allow. They are narrowed in turn
by messages, ZooKeeper's transactions and the starts and ends of incarnations; a clock that they do not bound from both
sides is set by the wall clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median_high, median_low
from typing import Final, NamedTuple

from understudy.foundation.times import duration
from understudy.history.reading.clock_bounds import DRIFT, ROUNDING_US, Bound, Contradiction, TimeBand, TimeBounds
from understudy.history.reading.clock_evidence import (
    WALL_CLOCK_WITHIN_US,
    ClockEvidence,
    IncarnationEvidence,
    Stretches,
)
from understudy.history.reading.clock_offsets import offset_points
from understudy.history.reading.clocks import (
    MESSAGES,
    REFERENCE,
    STARTS,
    WALL_CLOCK,
    ZXIDS,
    ClockPoint,
    Incarnation,
    MachineClock,
    PairBounds,
    RunClocks,
)
from understudy.history.reading.findings import CLOCKS_CONTRADICT, WALL_CLOCK_DIFFERS, LogFinding
from understudy.history.reading.imported_clocks import imported_clocks

_SAME_UPTIME_US: Final = 60_000_000
"""Clocks without a boot's name that are no further apart than this are taken as one if nothing contradicts it."""
_MOST_CONTRADICTIONS: Final = 8
"""Number of contradictions after which all bounds between the clocks of a further one are left out."""


class Alignment(NamedTuple):
    """The clocks of a run, and their flaws; findings have the file of an incarnation's first record."""

    clocks: RunClocks
    findings: tuple[LogFinding, ...]
    bounds: PairBounds | None = None
    """The bounds of each two clocks; None if there is one, or if they were aligned before."""


class _Group(NamedTuple):
    """The incarnations that share a clock."""

    boot: str
    members: list[IncarnationEvidence]


class _Order(NamedTuple):
    """A record that was written before another one; both by their own clocks."""

    earlier: tuple[int, int]
    """The clock and its time; the clock −1 and a zxid for a transaction."""
    later: tuple[int, int]
    stage: str
    """What it is evidence of: `MESSAGES`, `ZXIDS` or `STARTS`."""


def align(evidence: ClockEvidence) -> Alignment:
    """Align the clocks of a run; clocks that `understudy import-kafka` has aligned are as it says."""
    if evidence.aligned is not None:
        return Alignment(imported_clocks(evidence.aligned, evidence.incarnations), ())
    for name in [name for name, own in evidence.incarnations.items() if not own.records]:
        del evidence.incarnations[name]
    groups = _clocks_of(evidence)
    clock_of = {member.name: number for number, group in enumerate(groups) for member in group.members}
    if len(groups) <= 1:
        return Alignment(RunClocks([_reference(group) for group in groups], clock_of), ())
    solved = _Solver(evidence, groups, clock_of).solve()
    clocks = tuple(solved.clock(number) for number in range(len(groups)))
    earliest = min(clocks[clock_of[name]].time_us(own.first_us) for name, own in evidence.incarnations.items())
    if earliest < 0:  # the reference's machine was started during the run
        clocks = tuple(clock.moved(-earliest) for clock in clocks)
    findings = [*solved.findings, *_wall_clocks(evidence, clocks, clock_of)]
    return Alignment(RunClocks(clocks, clock_of), tuple(sorted(findings)), solved)


def _reference(group: _Group) -> MachineClock:
    first = min(member.first_us for member in group.members)
    return MachineClock(_machine(group), group.boot, (ClockPoint(first, 0, 0),), REFERENCE)


def _machine(group: _Group) -> str:
    return next((member.machine for member in group.members if member.machine), "")


# ------------------------------------------------------------------ which clocks there are


def _clocks_of(evidence: ClockEvidence) -> list[_Group]:
    """Return the incarnations by clock, the reference first: the clock with the most messages, then records."""
    names = sorted(evidence.incarnations)
    by_boot: dict[str, _Group] = {}
    for name in names:
        own = evidence.incarnations[name]
        if own.boot:
            by_boot.setdefault(own.boot, _Group(own.boot, [])).members.append(own)
    groups = list(by_boot.values())
    without = [evidence.incarnations[name] for name in names if not evidence.incarnations[name].boot]
    if without:
        gaps = _smallest_gaps(evidence)
        for own in without:
            fitting = [group for group in groups if _may_share(own, group, gaps)]
            # A wall clock that agrees is better evidence than a similar uptime.
            fitting.sort(key=lambda group: not _walls_agree(own, group))
            if fitting:
                fitting[0].members.append(own)
            else:
                groups.append(_Group("", [own]))
    messages: dict[Incarnation, int] = defaultdict(int)
    for pair, stretches in evidence.messages.items():
        for name in pair:
            messages[name] += len(stretches)

    def rank(group: _Group) -> tuple[int, int, Incarnation]:
        members = group.members
        return (
            -sum(messages[own.name] for own in members),
            -sum(own.records for own in members),
            min(own.name for own in members),
        )

    groups.sort(key=rank)
    return [
        _Group(group.boot or f"clock {number}", sorted(group.members, key=lambda own: own.name))
        for number, group in enumerate(groups, 1)
    ]


def _may_share(own: IncarnationEvidence, group: _Group, gaps: Mapping[tuple[Incarnation, Incarnation], int]) -> bool:
    """Return whether nothing contradicts that an incarnation reads the clock of a group."""
    if group.boot and own.machine and own.machine != _machine(group):
        return False
    for member in group.members:
        if gaps.get((own.name, member.name), 0) < 0 or gaps.get((member.name, own.name), 0) < 0:
            return False
    first = min(member.first_us for member in group.members) - _SAME_UPTIME_US
    last = max(member.last_us for member in group.members) + _SAME_UPTIME_US
    return (own.first_us <= last and own.last_us >= first) or _walls_agree(own, group)


def _walls_agree(own: IncarnationEvidence, group: _Group) -> bool:
    return any(
        abs(own.wall_minus_clock_us - member.wall_minus_clock_us) <= WALL_CLOCK_WITHIN_US for member in group.members
    )


def _smallest_gaps(evidence: ClockEvidence) -> dict[tuple[Incarnation, Incarnation], int]:
    """Return the smallest distance of a record to a record of another incarnation that was written after it."""
    gaps: dict[tuple[Incarnation, Incarnation], int] = {}

    def add(earlier: Incarnation, later: Incarnation, us: int) -> None:
        gaps[earlier, later] = min(us, gaps.get((earlier, later), us))

    for (sender, receiver), stretches in evidence.messages.items():
        add(sender, receiver, min(order.gap_us for order in stretches))
    for earlier, later in _successions(evidence):
        add(earlier.name, later.name, later.first_us - earlier.last_us)
    for writer in evidence.incarnations.values():
        for us, zxid in writer.transactions:
            for other in evidence.incarnations.values():
                if other is not writer and (seen_us := _first_with(other, zxid)) is not None:
                    add(writer.name, other.name, seen_us - us)
    return gaps


def _first_with(own: IncarnationEvidence, zxid: int) -> int | None:
    """Return when an incarnation had first seen a zxid or a later one."""
    place = bisect_left(own.zxids, zxid, key=lambda seen: seen[1])
    return own.zxids[place][0] if place < len(own.zxids) else None


def _successions(evidence: ClockEvidence) -> Iterator[tuple[IncarnationEvidence, IncarnationEvidence]]:
    for name, following in pairwise(sorted(evidence.incarnations)):
        if name[0] == following[0]:
            yield evidence.incarnations[name], evidence.incarnations[following]


# ------------------------------------------------------------------ the offsets


class _Solver:
    """Narrows the bounds of all clocks, and has the bounds of each two of them.

    Attributes:
        findings: clocks whose bounds contradict each other.
    """

    def __init__(self, evidence: ClockEvidence, groups: Sequence[_Group], clock_of: Mapping[Incarnation, int]) -> None:
        self._evidence = evidence
        self._groups = groups
        self._clock_of = clock_of
        self._orders = list(self._all_orders())
        times: list[set[int]] = [set() for _ in groups]
        transactions: set[int] = set()
        for number, group in enumerate(groups):
            for own in group.members:
                times[number].update((own.first_us, own.last_us))
                times[number].update(us for us, _ in own.walls)
        for order in self._orders:
            for clock, at in (order.earlier, order.later):
                (times[clock] if clock >= 0 else transactions).add(at)
        self._times = [sorted(found) for found in times]
        vertices = sum(map(len, self._times))
        self._transactions = {zxid: vertex for vertex, zxid in enumerate(sorted(transactions), vertices)}
        self._bounded = TimeBounds(self._times, len(self._transactions))
        self._bounds_of = [
            Bound(self._vertex(order.earlier), self._vertex(order.later), ROUNDING_US) for order in self._orders
        ]
        self._bounds: list[Bound] = []
        self._evidence_of: dict[int, str] = {0: REFERENCE}
        self._other: tuple[int, TimeBounds] | None = None
        """A reference that is not the first, and the bounds of all clocks in its time."""
        self.findings: list[LogFinding] = []

    def solve(self) -> _Solver:
        contradictions = 0
        contradicting: set[tuple[int, int]] = set()
        while True:
            try:
                self._solve_all()
                break
            except Contradiction as error:
                contradictions += 1
                wrong = [self._orders[place] for place in error.bounds if place < len(self._orders)]
                pairs = {(min(one), max(one)) for one in (self._clocks_of(order) for order in wrong)}
                contradicting |= pairs
                if contradictions > _MOST_CONTRADICTIONS:
                    wrong = [order for order in self._orders if tuple(sorted(self._clocks_of(order))) in pairs]
                if not wrong:
                    raise
                left_out = set(wrong)
                kept = [place for place, order in enumerate(self._orders) if order not in left_out]
                self._orders = [self._orders[place] for place in kept]
                self._bounds_of = [self._bounds_of[place] for place in kept]
        for one, other in sorted(contradicting):
            self._note(one, other)
        return self

    def clock(self, number: int) -> MachineClock:
        """Return a clock with an offset in its bounds."""
        group = self._groups[number]
        if number == 0:
            return _reference(group)
        points = offset_points(self._bounded.bands(number))
        return MachineClock(_machine(group), group.boot, points, self._evidence_of[number])

    def band(self, reference: int, clock: int) -> list[TimeBand]:
        """Return the band of a clock in the time of another; a reference that is not the first takes some time."""
        if reference == 0:
            return self._bounded.bands(clock)
        if self._other is None or self._other[0] != reference:
            times = TimeBounds(self._times, len(self._transactions), reference)
            times.narrow(self._bounds)
            self._other = (reference, times)
        return self._other[1].bands(clock)

    # -- bounds

    def _solve_all(self) -> None:
        times = TimeBounds(self._times, len(self._transactions))
        self._bounded = times
        self._bounds = list(self._bounds_of)
        self._evidence_of = {0: REFERENCE} | dict.fromkeys(self._bounded_by_messages(), MESSAGES)
        if len(self._evidence_of) < len(self._groups):
            times.narrow(self._bounds[: sum(order.stage != STARTS for order in self._orders)])
            self._name_evidence(times, ZXIDS)
        times.narrow(self._bounds)
        self._name_evidence(times, STARTS)
        if len(self._evidence_of) < len(self._groups):
            self._add_wall_clocks(times)

    def _name_evidence(self, times: TimeBounds, evidence: str) -> None:
        for number in range(len(self._groups)):
            if times.is_bounded(number):
                self._evidence_of.setdefault(number, evidence)

    def _bounded_by_messages(self) -> set[int]:
        """Return the clocks that messages connect with the reference in both directions, by themselves or by others."""
        pairs = {self._clocks_of(order) for order in self._orders if order.stage == MESSAGES}
        return _reached(pairs) & _reached((later, earlier) for earlier, later in pairs) - {0}

    def _all_orders(self) -> Iterator[_Order]:
        evidence, clock_of = self._evidence, self._clock_of
        by_clocks: dict[tuple[int, int], Stretches] = {}
        for (sender, receiver), stretches in evidence.messages.items():
            pair = clock_of[sender], clock_of[receiver]
            if pair[0] != pair[1]:
                joined = by_clocks.setdefault(pair, Stretches())
                for order in stretches:
                    joined.add_order(order)
        for (one, other), stretches in sorted(by_clocks.items(), key=lambda item: item[0]):
            for order in stretches:
                yield _Order((one, order.earlier_us), (other, order.later_us), MESSAGES)
        yield from self._transaction_orders()
        for earlier, later in self._starts():
            if earlier[0] != later[0]:
                yield _Order(earlier, later, STARTS)

    def _transaction_orders(self) -> Iterator[_Order]:
        """Return the orders of records and transactions: a transaction is committed after its request, and before a
        record that has its zxid or a later one.
        """
        written = sorted({zxid for own in self._evidence.incarnations.values() for _, zxid in own.transactions})
        for earlier, later in pairwise(written):
            yield _Order((-1, earlier), (-1, later), ZXIDS)
        for name, own in sorted(self._evidence.incarnations.items()):
            clock = self._clock_of[name]
            for us, zxid in own.transactions:
                yield _Order((clock, us), (-1, zxid), ZXIDS)
            last = 0
            for us, zxid in own.zxids:
                place = bisect_right(written, zxid)
                if place > last:
                    last = place
                    yield _Order((-1, written[place - 1]), (clock, us), ZXIDS)

    def _starts(self) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        incarnations, clock_of = self._evidence.incarnations, self._clock_of
        for earlier, later in _successions(self._evidence):
            yield (clock_of[earlier.name], earlier.last_us), (clock_of[later.name], later.first_us)
        for name, own in sorted(incarnations.items()):
            for seen, us in own.seen:
                if seen in incarnations:
                    yield (clock_of[seen], incarnations[seen].last_us), (clock_of[name], us)
            if own.described_us is not None:
                for other_name, other in sorted(incarnations.items()):
                    if other.has_testbed:
                        yield (clock_of[name], own.described_us), (clock_of[other_name], other.first_us)

    def _vertex(self, at: tuple[int, int]) -> int:
        clock, us = at
        if clock >= 0:
            return self._bounded.vertex(clock, us)
        return self._transactions[us]

    def _add_wall_clocks(self, times: TimeBounds) -> None:
        """Bound the clocks by their wall clock that nothing else bounds from both sides, one after the other."""
        walls = {}
        for number in self._evidence_of:
            us, wall_us = self._first(number).walls[0]
            walls[number] = wall_us - sum(times.range_of(self._vertex((number, us)))) // 2
        usual_us = _usual(walls)
        for number in range(len(self._groups)):
            if times.is_bounded(number):
                self._evidence_of.setdefault(number, WALL_CLOCK)
                continue
            self._evidence_of[number] = WALL_CLOCK
            us, wall_us = self._first(number).walls[0]
            vertex = self._vertex((number, us))
            low, high = times.range_of(vertex)
            expected = wall_us - usual_us
            middle = min(max(expected, low), high)
            within = max(WALL_CLOCK_WITHIN_US, abs(expected - middle))
            self._bounds += self._bound_both(vertex, middle - within, middle + within)
            times.narrow(self._bounds)
            without = list(self._bounds)
            try:
                self._bounds += self._later_walls(times, number, usual_us)
                times.narrow(self._bounds)
            except Contradiction:
                times = self._bounded = TimeBounds(self._times, len(self._transactions))
                self._bounds = without
                times.narrow(without)

    def _later_walls(self, times: TimeBounds, number: int, usual_us: int) -> list[Bound]:
        """Return the bounds by the wall clocks of a clock, which keep them close to the truth in a long run. Those that
        contradict the earlier ones are left out: the wall clock was stepped.
        """
        bounds: list[Bound] = []
        walls = sorted(wall for own in self._groups[number].members for wall in own.walls)
        last_us, lowest, highest = walls[0][0], *times.range_of(self._vertex((number, walls[0][0])))
        for us, wall_us in walls:
            vertex, width = self._vertex((number, us)), us - last_us
            drift = width // DRIFT + ROUNDING_US
            low, high = times.range_of(vertex)
            low, high = max(low, lowest + width - drift), min(high, highest + width + drift)
            expected = wall_us - usual_us
            earliest, latest = expected - WALL_CLOCK_WITHIN_US, expected + WALL_CLOCK_WITHIN_US
            if earliest < high - ROUNDING_US and latest > low + ROUNDING_US:
                bounds += self._bound_both(vertex, earliest, latest)
                last_us, lowest, highest = us, max(low, earliest), min(high, latest)
        return bounds

    def _bound_both(self, vertex: int, low: int, high: int) -> list[Bound]:
        """Return the bounds of a vertex to a time of the reference clock."""
        anchors = self._times[0]
        us = anchors[min(bisect_left(anchors, (low + high) // 2), len(anchors) - 1)]
        anchor = self._vertex((0, us))
        return [Bound(vertex, anchor, high - us), Bound(anchor, vertex, us - low)]

    def _first(self, number: int) -> IncarnationEvidence:
        return min(self._groups[number].members, key=lambda own: (own.first_us, own.name))

    # -- findings

    def _clocks_of(self, order: _Order) -> tuple[int, int]:
        return order.earlier[0], order.later[0]

    def _note(self, one: int, other: int) -> None:
        second = self._first(other)
        what = f"{'ZooKeeper' if one < 0 else _named(self._first(one))} and {_named(second)}"
        self.findings.append(LogFinding(second.file, 0, CLOCKS_CONTRADICT, what))


def _reached(pairs: Iterable[tuple[int, int]]) -> set[int]:
    """Return the clocks to which a path leads from the reference."""
    following: dict[int, list[int]] = defaultdict(list)
    for one, other in pairs:
        following[one].append(other)
    reached, waiting = {0}, [0]
    while waiting:
        for other in following[waiting.pop()]:
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached


# ------------------------------------------------------------------ wall clocks


def _wall_clocks(
    evidence: ClockEvidence, clocks: Sequence[MachineClock], clock_of: Mapping[Incarnation, int]
) -> Iterator[LogFinding]:
    """Yield a finding for each incarnation whose wall clock differs from the other wall clocks of the run."""
    walls = {
        name: own.wall_minus_clock_us - clocks[clock_of[name]].offset_us(own.first_us)
        for name, own in sorted(evidence.incarnations.items())
        if clocks[clock_of[name]].evidence != WALL_CLOCK
    }
    of_clocks = {clock_of[name]: wall for name, wall in reversed(walls.items())}
    usual = _usual(of_clocks)
    for name, wall in walls.items():
        own = evidence.incarnations[name]
        within = clocks[clock_of[name]].within_us(own.first_us)
        if abs(wall - usual) > WALL_CLOCK_WITHIN_US + within:
            what = f"{_named(own)}: {'+' if wall > usual else ''}{duration((wall - usual) / 1000)}"
            yield LogFinding(own.file, 0, WALL_CLOCK_DIFFERS, what)


def _usual(walls: Mapping[int, int]) -> int:
    """Return the median of the wall clocks minus the time of the run, by clock; of two in the middle, the one that is
    closer to the reference's.
    """
    middle = {median_low(walls.values()), median_high(walls.values())}
    return min(middle, key=lambda wall: (abs(wall - walls[0]), wall))


def _named(own: IncarnationEvidence) -> str:
    return f"{own.name[0]} incarnation {own.name[1]}"
