"""Axes of pictures: round ends, from zero or not, logarithmic or not."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.history.plots.axis import axis_of


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([], (0, 1)),
        ([0, 0], (0, 1)),
        ([5, 5], (0, 1, 2, 3, 4, 5)),
        ([1_800, 2_345, 3_012], (0, 1_000, 2_000, 3_000, 4_000)),
        ([8_010, 9_500], (8_000, 8_500, 9_000, 9_500)),
        ([0.3, 0.7], (0, 0.2, 0.4, 0.6, 0.8)),
    ],
)
def test_ticks_are_round_and_the_axis_ends_at_ticks(values: list[float], ticks: tuple[float, ...]) -> None:
    axis = axis_of(values)
    assert axis.ticks == pytest.approx(ticks)
    assert (axis.low, axis.high) == (axis.ticks[0], axis.ticks[-1])
    assert not axis.is_log


def test_an_axis_of_lengths_begins_at_zero() -> None:
    assert axis_of([8_000, 9_500], from_zero=True).low == 0


def test_an_outlier_makes_the_axis_logarithmic_only_if_it_would_press_the_others_together() -> None:
    assert axis_of([1, 2, 3, 4, 900]).ticks == (1, 10, 100, 1_000)
    assert axis_of([1, 2, 3, 4, 900]).is_log
    assert not axis_of([10, 20, 30, 900]).is_log, "90 times the smallest value"
    assert not axis_of([1, 500, 600, 900]).is_log, "half of the values are far to the right"
    assert not axis_of([0, 1, 2, 900]).is_log, "zero has no logarithm"
    assert axis_of([1e-3] * 9 + [5e4]).ticks == (1e-3, 1e-1, 1e1, 1e3, 1e5)


@given(st.lists(st.floats(0, 1e9).filter(lambda value: value == 0 or value > 1e-6), max_size=30), st.booleans())
def test_each_value_has_its_place_on_the_axis_in_order(values: list[float], from_zero: bool) -> None:
    axis = axis_of(values, from_zero=from_zero)
    places = [axis.at(value) for value in sorted(values)]
    assert all(-1e-6 <= place <= 100 + 1e-6 for place in places)
    assert places == sorted(places)
    assert 2 <= len(axis.ticks) <= 8
    assert all(map(math.isfinite, axis.ticks))
    assert list(axis.ticks) == sorted(set(axis.ticks))
