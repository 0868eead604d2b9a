"""Aligns the monotonic clocks of several machines and boots, with the uncertainty of each.

Processes of one boot of a machine share its monotonic clock. `RunClocks` has the clocks of a run: which incarnation
reads which clock, and what has to be added to it for the time of the run.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from understudy.history.reading.clock_bounds import DRIFT, TimeBand

REFERENCE: Final = "reference"
MESSAGES: Final = "messages"
ZXIDS: Final = "zxids"
STARTS: Final = "starts"
WALL_CLOCK: Final = "wall clock"

Incarnation: TypeAlias = tuple[str, int]
"""The name of a node, and how often it has started."""


class ClockPoint(NamedTuple):
    """What has to be added to a clock at one of its times. Between two points the offset is interpolated."""

    clock_us: int
    """The clock in microseconds."""
    offset_us: int
    """Added to the clock, it is the time by the run's reference clock."""
    within_us: int
    """The offset is wrong by at most this."""


class MachineClock(NamedTuple):
    """The monotonic clock of one boot of one machine.

    Attributes:
        machine: the host's name; empty if no record has it.
        boot: as in `ProcessStarted`; for older logs a text that distinguishes the clocks of the run.
        points: sorted by clock, at least one.
        evidence: the first evidence that bounds the offset from both sides: `reference`, `messages`, `zxids`, `starts`
            (starts and ends of incarnations, and what the testbed has seen of them) or `wall clock`.
        is_mixed: whether another clock, the one to which the uncertainty is, has dated some of the records, as in an
            imported log; so the distance of two of them may be wrong.
    """

    machine: str
    boot: str
    points: tuple[ClockPoint, ...]
    evidence: str
    is_mixed: bool = False

    def time_us(self, clock_us: int) -> int:
        """Return the time of the run at a time of this clock."""
        return clock_us + self.offset_us(clock_us)

    def mover(self, since_us: int = 0, start_us: int = 0) -> Callable[[int], int]:
        """Return a function that is faster than `time_us` for many times that come in about their order.

        Args:
            since_us: the times that it is given are after this time of the clock.
            start_us: the times that it returns are after this time of the run.
        """
        points, floor = self.points, math.floor
        shift = since_us - start_us
        if len(points) == 1:
            return (points[0].offset_us + shift).__add__
        since = until = begin = span = 0
        width = 1

        def moved(us: int) -> int:
            nonlocal since, until, begin, span, width
            if not since <= us < until:
                place = bisect_right(points, us + since_us, key=lambda point: point.clock_us)
                if not 0 < place < len(points):
                    return us + shift + self.offset_us(us + since_us)
                before, after = points[place - 1], points[place]
                since, until, begin = before.clock_us - since_us, after.clock_us - since_us, before.offset_us
                span, width = after.offset_us - begin, until - since
            return us + shift + floor(begin + (us - since) / width * span + 0.5)

        return moved

    def clock_us(self, run_us: int) -> int:
        """Return the time of this clock at a time of the run."""
        place = bisect_right(self.points, run_us, key=lambda point: point.clock_us + point.offset_us)
        before, after = self.points[max(place - 1, 0)], self.points[min(place, len(self.points) - 1)]
        since = before.clock_us + before.offset_us
        width = after.clock_us + after.offset_us - since
        share = (run_us - since) / width if width else 0.0
        return run_us - _rounded(before.offset_us + share * (after.offset_us - before.offset_us))

    def offset_us(self, clock_us: int) -> int:
        """Return what has to be added to a time of this clock for the time by the reference clock."""
        before, after, share = self._around(clock_us)
        return _rounded(before.offset_us + share * (after.offset_us - before.offset_us))

    def within_us(self, clock_us: int) -> int:
        """Return by how much the offset at a time of this clock may be wrong."""
        before, after, share = self._around(clock_us)
        return _rounded(before.within_us + share * (after.within_us - before.within_us))

    def moved(self, us: int) -> MachineClock:
        """Return this clock with other offsets, for a time of the run that begins earlier."""
        return self._replace(points=tuple(point._replace(offset_us=point.offset_us + us) for point in self.points))

    def _around(self, clock_us: int) -> tuple[ClockPoint, ClockPoint, float]:
        place = bisect_right(self.points, clock_us, key=lambda point: point.clock_us)
        before, after = self.points[max(place - 1, 0)], self.points[min(place, len(self.points) - 1)]
        width = after.clock_us - before.clock_us
        return before, after, (clock_us - before.clock_us) / width if width else 0.0


def _rounded(us: float) -> int:
    """Round half up; every engine does."""
    return math.floor(us + 0.5)


class PairBounds(Protocol):
    """Bounds the clocks of a run to each other."""

    def band(self, reference: int, clock: int) -> Sequence[TimeBand]:
        """Return the earliest and the latest time of `clock` by the clock `reference`, sorted by its own times."""
        ...


class RunClocks:
    """The clocks of one run.

    Args:
        clocks: all clocks; the first one is the reference.
        clock_of: the place in `clocks` of the clock of each incarnation; one that is missing reads the reference.
    """

    def __init__(
        self,
        clocks: Sequence[MachineClock] = (),
        clock_of: Mapping[Incarnation, int] | None = None,
    ) -> None:
        self.clocks = tuple(clocks)
        self._clock_of = dict(clock_of or {})
        self._run_us = [[point.clock_us + point.offset_us for point in clock.points] for clock in self.clocks]
        """The times of the run at the points of each clock."""

    @property
    def is_one(self) -> bool:
        """Whether all incarnations share one clock."""
        return len(self.clocks) <= 1

    @property
    def most_us(self) -> int:
        """The largest uncertainty of the time between two clocks; 0 for one clock."""
        widest = [max(point.within_us for point in clock.points) for clock in self.clocks]
        return sum(sorted(widest)[-2:]) if len(widest) > 1 else 0

    def number(self, incarnation: Incarnation) -> int:
        """Return the place in `clocks` of an incarnation's clock."""
        return self._clock_of.get(incarnation, 0)

    def of(self, incarnation: Incarnation) -> MachineClock:
        """Return the clock of an incarnation; there must be one."""
        return self.clocks[self.number(incarnation)]

    def within_us(self, first: Incarnation, second: Incarnation, run_us: int, second_us: int | None = None) -> int:
        """Return by how much the time between records of two incarnations may be wrong; 0 if one clock has dated both.

        Args:
            run_us: about when the first was written, by the reference clock.
            second_us: about when the second was written, if not at the same time.
        """
        one, other = self.number(first), self.number(second)
        if one == other:
            return self._within_us(one, run_us) if self.clocks and self.clocks[one].is_mixed else 0
        return self._within_us(one, run_us) + self._within_us(other, run_us if second_us is None else second_us)

    def of_reference_us(self, incarnation: Incarnation, run_us: int) -> int:
        """Return by how much the clock of an incarnation may differ from the reference clock."""
        return self._within_us(self.number(incarnation), run_us)

    def _within_us(self, number: int, run_us: int) -> int:
        times, points = self._run_us[number], self.clocks[number].points
        place = bisect_right(times, run_us)
        if 0 < place < len(times):
            before_us, after_us = times[place - 1], times[place]
            before, after = points[place - 1].within_us, points[place].within_us
            return _rounded(before + (run_us - before_us) / (after_us - before_us) * (after - before))
        if number == 0:
            return 0
        # Before and after the records of a clock its bounds widen by the drift.
        nearest = min(place, len(times) - 1)
        return points[nearest].within_us + abs(run_us - times[nearest]) // DRIFT + 1


ONE_CLOCK: Final = RunClocks()
"""The clocks of a run whose processes share one clock."""
