"""`ImportedClocks`: the wall clocks of brokers and ZooKeeper, and their offsets from the time of the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from understudy.foundation.eventlog.records import AlignedClock
from understudy.foundation.times import fixed
from understudy.history.reading.clocks import WALL_CLOCK, ClockPoint, Incarnation, MachineClock
from understudy.history.reading.run_records import broker_node

ZOOKEEPER: Final = "zookeeper"
NOTED_DIFFERENCE_US: Final = 1_000_000
"""A wall clock is named if it differs from the run's by more than this."""
FEW_PAIRS: Final = 4
"""Number of pairs below which an alignment is called weak."""


def clock_of_broker(broker: int) -> Incarnation:
    """Return the name of a broker's wall clock."""
    return (broker_node(broker), 1)


def clock_of_transaction(zxid: int) -> Incarnation:
    """Return the name of the clock of a transaction: a leader of ZooKeeper's ensemble writes its own times, and another
    leader begins another epoch, which is the upper half of the zxid.
    """
    return (ZOOKEEPER, 1 + (zxid >> 32))


class ImportedClock(NamedTuple):
    """The wall clock of a broker or of ZooKeeper.

    Attributes:
        name: as `clock_of_broker` and `clock_of_transaction` name it.
        clock: what has to be added to it for the time of the run, and by how much that may be wrong.
        pairs: the number of pairs that bound it.
        first_us: its first time; `last_us`: its last.
        steady_us: the offset if it is the same at all times, else None.
    """

    name: Incarnation
    clock: MachineClock
    pairs: int
    first_us: int
    last_us: int
    steady_us: int | None = None

    def run_ms(self, ms: float) -> float:
        """Return the time of the run at a time of this clock."""
        us = round(ms * 1000)
        return (self.clock.time_us(us) if self.steady_us is None else us + self.steady_us) / 1000

    def wall_ms(self, run_ms: float) -> float:
        """Return the time of this clock at a time of the run; a whole millisecond if it is as close as rounding is."""
        run_us = round(run_ms * 1000)
        us = self.clock.clock_us(run_us) if self.steady_us is None else run_us - self.steady_us
        whole_ms = round(us / 1000)
        return float(whole_ms) if abs(us - whole_ms * 1000) <= 2 else us / 1000

    @property
    def title(self) -> str:
        node, number = self.name
        if node != ZOOKEEPER:
            return node.replace("-", " ")
        return "ZooKeeper" if number == 1 else f"ZooKeeper, epoch {number - 1}"

    def __str__(self) -> str:
        points = self.clock.points
        if points == (ClockPoint(self.first_us, 0, 0),):
            return f"{self.title}: the reference, {self.pairs:,} pairs"
        within_ms = _span([point.within_us / 1000 for point in points])
        offset_ms = _span([point.offset_us / 1000 for point in points], plus="+")
        text = f"{self.title}: {offset_ms} ms ± {within_ms} ms, {self.pairs:,} pairs"
        if self.clock.evidence == WALL_CLOCK:
            text += "; they do not bound it from both sides, so it is taken to be right within a second"
        elif self.pairs < FEW_PAIRS:
            text += "; these are few"
        elif max(point.within_us for point in points) > NOTED_DIFFERENCE_US:
            text += "; these are far apart"
        if max(abs(point.offset_us) for point in points) > NOTED_DIFFERENCE_US:
            text += "; this wall clock is wrong, or the others are"
        return text


class ImportedClocks:
    """The wall clocks of an import; empty if all logs are from one machine.

    Attributes:
        clocks: the clocks, the reference first.
        contradictions: the clocks whose pairs contradict each other, in words.
    """

    def __init__(
        self,
        clocks: Sequence[ImportedClock] = (),
        contradictions: Iterable[str] = (),
    ) -> None:
        self.clocks = tuple(clocks)
        self.contradictions = tuple(contradictions)
        self._of = {clock.name: clock for clock in clocks}

    def of(self, name: Incarnation) -> ImportedClock | None:
        """Return a clock; None if all logs are from one machine."""
        return self._of.get(name)

    def run_ms(self, name: Incarnation, ms: float) -> float:
        """Return the time of the run at a time of one clock."""
        own = self._of.get(name)
        return float(ms) if own is None else own.run_ms(ms)

    def within_ms(self, one: Incarnation, other: Incarnation, run_ms: float) -> float:
        """Return by how much the distance of times of two clocks may be wrong."""
        found = [self._of[name].clock for name in (one, other) if name in self._of]
        return 0.0 if one == other else sum(own.within_us(own.clock_us(round(run_ms * 1000))) for own in found) / 1000

    def described(self) -> tuple[AlignedClock, ...]:
        """Return the clocks of the brokers, as `RunDescribed` has them."""
        is_mixed = any(own.name[0] == ZOOKEEPER for own in self.clocks)
        return tuple(self._described(own, is_mixed) for own in self.clocks if own.name[0] != ZOOKEEPER)

    def _described(self, own: ImportedClock, is_mixed: bool) -> AlignedClock:
        points = tuple(((us + offset_us) / 1000, within_us / 1000) for us, offset_us, within_us in own.clock.points)
        return AlignedClock(own.name[0], own.clock.evidence, points, is_mixed)


ONE_MACHINE: Final = ImportedClocks()
"""The clocks of logs that are all from one machine."""


def _span(values: Sequence[float], *, plus: str = "") -> str:
    """Return the smallest and the largest of some numbers of milliseconds, in words."""
    low, high = (f"{plus if value >= 0 else ''}{fixed(value, 1)}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
