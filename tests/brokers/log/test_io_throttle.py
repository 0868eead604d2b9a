"""Tests of the pauses that keep the log cleaner below its rate."""

from __future__ import annotations

from understudy.brokers.log.io_throttle import IoThrottle


def test_it_pauses_for_as_long_as_the_bytes_may_take() -> None:
    throttle = IoThrottle(now_ms=0)
    assert throttle.pause_ms(500, now_ms=100, bytes_per_second=1_000) == 0, "not within the first interval"
    assert throttle.pause_ms(500, now_ms=400, bytes_per_second=1_000) == 600
    assert throttle.pause_ms(100, now_ms=1_400, bytes_per_second=1_000) == 0, "the next interval began at 1000"
    assert throttle.pause_ms(100, now_ms=1_500, bytes_per_second=1_000) == 0


def test_without_a_limit_it_does_not_pause() -> None:
    throttle = IoThrottle(now_ms=0)
    assert throttle.pause_ms(10**12, now_ms=1_000, bytes_per_second=1.7976931348623157e308) == 0
