"""`SampledStat` keeps the rate, maximum and average of the last half minute. Mirrors Kafka's own metrics library.

It is `org.apache.kafka.common.metrics.stats.SampledStat` with `Rate`, `Max`, `Avg` and `CumulativeSum` over the same
values, and the defaults of `metrics.num.samples` and `metrics.sample.window.ms`.
"""

from __future__ import annotations

from math import inf, nan
from typing import Final

from understudy.foundation.eventlog.clock import Clock

SAMPLES: Final = 2
WINDOW_MS: Final = 30_000


class _Sample:
    """The values of one window."""

    __slots__ = ("count", "last_ms", "maximum", "started_ms", "total")

    def __init__(self, now_ms: float) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: float) -> None:
        self.count = 0
        self.total = 0.0
        self.maximum = -inf
        self.started_ms = self.last_ms = now_ms


class SampledStat:
    """Values of the windows that are not over for longer than `SAMPLES` windows.

    Attributes:
        total: the sum of all values (`CumulativeSum`).
    """

    def __init__(self, clock: Clock) -> None:
        self.total = 0.0
        self._clock = clock
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float = 1.0) -> None:
        now_ms = self._clock.monotonic_ms()
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.started_ms >= WINDOW_MS:
            sample = self._advance(now_ms)
        sample.count += 1
        sample.total += value
        sample.maximum = max(sample.maximum, value)
        sample.last_ms = now_ms
        self.total += value

    def rate(self) -> float:
        """Return the sum of values per second; a cluster that has just begun counts as one window old."""
        now_ms = self._clock.monotonic_ms()
        self._forget_old(now_ms)
        elapsed_ms = now_ms - min((sample.started_ms for sample in self._samples), default=now_ms)
        missing = max(SAMPLES - 1 - int(elapsed_ms // WINDOW_MS), 0)
        return sum(sample.total for sample in self._samples) * 1000 / max(elapsed_ms + missing * WINDOW_MS, 1)

    def maximum(self) -> float:
        """Return the largest value; NaN without one."""
        self._forget_old(self._clock.monotonic_ms())
        return max((sample.maximum for sample in self._samples if sample.count), default=nan)

    def average(self) -> float:
        """Return the mean of values; NaN without one."""
        self._forget_old(self._clock.monotonic_ms())
        count = sum(sample.count for sample in self._samples)
        return sum(sample.total for sample in self._samples) / count if count else nan

    def _advance(self, now_ms: float) -> _Sample:
        # One more than are counted: a window that began before the counted time and reaches into it.
        self._current = (self._current + 1) % (SAMPLES + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def _forget_old(self, now_ms: float) -> None:
        for sample in self._samples:
            if now_ms - sample.last_ms >= SAMPLES * WINDOW_MS:
                sample.reset(now_ms)
