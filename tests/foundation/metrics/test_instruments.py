"""Meters, histograms and timers give the same numbers as metrics-core 2.2.0 ("Yammer"), which Kafka 3.9.1 uses."""

from __future__ import annotations

import pytest

from tests.brokers.parts import StillClock
from understudy.foundation.metrics.instruments import (
    RESCALE_MS,
    SAMPLE_SIZE,
    Distribution,
    Histogram,
    Meter,
    Rates,
    Timer,
)


def distribution(*values: float) -> Distribution:
    histogram = Histogram(StillClock())
    for value in values:
        histogram.update(value)
    return histogram.distribution()


def test_a_histogram_has_the_distribution_that_yammer_computes() -> None:
    found = distribution(*(float(value * value) for value in range(1, 101)))
    assert found[:4] == (100, 1.0, 10_000.0, 3383.5)
    assert found[4] == pytest.approx(3024.355854282583)
    assert found.quantiles == pytest.approx((2550.5, 5738.25, 9206.45, 9797.06, 9998.01, 10_000.0))


def test_a_histogram_of_no_value_and_of_one_value() -> None:
    assert distribution() == Distribution(0, 0.0, 0.0, 0.0, 0.0, (0.0,) * 6)
    assert distribution(-7.0) == Distribution(1, -7.0, -7.0, -7.0, 0.0, (-7.0,) * 6)


def test_a_meter_has_the_rates_that_yammer_computes() -> None:
    clock = StillClock(0.0)
    meter = Meter(clock)
    meter.mark(30)
    clock.now_ms = 12 * 5_000
    meter.mark(10)
    clock.now_ms += 5_000
    assert meter.rates() == pytest.approx(Rates(40 / 65, 2.3671878177700085, 4.945441610824655, 5.624122214179912))


def test_reading_a_meter_more_often_changes_no_rate() -> None:
    def rates(*, reading_every_ms: int) -> list[float]:
        clock = StillClock(0.0)
        meter = Meter(clock)
        for now_ms in range(0, 120_000, reading_every_ms):
            clock.now_ms = float(now_ms)
            if now_ms % 10_000 == 0:
                meter.mark(now_ms // 10_000)
            meter.rates()
        clock.now_ms = 120_000
        return list(meter.rates())

    assert rates(reading_every_ms=500) == pytest.approx(rates(reading_every_ms=10_000))


def test_an_unused_meter_has_a_count_and_rates_of_zero() -> None:
    clock = StillClock()
    meter = Meter(clock)
    assert meter.rates() == Rates(0.0, 0.0, 0.0, 0.0)
    clock.now_ms += 3_600_000
    assert (meter.count, meter.rates()) == (0, Rates(0.0, 0.0, 0.0, 0.0))


def test_a_full_histogram_sample_drops_old_values_first() -> None:
    clock = StillClock(0.0)
    histogram = Histogram(clock)
    for _ in range(2 * SAMPLE_SIZE):
        histogram.update(1.0)
    clock.now_ms = 20 * 60_000
    for _ in range(SAMPLE_SIZE):
        histogram.update(9.0)
    found = histogram.distribution()
    assert (found.values, found.minimum, found.maximum, len(histogram._sample)) == (
        3 * SAMPLE_SIZE,
        1.0,
        9.0,
        SAMPLE_SIZE,
    )
    # A value counts e^18 times as much as one twenty minutes older: hardly any of the old ones is left.
    assert found.quantiles == (9.0,) * 6


def test_weights_do_not_overflow_after_days_without_a_value() -> None:
    clock = StillClock(0.0)
    histogram = Histogram(clock)
    for value in (1.0, 2.0, 3.0):
        histogram.update(value)
        clock.now_ms += 40 * RESCALE_MS
    assert histogram.distribution().quantiles[0] == 2.0


def test_histograms_of_the_same_values_are_equal() -> None:
    values = [float(value % 997) for value in range(3 * SAMPLE_SIZE)]
    assert distribution(*values) == distribution(*values)


def test_a_cleared_histogram_holds_no_earlier_value() -> None:
    histogram = Histogram(StillClock())
    histogram.update(5.0)
    histogram.clear()
    assert histogram.distribution() == distribution()
    histogram.update(1.0)
    assert histogram.distribution() == distribution(1.0)


def test_a_timer_ignores_a_negative_duration() -> None:
    timer = Timer(StillClock())
    timer.update(4.0)
    timer.update(-1.0)
    assert (timer.calls.count, timer.durations.distribution().mean) == (1, 4.0)
