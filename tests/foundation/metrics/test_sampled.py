"""Tests of `SampledStat` with numbers that `Rate`, `Max` and `Avg` of Kafka's metrics give."""

from __future__ import annotations

from math import isnan

import pytest

from tests.brokers.parts import StillClock
from understudy.foundation.metrics.sampled import SampledStat


@pytest.fixture
def clock() -> StillClock:
    return StillClock(0.0)


def test_without_values_there_is_no_rate_and_neither_maximum_nor_average(clock: StillClock) -> None:
    stat = SampledStat(clock)
    assert (stat.total, stat.rate()) == (0, 0)
    assert isnan(stat.maximum())
    assert isnan(stat.average())


def test_a_rate_is_over_one_window_at_least(clock: StillClock) -> None:
    stat = SampledStat(clock)
    stat.record(60)
    assert stat.rate() == 2.0, "60 in 30 s"
    clock.now_ms = 15_000
    assert stat.rate() == pytest.approx(60 / 45), "Kafka adds the window that is missing"
    clock.now_ms = 45_000
    stat.record(30)
    assert stat.rate() == 2.0, "90 in 45 s"


def test_values_are_forgotten_after_two_windows_and_the_total_stays(clock: StillClock) -> None:
    stat = SampledStat(clock)
    for value in (5, 1, 3):
        stat.record(value)
    assert (stat.maximum(), stat.average()) == (5, 3)
    clock.now_ms = 40_000
    stat.record(2)
    assert (stat.maximum(), stat.average()) == (5, 2.75)
    clock.now_ms = 60_000
    assert (stat.maximum(), stat.average()) == (2, 2)
    clock.now_ms = 100_000
    assert isnan(stat.maximum())
    assert isnan(stat.average())
    assert (stat.rate(), stat.total) == (0, 11)


def test_a_window_that_reaches_into_the_counted_time_is_counted(clock: StillClock) -> None:
    stat = SampledStat(clock)
    for clock.now_ms in (0.0, 29_000.0, 30_000.0, 61_000.0):
        stat.record(1)
    clock.now_ms = 70_000.0
    assert stat.rate() == pytest.approx(4 / 70)
    clock.now_ms = 91_000.0
    stat.record(1)
    assert stat.rate() == pytest.approx(2 / 30), "the first two windows are over"
