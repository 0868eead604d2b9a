"""Aligns the monotonic clocks of several machines and boots, with the uncertainty of each.

Processes of one boot of a machine share its monotonic clock. `RunClocks` has the clocks of a run: which incarnation
reads which clock, and what has to be added to it for the time of the run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

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
        evidence: what bounds the offset: `reference`, `messages`, `zxids` or `wall clock`.
    """

    machine: str
    boot: str
    points: tuple[ClockPoint, ...]
    evidence: str

    def offset_us(self, clock_us: int) -> int:
        """Return what has to be added to a time of this clock for the time by the reference clock."""
        before, after, share = self._around(clock_us)
        return round(before.offset_us + share * (after.offset_us - before.offset_us))

    def within_us(self, clock_us: int) -> int:
        """Return by how much the offset at a time of this clock may be wrong."""
        before, after, share = self._around(clock_us)
        return round(before.within_us + share * (after.within_us - before.within_us))

    def _around(self, clock_us: int) -> tuple[ClockPoint, ClockPoint, float]:
        place = bisect_right(self.points, clock_us, key=lambda point: point.clock_us)
        before, after = self.points[max(place - 1, 0)], self.points[min(place, len(self.points) - 1)]
        width = after.clock_us - before.clock_us
        return before, after, (clock_us - before.clock_us) / width if width else 0.0


class RunClocks:
    """The clocks of one run.

    Args:
        clocks: all clocks; the first one is the reference.
        clock_of: the place in `clocks` of the clock of each incarnation; one that is missing reads the reference.
    """

    def __init__(self, clocks: Sequence[MachineClock] = (), clock_of: Mapping[Incarnation, int] | None = None) -> None:
        self.clocks = tuple(clocks)
        self._clock_of = dict(clock_of or {})

    @property
    def is_one(self) -> bool:
        """Whether all incarnations share one clock."""
        return len(self.clocks) <= 1

    def number(self, incarnation: Incarnation) -> int:
        """Return the place in `clocks` of an incarnation's clock."""
        return self._clock_of.get(incarnation, 0)

    def within_us(self, first: Incarnation, second: Incarnation, run_us: int) -> int:
        """Return by how much the time between records of two incarnations may be wrong; 0 if they share a clock.

        Args:
            run_us: about when, by the reference clock.
        """
        one, other = self.number(first), self.number(second)
        if one == other:
            return 0
        return sum(self._within(number, run_us) for number in {one, other} if number)

    def _within(self, number: int, run_us: int) -> int:
        clock = self.clocks[number]
        return clock.within_us(run_us - clock.points[0].offset_us)


ONE_CLOCK: Final = RunClocks()
"""The clocks of a run whose processes share one clock."""
