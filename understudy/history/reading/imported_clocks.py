"""Takes over the clocks of imported logs, which `understudy import-kafka` has aligned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from understudy.foundation.eventlog.records import AlignedClock
from understudy.foundation.times import micros
from understudy.history.reading.clocks import ClockPoint, Incarnation, MachineClock, RunClocks


def imported_clocks(aligned: Sequence[AlignedClock], incarnations: Iterable[Incarnation]) -> RunClocks:
    """Return the clocks of imported logs. The times of their records are aligned already."""
    clocks = [
        MachineClock(
            clock.node,
            clock.node,
            tuple(ClockPoint(micros(ms), 0, micros(within_ms)) for ms, within_ms in clock.points),
            clock.evidence,
            clock.is_mixed,
        )
        for clock in aligned
    ]
    numbers = {clock.node: number for number, clock in enumerate(aligned)}
    return RunClocks(clocks, {name: numbers.get(name[0], 0) for name in incarnations})
