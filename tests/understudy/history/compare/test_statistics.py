"""Quantiles, bootstrap intervals, permutation tests and Holm's correction, on data with known answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.history.compare import statistics
from understudy.history.compare.statistics import (
    CONFIDENCE,
    RESAMPLES,
    Runs,
    bootstrap_quantiles,
    difference_interval,
    holm,
    mean_ranks,
    permutation_p_values,
    quantile_interval,
    runs_needed,
    smallest_p,
)
from understudy.history.metrics.metrics import nearest_rank

MEDIAN_OF_EXPONENTIAL = math.log(2) * 1e6


def one_value_each(values: np.ndarray) -> list[tuple[int, ...]]:
    """A group of runs with one value each."""
    return [(int(value),) for value in values]


def interval_of(runs: Runs, percent: int, generator: np.random.Generator) -> tuple[int, int]:
    values, places = bootstrap_quantiles(runs, [percent], generator)
    return quantile_interval(values, places[:, 0])


# ------------------------------------------------------------------ quantiles and intervals


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1), st.sampled_from([50, 90, 99]))
def test_nearest_rank_is_the_inverse_of_the_distribution_function_in_numpy(values: list[int], percent: int) -> None:
    expected = np.quantile(np.array(values), percent / 100, method="inverted_cdf")
    assert nearest_rank(sorted(values), percent) == expected


@given(
    st.lists(st.lists(st.integers(0, 1000), max_size=4), min_size=1).filter(any),
    st.sampled_from([50, 90, 99]),
    st.integers(0, 2**32),
)
def test_quantiles_of_bootstrap_samples_are_those_of_the_drawn_runs(
    runs: list[list[int]], percent: int, seed: int
) -> None:
    """The samples are drawn again with the same generator, and their quantiles computed one by one."""
    values, places = bootstrap_quantiles(runs, [percent], np.random.default_rng(seed))
    filled = [run for run in runs if run]
    drawn = np.random.default_rng(seed).integers(len(filled), size=(RESAMPLES, len(filled)))
    for row in range(0, RESAMPLES, 400):
        sample = [value for number in drawn[row] for value in filled[number]]
        assert values[places[row, 0]] == nearest_rank(sorted(sample), percent)


@pytest.mark.parametrize(("percent", "expected"), [(50, 6), (90, 36), (99, 368)])
def test_an_interval_takes_so_many_runs(percent: int, expected: int) -> None:
    assert runs_needed(percent) == expected
    on_one_side = max(percent, 100 - percent) / 100
    assert on_one_side**expected <= (1 - CONFIDENCE) / 2 < on_one_side ** (expected - 1)


def exponential(generator: np.random.Generator, size: int) -> np.ndarray:
    return generator.exponential(1e6, size)


def uniform(generator: np.random.Generator, size: int) -> np.ndarray:
    return generator.uniform(0, 1e6, size)


@pytest.mark.parametrize(
    ("draw", "percent", "size", "truth"),
    [
        (exponential, 50, 6, MEDIAN_OF_EXPONENTIAL),
        (exponential, 50, 25, MEDIAN_OF_EXPONENTIAL),
        (exponential, 90, 36, math.log(10) * 1e6),
        (uniform, 50, 6, 0.5e6),
        (uniform, 90, 36, 0.9e6),
    ],
)
def test_an_interval_covers_the_true_quantile_as_often_as_it_claims(
    draw: Callable[[np.random.Generator, int], np.ndarray], percent: int, size: int, truth: float
) -> None:
    generator = np.random.default_rng(17)
    intervals = [interval_of(one_value_each(draw(generator, size)), percent, generator) for _ in range(300)]
    covered = np.mean([low <= truth <= high for low, high in intervals])
    # 300 groups of 95 % would differ by 2.5 points with a probability of 0.05.
    assert covered >= CONFIDENCE - 0.025


def test_failovers_of_one_run_do_not_count_as_independent() -> None:
    """Each run has five nearly equal values. Taken for independent, they would cover the median far too rarely."""
    generator = np.random.default_rng(5)
    covered = {"whole runs": 0, "single values": 0}
    for _ in range(150):
        levels = generator.exponential(1e6, 20)
        runs = [tuple(int(level + noise) for noise in generator.normal(0, 10, 5)) for level in levels]
        for how, group in (("whole runs", runs), ("single values", [(value,) for run in runs for value in run])):
            low, high = interval_of(group, 50, generator)
            covered[how] += low <= MEDIAN_OF_EXPONENTIAL <= high
    assert covered["whole runs"] / 150 >= 0.9
    assert covered["single values"] / 150 < 0.8


def test_the_interval_of_a_difference_covers_it() -> None:
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(200):
        medians = []
        for shift in (5e5, 0):
            values, places = bootstrap_quantiles(one_value_each(exponential(generator, 15) + shift), [50], generator)
            medians.append(values[places[:, 0]])
        low, high = difference_interval(medians[0], medians[1])
        covered += low <= 5e5 <= high
    assert covered / 200 >= CONFIDENCE - 0.03


def test_equal_values_have_an_interval_without_width() -> None:
    assert interval_of([(7,)] * 50, 50, np.random.default_rng(1)) == (7, 7)


def test_the_same_generator_gives_the_same_samples_whatever_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = one_value_each(exponential(np.random.default_rng(2), 30))
    whole = bootstrap_quantiles(runs, [50, 90], np.random.default_rng(9))
    monkeypatch.setattr(statistics, "_BLOCK", 1_000)
    blocks = bootstrap_quantiles(runs, [50, 90], np.random.default_rng(9))
    assert np.array_equal(whole[1], blocks[1])


def test_without_a_value_there_is_no_quantile() -> None:
    with pytest.raises(ValueError, match="no run has a value"):
        bootstrap_quantiles([(), ()], [50], np.random.default_rng(1))


# ------------------------------------------------------------------ permutation tests


@given(
    st.lists(st.lists(st.integers(0, 5), max_size=3), min_size=1, max_size=6),
    st.lists(st.lists(st.integers(0, 5), max_size=3), min_size=1, max_size=6),
)
def test_the_rank_of_a_run_is_the_mean_over_its_values(first: list[list[int]], second: list[list[int]]) -> None:
    pooled = [value for run in (*first, *second) for value in run]

    def rank(value: int) -> float:
        return sum(other < value for other in pooled) + (pooled.count(value) + 1) / 2

    for runs, ranks in zip((first, second), mean_ranks((first, second)), strict=True):
        expected = [sum(map(rank, run)) / len(run) if run else math.nan for run in runs]
        assert np.allclose(ranks, expected, equal_nan=True)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=4),
    st.lists(st.integers(0, 9), min_size=1, max_size=5),
)
def test_p_is_the_share_of_all_ways_to_distribute_few_runs(first: list[int], second: list[int]) -> None:
    both = [*first, *second]

    def difference(chosen: tuple[int, ...]) -> float:
        own = [both[place] for place in chosen]
        others = [value for place, value in enumerate(both) if place not in chosen]
        return abs(sum(own) / len(own) - sum(others) / len(others))

    ways = [difference(chosen) for chosen in combinations(range(len(both)), len(first))]
    expected = sum(way >= ways[0] - 1e-9 for way in ways) / len(ways)
    found = permutation_p_values(column(first), column(second), np.random.default_rng(1))
    assert found == pytest.approx([expected])


def column(values: list[int] | list[float]) -> np.ndarray:
    return np.array(values, dtype=float)[:, None]


def test_p_of_random_labels_is_close_to_that_of_all() -> None:
    generator = np.random.default_rng(8)
    first, second = generator.normal(0, 1, (7, 3)), generator.normal(0.8, 1, (8, 3))
    exact = permutation_p_values(first, second, generator, permutations=10_000)
    drawn = permutation_p_values(first, second, generator, permutations=6_000)
    assert math.comb(15, 7) == 6_435
    assert drawn == pytest.approx(exact, abs=0.02)


def test_groups_of_the_same_distribution_are_rarely_called_different() -> None:
    generator = np.random.default_rng(11)
    found = [
        permutation_p_values(exponential(generator, 12)[:, None], exponential(generator, 14)[:, None], generator)[0]
        for _ in range(300)
    ]
    assert np.mean(np.array(found) <= 0.05) <= 0.075
    assert np.mean(np.array(found) <= 0.5) == pytest.approx(0.5, abs=0.075)


def test_a_shift_is_found_and_equal_values_differ_in_nothing() -> None:
    generator = np.random.default_rng(4)
    first, second = exponential(generator, 30) + 2e6, exponential(generator, 30)
    assert permutation_p_values(first[:, None], second[:, None], generator)[0] == 1 / 10_000
    assert permutation_p_values(np.ones((20, 1)), np.ones((20, 1)), generator)[0] == 1.0


def test_each_quantity_has_a_p_of_its_own_and_runs_without_a_value_count_in_none() -> None:
    first = np.array([[1.0, 5.0], [2.0, np.nan], [3.0, 5.0]])
    second = np.array([[7.0, 5.0], [8.0, 5.0], [9.0, 5.0]])
    assert permutation_p_values(first, second, np.random.default_rng(1)).tolist() == [0.1, 1.0]


@pytest.mark.parametrize(("first", "second"), [(3, 3), (3, 4), (4, 4), (1, 5), (8, 9)])
def test_the_smallest_p_is_that_of_groups_without_any_overlap(first: int, second: int) -> None:
    low, high = column(list(range(first))), column(list(range(100, 100 + second)))
    found = permutation_p_values(low, high, np.random.default_rng(1))[0]
    if math.comb(first + second, first) <= statistics.PERMUTATIONS:
        assert found == pytest.approx(smallest_p(first, second))
    else:
        assert found >= smallest_p(first, second)


# ------------------------------------------------------------------ many tests


def test_holm_corrects_the_smallest_p_for_all_tests_and_the_largest_for_one() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=30))
def test_a_corrected_p_is_no_smaller_no_larger_than_one_and_in_the_same_order(p_values: list[float]) -> None:
    corrected = holm(p_values)
    bonferroni = [min(1.0, len(p_values) * before) for before in p_values]
    assert all(after <= bound * (1 + 1e-12) for after, bound in zip(corrected, bonferroni, strict=True))
