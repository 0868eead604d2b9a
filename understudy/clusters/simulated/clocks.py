"""The clocks of a simulated node: the clock that its broker measures time with, and the clock in its event log.

They are two, so that a monotonic clock of a node's own changes the times in its event log and nothing else in the run:
timers and measured times of brokers do not depend on it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from understudy.clusters.simulated.loop import SimulatedLoop
from understudy.clusters.simulated.randomness import derived

EPOCH_MS = 1_767_225_600_000.0
"""The wall clock at the start of every simulation: 2026-01-01T00:00:00Z."""

LARGEST_DRIFT = 0.0001
"""Largest fraction by which the monotonic clock of a boot runs too fast or too slow."""

_HOUR_MS = 3_600_000.0
_DAY_MS = 24 * _HOUR_MS


class SimulatedClock:
    """The clock of a node's broker."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.offset_ms = 0.0
        """Time by which its wall clock is ahead; may be changed during the run (a step)."""
        self.drift = 0.0
        """Fraction by which the broker measures times too long, for example 0.001."""
        self._rate = 1.0
        self._since_ms = 0.0

    def monotonic_ms(self) -> float:
        return self._loop.now * 1000 * (1 + self.drift)

    def wall_ms(self) -> float:
        now_ms = EPOCH_MS + self.offset_ms + self._loop.now * 1000
        return now_ms if self._rate == 1.0 else now_ms + self._drifted_ms()

    def run_at(self, rate: float) -> None:
        """Let the wall clock run at another speed from now on: 1.0 is the right speed; at 0.0 it stands still."""
        self.offset_ms += self._drifted_ms()
        self._rate, self._since_ms = rate, self._loop.now * 1000

    def correct(self) -> None:
        """Set the wall clock to the right time and speed."""
        self.offset_ms, self._rate = 0.0, 1.0

    def _drifted_ms(self) -> float:
        return (self._rate - 1.0) * (self._loop.now * 1000 - self._since_ms) if self._rate != 1.0 else 0.0


class Boot(NamedTuple):
    """One boot of a machine, with its monotonic clock.

    Attributes:
        text: as in `ProcessStarted.boot`.
        began_ms: the virtual time at which it began.
        clock_ms: its clock at that time.
        rate: the speed of its clock; 1.0 is the right speed.
    """

    text: str
    began_ms: float
    clock_ms: float
    rate: float

    def monotonic_ms(self, now_ms: float) -> float:
        return self.clock_ms + (now_ms - self.began_ms) * self.rate

    def now_ms(self, monotonic_ms: float) -> float:
        """Return the virtual time at which its clock was `monotonic_ms`."""
        return self.began_ms + (monotonic_ms - self.clock_ms) / self.rate


SHARED_BOOT: Final = Boot("simulation", 0.0, 0.0, 1.0)
"""The boot of the nodes that share one clock: the virtual time."""


def own_boot(seed: int, node: str, number: int, now_ms: float) -> Boot:
    """Draw a boot of a node that has a clock of its own.

    Args:
        number: how often the node has booted, from 1. The first boot began hours or days before the run.
        now_ms: the virtual time at which it begins.
    """
    drift = derived(seed, "own clock", node).uniform(-LARGEST_DRIFT, LARGEST_DRIFT)
    draw = derived(seed, "own clock", node, number)
    clock_ms = draw.uniform(_HOUR_MS, 30 * _DAY_MS) if number == 1 else draw.uniform(5_000.0, 60_000.0)
    return Boot(f"{node}/{number}", now_ms, clock_ms, 1.0 + drift)


class EventLogClock:
    """The clock of a node's event log; implements `Clock`.

    Args:
        clock: the wall clock.
        boot: the boot whose monotonic clock it reads; may be changed while no process of the node runs.
    """

    def __init__(self, loop: SimulatedLoop, clock: SimulatedClock, boot: Boot) -> None:
        self.boot = boot
        self._loop = loop
        self.wall_ms = clock.wall_ms

    def monotonic_ms(self) -> float:
        return self.boot.monotonic_ms(self._loop.now * 1000)
