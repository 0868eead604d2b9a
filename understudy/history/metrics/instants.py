"""Times of a run, each with the process on whose clock it is: the clocks bound how wrong a duration can be."""

from __future__ import annotations

from typing import NamedTuple

from understudy.history.reading.clocks import Incarnation
from understudy.history.reading.run_records import Key, RunRecords


class Instant(NamedTuple):
    """A time in microseconds, and the process on whose clock it is."""

    us: int
    on: Incarnation


def instant(key: Key) -> Instant:
    """Return when a record was written."""
    return Instant(key.us, (key.node, key.incarnation))


def last_instant(run: RunRecords) -> Instant:
    """Return when the last record of a run was written."""
    last = run.signs.last_us
    writers = (each for each in run.signs.incarnations if run.signs.last_until(each, last) == last)
    return Instant(last, min(writers, default=("", 0)))


def within_us(run: RunRecords, begin: Instant, end: Instant) -> int:
    """Return by how much the time from `begin` to `end` may be wrong, in microseconds; 0 on one clock."""
    return run.clocks.within_us(begin.on, end.on, run.start_us + begin.us, run.start_us + end.us)
