"""Computes the table `clocks`: what was added to the clock of each incarnation."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from understudy.history.metrics.metric_tables import Clock
from understudy.history.reading.clocks import ClockPoint, Incarnation
from understudy.history.reading.run_records import RunRecords, millis


def clock_rows(run: RunRecords) -> tuple[Clock, ...]:
    """Return the rows of all incarnations: one on the reference clock, else the points around its records."""
    return tuple(
        Clock(
            node=incarnation[0],
            incarnation=incarnation[1],
            machine=run.clocks.of(incarnation).machine,
            boot=run.clocks.of(incarnation).boot,
            mono_ms=millis(point.clock_us),
            offset_ms=millis(point.offset_us),
            within_ms=millis(point.within_us),
            evidence=run.clocks.of(incarnation).evidence,
        )
        for incarnation in sorted(run.signs.incarnations)
        for point in _points(run, incarnation)
    )


def _points(run: RunRecords, incarnation: Incarnation) -> tuple[ClockPoint, ...]:
    """Return the points between which all records of an incarnation lie."""
    clock = run.clocks.of(incarnation)
    first_us = clock.clock_us(run.start_us + run.signs.first_of(incarnation))
    if len(clock.points) == 1:
        return (clock.points[0]._replace(clock_us=first_us),)
    last_us = clock.clock_us(run.start_us + run.signs.end_of(incarnation))
    # The clock at a time of the run is exact to the microsecond, so there is one to spare.
    begin = bisect_right(clock.points, first_us - 1, key=lambda point: point.clock_us) - 1
    end = bisect_left(clock.points, last_us + 1, key=lambda point: point.clock_us) + 1
    return clock.points[max(begin, 0) : end]
