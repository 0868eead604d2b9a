"""Bounds the times of records on several clocks by the order in which they were written.

The unknowns are the times of records by the reference clock. Each order of two records is one bound, the drift of
each clock bounds the times of its neighbouring records, and the shortest paths through all bounds are the narrowest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

DRIFT: Final = 833
"""The rates of two clocks differ by at most one part in this: 1,200 ppm. An oscillator is wrong by up to 100 ppm, and
NTP changes a rate by up to 500 ppm."""
ROUNDING_US: Final = 1
"""Times in logs are whole microseconds, so that the later of two records may seem to be earlier by this."""
_UNBOUNDED: Final = 1 << 75
"""An edge without a bound, in parts."""


class Contradiction(Exception):
    """Bounds that cannot all hold.

    Attributes:
        bounds: their places in the list of bounds; empty if none but the drift of clocks contradicts itself.
    """

    def __init__(self, bounds: Iterable[int]) -> None:
        super().__init__("the bounds of clocks contradict each other")
        self.bounds = tuple(bounds)


class Bound(NamedTuple):
    """The time of one vertex exceeds the time of another by at most `most_us`."""

    later: int
    earlier: int
    most_us: int


class TimeBand(NamedTuple):
    """The earliest and the latest time of a record by the reference clock, minus its own clock."""

    clock_us: int
    low_us: int
    high_us: int


class TimeBounds:
    """The bounds of the times of vertices: records of clocks, and transactions whose time no clock has.

    Args:
        clocks: the sorted times of the vertices of each clock; vertices are numbered clock by clock.
        others: the number of vertices without a clock; they come last.
        reference: the clock by which the times are.
    """

    def __init__(self, clocks: Sequence[Sequence[int]], others: int = 0, reference: int = 0) -> None:
        # Edges are counted in parts of a microsecond, `DRIFT` of them, so that the drift of a microsecond is one part.
        self._clocks = clocks
        self._reference = reference
        self._begins: list[int] = []
        count = 0
        for times in clocks:
            self._begins.append(count)
            count += len(times)
        count += others
        begin = self._begins[reference]
        self._fixed = range(begin, begin + len(clocks[reference]))
        self._high = [_UNBOUNDED] * count
        self._low = [-_UNBOUNDED] * count
        for vertex, us in zip(self._fixed, clocks[reference], strict=True):
            self._high[vertex] = self._low[vertex] = us * DRIFT
        self._next: list[tuple[int, int]] = [(-1, -1)] * count
        """The vertex that bounds each vertex from above, and the place of the bound; −1 for the drift of a clock."""

    def vertex(self, clock: int, us: int) -> int:
        """Return the vertex of a clock at one of its times."""
        return self._begins[clock] + bisect_right(self._clocks[clock], us) - 1

    def is_bounded(self, clock: int) -> bool:
        """Return whether the times of a clock are bounded from both sides."""
        vertex = self._begins[clock]
        return self._high[vertex] < _UNBOUNDED // 2 and self._low[vertex] > -_UNBOUNDED // 2

    def range_of(self, vertex: int) -> tuple[int, int]:
        """Return the earliest and the latest time of a vertex; very small or large if it has no such bound."""
        return self._low[vertex] // DRIFT, -(-self._high[vertex] // DRIFT)

    def narrow(self, bounds: Sequence[Bound]) -> None:
        """Narrow all times by bounds, which include the bounds that were given before.

        Raises:
            Contradiction: not all bounds can hold.
        """
        rounds = 0
        while self._lower_highs(bounds):
            rounds += 1
            if rounds > 2:
                self._find_cycle()
        while self._raise_lows(bounds):
            pass

    def bands(self, clock: int) -> list[TimeBand]:
        """Return the band of a clock, sorted; between two times both of its edges are straight."""
        begin, times = self._begins[clock], self._clocks[clock]
        found: list[TimeBand] = []
        for vertex, us in enumerate(times, begin):
            low, high = self.range_of(vertex)
            band = TimeBand(us, low - us, high - us)
            if found:
                found += _between(found[-1], band)
            found.append(band)
        return found

    def _lower_highs(self, bounds: Sequence[Bound]) -> bool:
        high, following, fixed = self._high, self._next, self._fixed
        has_changed = False
        for place, (later, earlier, most_us) in enumerate(bounds):
            edge = high[earlier] + most_us * DRIFT
            if edge < high[later]:
                if later in fixed:
                    raise Contradiction(self._bounds_from(place, earlier))
                high[later], following[later] = edge, (earlier, place)
                has_changed = True
        for clock, times in enumerate(self._clocks):
            if clock == self._reference:
                continue
            vertex, last = self._begins[clock], times[0]
            for us in times[1:]:
                vertex, width, last = vertex + 1, us - last, us
                if (edge := high[vertex - 1] + width * (DRIFT + 1)) < high[vertex]:
                    high[vertex], following[vertex] = edge, (vertex - 1, -1)
                    has_changed = True
            for us in reversed(times[:-1]):
                vertex, width, last = vertex - 1, last - us, us
                if (edge := high[vertex + 1] - width * (DRIFT - 1)) < high[vertex]:
                    high[vertex], following[vertex] = edge, (vertex + 1, -1)
                    has_changed = True
        return has_changed

    def _raise_lows(self, bounds: Sequence[Bound]) -> bool:
        low = self._low
        has_changed = False
        for later, earlier, most_us in bounds:
            if (edge := low[later] - most_us * DRIFT) > low[earlier]:
                low[earlier] = edge
                has_changed = True
        for clock, times in enumerate(self._clocks):
            if clock == self._reference:
                continue
            vertex, last = self._begins[clock], times[0]
            for us in times[1:]:
                vertex, width, last = vertex + 1, us - last, us
                if (edge := low[vertex - 1] + width * (DRIFT - 1)) > low[vertex]:
                    low[vertex] = edge
                    has_changed = True
            for us in reversed(times[:-1]):
                vertex, width, last = vertex - 1, last - us, us
                if (edge := low[vertex + 1] - width * (DRIFT + 1)) > low[vertex]:
                    low[vertex] = edge
                    has_changed = True
        return has_changed

    def _bounds_from(self, place: int, vertex: int) -> list[int]:
        """Return the bounds from which the latest time of a vertex follows, after one more bound."""
        found = [place]
        for _ in self._next:
            vertex, place = self._next[vertex]
            if vertex < 0:
                break
            found.append(place)
        return [place for place in found if place >= 0]

    def _find_cycle(self) -> None:
        """Raise `Contradiction` if the latest times of some vertices follow from each other."""
        seen: dict[int, int] = {}
        for start in range(len(self._next)):
            vertex = start
            while vertex >= 0 and vertex not in seen:
                seen[vertex] = start
                vertex = self._next[vertex][0]
            if vertex >= 0 and seen[vertex] == start:
                bounds, first = [], vertex
                while True:
                    vertex, place = self._next[vertex]
                    bounds.append(place)
                    if vertex == first:
                        raise Contradiction(place for place in bounds if place >= 0)


def _between(before: TimeBand, after: TimeBand) -> list[TimeBand]:
    """Return the band at the times between two vertices at which an edge has its tip: it widens by the drift."""
    width = after.clock_us - before.clock_us
    highest = (before.high_us + after.high_us) // 2 + width // (2 * DRIFT) + 1
    lowest = (before.low_us + after.low_us) // 2 - width // (2 * DRIFT) - 1
    at_highest = before.clock_us + min(max((highest - before.high_us) * DRIFT, 0), width)
    at_lowest = before.clock_us + min(max((before.low_us - lowest) * DRIFT, 0), width)
    found = []
    for us in sorted({at_highest, at_lowest}):
        if before.clock_us < us < after.clock_us:
            since, until = us - before.clock_us, after.clock_us - us
            low = max(before.low_us - since // DRIFT, after.low_us - until // DRIFT) - 1
            high = min(before.high_us + since // DRIFT, after.high_us + until // DRIFT) + 1
            found.append(TimeBand(us, low, high))
    return found
