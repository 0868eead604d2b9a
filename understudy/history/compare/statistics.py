"""Quantiles with bootstrap intervals, permutation tests, and Holm's correction; docs/guides/compare.md has the reasons.

Values are whole microseconds, or any other integers. A run may have several values. Failovers of one run have the
cluster, the topics and often the cause in common, so they are not independent. So whole runs are drawn at random.
Every function is pure: a function that draws at random takes the generator as an argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import comb
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Runs: TypeAlias = Sequence[Sequence[int]]
"""The values of each run of a group; a run may have none."""
Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Labels: TypeAlias = npt.NDArray[np.bool_]
"""Whether each run is in the first group, with a row for each way to distribute the runs."""

CONFIDENCE = 0.95
RESAMPLES = 2_000
PERMUTATIONS = 9_999

_TAILS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
_BLOCK = 2_000_000
"""Maximum number of elements of an array of draws: a few tens of megabytes."""


def runs_needed(percent: int) -> int:
    """Return the number of runs that a group needs for an interval of level `CONFIDENCE` for the quantile.

    The ends of an interval are among the values. With fewer runs, the probability that all values are on the same side
    of the quantile is larger than the error that is allowed at one end of the interval. It takes 6 runs for the median,
    36 for p90 and 368 for p99.
    """
    share = percent / 100
    needed = 1
    while max(share, 1 - share) ** needed > (1 - CONFIDENCE) / 2:
        needed += 1
    return needed


def bootstrap_quantiles(
    runs: Runs, percents: Sequence[int], generator: np.random.Generator
) -> tuple[Integers, Integers]:
    """Find nearest-rank quantiles of `RESAMPLES` samples. Each has as many runs as the group, drawn with replacement.

    Returns:
        All values, sorted; and the index of the quantile among them, with a row for each sample and a column for each
        of `percents`. Runs without a value are left out.

    Raises:
        ValueError: no run has a value.
    """
    filled = [run for run in runs if run]
    if not filled:
        raise ValueError("no run has a value")
    values = np.concatenate([np.asarray(run, dtype=np.int64) for run in filled])
    run_of_value = np.repeat(np.arange(len(filled)), [len(run) for run in filled])
    order = np.argsort(values, kind="stable")
    values, run_of_value = values[order], run_of_value[order]
    places = np.empty((RESAMPLES, len(percents)), dtype=np.int64)
    step = max(1, _BLOCK // len(values))
    for begin in range(0, RESAMPLES, step):
        block = slice(begin, min(begin + step, RESAMPLES))
        up_to = np.cumsum(_drawn_times(block.stop - begin, len(filled), generator)[:, run_of_value], axis=1)
        for column, percent in enumerate(percents):
            rank = (percent * up_to[:, -1:] + 99) // 100
            places[block, column] = np.argmax(up_to >= rank, axis=1)
    return values, places


def _drawn_times(samples: int, runs: int, generator: np.random.Generator) -> Integers:
    """Return how often each run is drawn, with a row for each sample of `runs` runs."""
    drawn = generator.integers(runs, size=(samples, runs)) + runs * np.arange(samples)[:, None]
    return np.bincount(drawn.ravel(), minlength=samples * runs).reshape(samples, runs)


def quantile_interval(values: Integers, places: Integers) -> tuple[int, int]:
    """Return an interval of level `CONFIDENCE` for one quantile: the percentile interval, one value wider at each end.

    Quantiles of samples are values of the group, so the bootstrap's distribution has steps. With ends on the steps
    themselves the interval covers the true quantile too rarely: for p90 in 83 % of groups of 36 runs, instead of 95 %.

    Args:
        values, places: the values and one column of the indexes that `bootstrap_quantiles` returns.
    """
    low, high = np.quantile(places, _TAILS, method="inverted_cdf")
    return int(values[max(int(low) - 1, 0)]), int(values[min(int(high) + 1, len(values) - 1)])


def difference_interval(first: Integers, second: Integers) -> tuple[int, int]:
    """Return the percentile interval of level `CONFIDENCE` for the difference of two groups' quantiles.

    Args:
        first, second: the quantile in each sample of each group.
    """
    low, high = np.quantile(first - second, _TAILS, method="inverted_cdf")
    return int(low), int(high)


def mean_ranks(groups: tuple[Runs, Runs]) -> tuple[Floats, Floats]:
    """Rank the values of two groups together, equal values alike, and return the mean rank of each run.

    A run without a value has the rank NaN.
    """
    values = np.array([value for group in groups for run in group for value in run], dtype=np.int64)
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    rank = (np.cumsum(times) - (times - 1) / 2)[place]
    sizes = np.array([len(run) for group in groups for run in group])
    run_of_value = np.repeat(np.arange(len(sizes)), sizes)
    sums = np.bincount(run_of_value, weights=rank, minlength=len(sizes))
    means = np.divide(sums, sizes, out=np.full(len(sizes), np.nan), where=sizes > 0)
    return means[: len(groups[0])], means[len(groups[0]) :]


def permutation_p_values(
    first: Floats, second: Floats, generator: np.random.Generator, *, permutations: int = PERMUTATIONS
) -> Floats:
    """Return the probability of a difference at least as large if both groups have the same distribution.

    Each column is one quantity, each row a run; NaN stands for a run without a value. The statistic is the difference
    of the groups' means, without its sign. If there are at most `permutations` ways to distribute the runs over two
    groups of these sizes, all are tried. Otherwise `permutations` ways are drawn, and the observed one is added.

    Args:
        first, second: the runs of each group, for example their ranks.
    """
    both = np.concatenate([first, second])
    known = ~np.isnan(both)
    values, counted = np.where(known, both, 0.0), known.astype(np.float64)
    in_first = np.zeros((1, len(both)), dtype=bool)
    in_first[0, : len(first)] = True
    # Sums in another order differ in their last digits; equal differences must count as equal.
    observed = _differences(in_first, values, counted)[0] * (1 - 1e-9)
    as_large = np.zeros(both.shape[1])
    every = comb(len(both), len(first)) <= permutations
    total = comb(len(both), len(first)) if every else permutations
    for labels in (
        _all_labels(len(both), len(first)) if every else _drawn_labels(total, len(both), len(first), generator)
    ):
        as_large += (_differences(labels, values, counted) >= observed).sum(axis=0)
    return as_large / total if every else (as_large + 1) / (total + 1)


def smallest_p(first: int, second: int, *, permutations: int = PERMUTATIONS) -> float:
    """Return the smallest p value that `permutation_p_values` can find for groups of these sizes."""
    ways = comb(first + second, first)
    mirrored = 2 if first == second else 1
    return mirrored / ways if ways <= permutations else 1 / (permutations + 1)


def _differences(in_first: Labels, values: Floats, counted: Floats) -> Floats:
    """Return the absolute difference of the two groups' means for each row of labels and each column of values.

    If a group has no value left, the difference is infinite, so that it counts against a small p.
    """
    labels = in_first.astype(np.float64)
    sums, sizes = labels @ values, labels @ counted
    other_sums, other_sizes = values.sum(axis=0) - sums, counted.sum(axis=0) - sizes
    with np.errstate(divide="ignore", invalid="ignore"):
        differences: Floats = np.abs(sums / sizes - other_sums / other_sizes)
    return np.where(np.isnan(differences), np.inf, differences)


def _all_labels(size: int, first: int) -> Iterator[Labels]:
    chosen = np.array(list(combinations(range(size), first)), dtype=np.int64)
    labels = np.zeros((len(chosen), size), dtype=bool)
    np.put_along_axis(labels, chosen, True, axis=1)
    yield labels


def _drawn_labels(total: int, size: int, first: int, generator: np.random.Generator) -> Iterator[Labels]:
    step = max(1, _BLOCK // size)
    for begin in range(0, total, step):
        order = generator.random((min(step, total - begin), size))
        yield order <= np.partition(order, first - 1, axis=1)[:, first - 1 : first]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected for their number by Holm's method, in the same order.

    If every result with a corrected p of at most 0.05 is called a change, the probability that any of them is noise is
    at most 0.05, however the tests depend on each other.
    """
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = min(1.0, max(highest, (len(p_values) - place) * p_values[index]))
        corrected[index] = highest
    return corrected
