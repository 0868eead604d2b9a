"""The instruments that keep metrics: `Meter`, `Histogram` and `Timer`. Mirrors Yammer's metrics 2.2, which Kafka uses.

Yammer's meters are updated every five seconds by a thread. Here the missed updates are made when a meter is marked or
read, so that an unused instrument costs nothing and no timer wakes a simulated cluster.

A histogram keeps a sample of about a thousand values in which the last five minutes weigh most. It draws from a random
source of its own with a fixed seed; the World's is for what brokers do.
"""

from __future__ import annotations

import heapq
import math
import random
from typing import NamedTuple

from understudy.foundation.eventlog.clock import Clock

TICK_MS = 5_000
MINUTES = (1, 5, 15)

QUANTILES = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""Quantiles of Yammer's MBeans, as the JMX exporter's rules write them."""

SAMPLE_SIZE = 1_028
DECAY_PER_S = 0.015
RESCALE_MS = 3_600_000


class Rates(NamedTuple):
    """Events per second: since the beginning, and over the last minutes, newer ones weighing more."""

    mean: float
    one_minute: float
    five_minute: float
    fifteen_minute: float


class Distribution(NamedTuple):
    """A distribution: `quantiles` (by `QUANTILES`) of the sample, the rest of all values; 0 without values."""

    values: int
    minimum: float
    maximum: float
    mean: float
    standard_deviation: float
    quantiles: tuple[float, ...]


class Meter:
    """Counts events and their rate (`com.yammer.metrics.core.Meter`)."""

    def __init__(self, clock: Clock) -> None:
        self.count = 0
        self._clock = clock
        self._started_ms = self._ticked_ms = clock.monotonic_ms()
        self._uncounted = 0
        self._rates: list[float] | None = None
        """Per second, one for each of `MINUTES`; None before the first tick."""

    def mark(self, events: int = 1) -> None:
        self._tick()
        self.count += events
        self._uncounted += events

    def rates(self) -> Rates:
        self._tick()
        elapsed_s = (self._clock.monotonic_ms() - self._started_ms) / 1000
        mean = self.count / elapsed_s if elapsed_s > 0 else 0.0
        return Rates(mean, *(self._rates or (0.0,) * len(MINUTES)))

    def _tick(self) -> None:
        ticks = int((self._clock.monotonic_ms() - self._ticked_ms) // TICK_MS)
        if ticks < 1:
            return
        self._ticked_ms += ticks * TICK_MS
        # All events so far came before the first of these ticks, and none before the others.
        per_s = self._uncounted / (TICK_MS / 1000)
        self._uncounted = 0
        before = self._rates or [per_s] * len(MINUTES)
        self._rates = [
            _decayed(rate + (1 - _kept(minutes)) * (per_s - rate), minutes, ticks - 1)
            for rate, minutes in zip(before, MINUTES, strict=True)
        ]


def _kept(minutes: int) -> float:
    """Return the share that one tick keeps of a rate over `minutes`."""
    return math.exp(-TICK_MS / 60_000 / minutes)


def _decayed(rate: float, minutes: int, ticks: int) -> float:
    return rate * _kept(minutes) ** ticks


class Histogram:
    """Keeps the distribution of values (`com.yammer.metrics.core.Histogram`, the biased one)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._random = random.Random(0)
        self.clear()

    def clear(self) -> None:
        """Remove all values."""
        self.count = 0
        self._minimum = self._maximum = self._sum = 0.0
        self._mean = self._squares = 0.0
        """Running mean and sum of squared distances from it (Welford)."""
        self._sample: list[tuple[float, float]] = []
        """A heap of (priority, value); the value of the lowest priority is replaced."""
        self._sampling_since_ms = self._clock.monotonic_ms()

    def update(self, value: float) -> None:
        self._minimum = min(self._minimum, value) if self.count else value
        self._maximum = max(self._maximum, value) if self.count else value
        self.count += 1
        self._sum += value
        distance = value - self._mean
        self._mean += distance / self.count
        self._squares += distance * (value - self._mean)
        self._draw(value)

    def distribution(self) -> Distribution:
        if not self.count:
            return Distribution(0, 0.0, 0.0, 0.0, 0.0, (0.0,) * len(QUANTILES))
        deviation = math.sqrt(self._squares / (self.count - 1)) if self.count > 1 else 0.0
        values = sorted(value for _, value in self._sample)
        quantiles = tuple(quantile(values, float(wanted)) for wanted in QUANTILES)
        return Distribution(self.count, self._minimum, self._maximum, self._sum / self.count, deviation, quantiles)

    def _draw(self, value: float) -> None:
        """Add a value to the sample by forward-decaying priority: later values are likelier to stay."""
        age_ms = self._clock.monotonic_ms() - self._sampling_since_ms
        if age_ms >= RESCALE_MS:
            self._rescale(age_ms)
            age_ms = 0.0
        priority = math.exp(DECAY_PER_S * age_ms / 1000) / (1.0 - self._random.random())
        if len(self._sample) < SAMPLE_SIZE:
            heapq.heappush(self._sample, (priority, value))
        else:
            heapq.heappushpop(self._sample, (priority, value))

    def _rescale(self, age_ms: float) -> None:
        """Measure age from now on, so that weights do not grow without bound."""
        factor = math.exp(-DECAY_PER_S * age_ms / 1000)
        self._sample = [(priority * factor, value) for priority, value in self._sample]
        heapq.heapify(self._sample)
        self._sampling_since_ms += age_ms


def quantile(values: list[float], wanted: float) -> float:
    """Return the value below which a share `wanted` of the sorted `values` lies, interpolated."""
    position = wanted * (len(values) + 1)
    if position < 1:
        return values[0]
    if position >= len(values):
        return values[-1]
    below = int(position)
    return values[below - 1] + (position - below) * (values[below] - values[below - 1])


class Timer:
    """Keeps durations in milliseconds, and their rate (`com.yammer.metrics.core.Timer`)."""

    def __init__(self, clock: Clock) -> None:
        self.durations = Histogram(clock)
        self.calls = Meter(clock)

    def update(self, duration_ms: float) -> None:
        # A negative duration comes from a clock that was set back.
        if duration_ms >= 0:
            self.durations.update(duration_ms)
            self.calls.mark()
