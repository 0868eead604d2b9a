"""Compares groups of runs: the distribution of each quantity, and its change against a baseline.

The same runs give the same comparison to the last digit. The seed of each random generator is derived from the names of
its group and of its quantity or baseline, so that a further group changes no other group's numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace

import numpy as np

from understudy.history.compare.groups import (
    QUANTITIES,
    UNKNOWN,
    IncompleteRun,
    Key,
    Observation,
    RunGroup,
    baseline_keys,
    check_runs,
    group_runs,
    in_order,
    incomplete_of,
)
from understudy.history.compare.statistics import (
    PERMUTATIONS,
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
from understudy.history.plots.distribution import MOST_OF_GROUP

PERCENTS = (50, 90, 99)
SIGNIFICANT = 0.05
"""Largest corrected p value that counts as a change."""
WORST = 5
"""Number of the worst runs that are shown."""
WORST_BY = ("outage", "leaderless")
"""Names of the quantities by which the worst runs are chosen."""
CURVE_POINTS = 400
"""Maximum number of points of a curve: slightly more than a picture has pixels across."""

CHANGED = "changed"
NOISE = "noise"
TOO_FEW = "too few runs"
BELOW_CLOCKS = "below clock error"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDistribution:
    """One quantity in one group. Values and intervals are in the whole numbers of `groups.QUANTITIES`."""

    n: int
    """The number of values."""
    runs: int
    """The number of runs that have a value."""
    quantiles: Mapping[int, int | None]
    """Nearest-rank quantiles by percent; 100 is the largest value."""
    intervals: Mapping[int, tuple[int, int] | None]
    """The interval of each quantile but the largest value; None if there are too few runs for one."""
    within: int
    """By how much each value, and so each quantile, may be wrong; 0 if each run is on one clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """The difference of one quantity between a group and its baseline group."""

    baseline: Key
    difference: int
    """Difference of the medians."""
    share: float | None
    """The difference as a fraction of the baseline's median; None if that is 0."""
    interval: tuple[int, int] | None
    p: float
    corrected_p: float
    within: int
    """By how much the difference may be wrong, because clocks of several machines were aligned."""
    verdict: str
    """`CHANGED`; `BELOW_CLOCKS` if p is small enough, but the difference is not above `within`; `NOISE`; or `TOO_FEW`
    if even the smallest p would be too large after the correction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """The numbers of one group on the pages. Its size does not depend on the number of runs."""

    key: Key
    modes: tuple[str, ...]
    """The modes of the runs, sorted."""
    runs: int
    failovers: int
    doubtful: int
    """The number of values that are left out, because their evidence may be in missing records."""
    distributions: Mapping[str, ValueDistribution]
    """By the name of the quantity, like the next two fields."""
    curves: Mapping[str, tuple[tuple[int, float], ...]]
    """Values in order, and the share of values up to each: at most `CURVE_POINTS`."""
    shown: Mapping[str, tuple[RunValue, ...]]
    """The values in order, each with its run; only the `WORST` largest if there are more than `MOST_OF_GROUP`."""
    medians: Mapping[str, tuple[int, ...]]
    """The median of each bootstrap sample; empty if the median has no interval."""
    mean_phases_ms: Mapping[str, float]
    leaderless_s_by_cause: Mapping[str, tuple[float, int]]
    """The mean leaderless partition-seconds of the runs with each cause, and the number of these runs."""
    worst: Mapping[str, tuple[WorstRun, ...]]
    """As in `Comparison`, of this group alone."""
    changes: Mapping[str, MetricChange] = field(default_factory=dict)
    """The changes of quantities that can be compared; `assemble` adds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunValue:
    """A value, and the run that it comes from. `value` is as in `ValueDistribution`, `opened_by` as in `WorstRun`."""

    run: str
    opened_by: str
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstRun:
    """A run with a large value."""

    run: str
    opened_by: str
    """The command that shows this run; empty if none is known."""
    key: Key
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Everything that the pages show."""

    by: tuple[str, ...]
    baseline: Mapping[str, str]
    groups: tuple[GroupSummary, ...]
    tests: int
    """Number of tests, for which the p values are corrected."""
    worst: Mapping[str, tuple[WorstRun, ...]]
    """The runs with the largest outage, and the runs with the largest leaderless time."""
    incomplete: tuple[IncompleteRun, ...]
    """The runs with missing records, sorted by their ids."""
    uses_incomplete: bool
    """Whether they are in the groups; they are left out unless that is asked for."""

    @property
    def runs(self) -> int:
        return sum(group.runs for group in self.groups)

    @property
    def failovers(self) -> int:
        return sum(group.failovers for group in self.groups)

    @property
    def doubtful(self) -> int:
        return sum(group.doubtful for group in self.groups)

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of all runs that are known, sorted."""
        return tuple(sorted({mode for group in self.groups for mode in group.modes} - {UNKNOWN}))


def compare(
    runs: Iterable[Observation], by: Sequence[str], baseline: Mapping[str, str], *, incomplete: bool = False
) -> Comparison:
    """Compare groups of runs with equal values of the settings `by`.

    Args:
        baseline: values of some of these settings; each other group is compared with the group that has them, and
            otherwise its own values.
        incomplete: also use runs with missing records, without the values that are in doubt.

    Raises:
        CannotCompare: a setting is unknown, no run has a failover, all of them have missing records, or `baseline`
            matches no run.
    """
    given = list(runs)
    without = incomplete_of(given)
    groups = {group.key: group for group in group_runs((run for run in given if incomplete or not run.missing), by)}
    failovers = sum(group.failovers for group in groups.values())
    check_runs(len(groups), failovers, () if incomplete else without)
    pairs = baseline_keys(groups, by, baseline)
    permutations = permutations_for(pairs)
    tested = {key: p_values_of(groups[key], groups[other], permutations) for key, other in pairs.items()}
    summaries = map(summarize, groups.values())
    return assemble(summaries, tested, pairs, by, baseline, incomplete=without, uses_incomplete=incomplete)


def permutations_for(pairs: Sized) -> int:
    """Return the number of permutations that a test needs if these pairs of groups are compared.

    The correction multiplies a p value by up to the number of tests, so the smallest p value has to allow for that.
    """
    return max(PERMUTATIONS, 100 * len(pairs) * len(QUANTITIES))


def summarize(group: RunGroup) -> GroupSummary:
    """Return the numbers of one group."""
    samples = {quantity.name: _sampled(group, quantity.name) for quantity in QUANTITIES}
    return GroupSummary(
        key=group.key,
        modes=group.modes,
        runs=len(group.runs),
        failovers=group.failovers,
        doubtful=group.doubtful,
        distributions={name: distribution for name, (distribution, _) in samples.items()},
        curves={name: _curve(group.values(name)) for name in samples},
        shown={name: _shown(group, name) for name in samples},
        medians={name: medians for name, (_, medians) in samples.items()},
        mean_phases_ms=group.mean_phases_ms(),
        leaderless_s_by_cause=group.leaderless_s_by_cause(),
        worst={name: _worst(group, name) for name in WORST_BY},
    )


def p_values_of(group: RunGroup, baseline: RunGroup, permutations: int) -> dict[str, float]:
    """Return the uncorrected p value of each quantity for which both groups have values."""
    names = [quantity.name for quantity in QUANTITIES if group.values(quantity.name) and baseline.values(quantity.name)]
    if not names:
        return {}
    ranks = [mean_ranks((group.values_by_run(name), baseline.values_by_run(name))) for name in names]
    first, second = (np.column_stack([pair[side] for pair in ranks]) for side in (0, 1))
    generator = _generator(*group.key, "against", *baseline.key)
    p_values = permutation_p_values(first, second, generator, permutations=permutations)
    return dict(zip(names, p_values.tolist(), strict=True))


def assemble(
    summaries: Iterable[GroupSummary],
    p_values: Mapping[Key, Mapping[str, float]],
    pairs: Mapping[Key, Key],
    by: Sequence[str],
    baseline: Mapping[str, str],
    *,
    incomplete: tuple[IncompleteRun, ...],
    uses_incomplete: bool,
) -> Comparison:
    """Assemble the comparison from the numbers of its groups.

    Args:
        p_values: the results of `p_values_of`, by the key of the group.
        pairs: the baseline of each group that has one.
        incomplete, uses_incomplete: as in `Comparison`.
    """
    groups = {group.key: group for group in sorted(summaries, key=lambda group: in_order(group.key))}
    tests = [(key, name) for key in groups for name in p_values.get(key, ())]
    corrected = holm([p_values[key][name] for key, name in tests])
    permutations = permutations_for(pairs)
    changes: dict[Key, dict[str, MetricChange]] = {key: {} for key in groups}
    for (key, name), corrected_p in zip(tests, corrected, strict=True):
        group, other = groups[key], groups[pairs[key]]
        sizes = (each.distributions[name].runs for each in (group, other))
        is_possible = smallest_p(*sizes, permutations=permutations) * len(tests) <= SIGNIFICANT
        p = p_values[key][name]
        changes[key][name] = _change(group, other, name, p=p, corrected_p=corrected_p, is_possible=is_possible)
    return Comparison(
        by=tuple(by),
        baseline=baseline,
        groups=tuple(replace(group, changes=changes[group.key]) for group in groups.values()),
        tests=len(tests),
        worst={name: _largest(worst for group in groups.values() for worst in group.worst[name]) for name in WORST_BY},
        incomplete=incomplete,
        uses_incomplete=uses_incomplete,
    )


def _change(
    group: GroupSummary, baseline: GroupSummary, quantity: str, *, p: float, corrected_p: float, is_possible: bool
) -> MetricChange:
    """Return the change of one quantity.

    Args:
        is_possible: whether groups of these sizes could have a corrected p that is small enough.
    """
    found, other = group.distributions[quantity], baseline.distributions[quantity]
    mine, theirs = found.quantiles[50], other.quantiles[50]
    assert mine is not None
    assert theirs is not None
    within = found.within + other.within
    significant = BELOW_CLOCKS if within and abs(mine - theirs) <= within else CHANGED
    medians, other_medians = (np.array(each.medians[quantity], dtype=np.int64) for each in (group, baseline))
    return MetricChange(
        baseline=baseline.key,
        difference=mine - theirs,
        share=(mine - theirs) / theirs if theirs else None,
        interval=difference_interval(medians, other_medians) if len(medians) and len(other_medians) else None,
        p=p,
        corrected_p=corrected_p,
        within=within,
        verdict=significant if corrected_p <= SIGNIFICANT else NOISE if is_possible else TOO_FEW,
    )


def _sampled(group: RunGroup, quantity: str) -> tuple[ValueDistribution, tuple[int, ...]]:
    """Return one quantity in one group, and the medians of its bootstrap samples, as in `GroupSummary`."""
    by_run = group.values_by_run(quantity)
    values = group.values(quantity)
    runs = sum(bool(found) for found in by_run)
    percents = [percent for percent in PERCENTS if runs >= runs_needed(percent)]
    intervals: dict[int, tuple[int, int] | None] = dict.fromkeys(PERCENTS)
    medians: tuple[int, ...] = ()
    if percents:
        found, places = bootstrap_quantiles(by_run, percents, _generator(*group.key, quantity))
        intervals |= {percent: quantile_interval(found, places[:, column]) for column, percent in enumerate(percents)}
        medians = tuple(found[places[:, 0]].tolist())
    quantiles = {percent: nearest_rank(values, percent) for percent in (*PERCENTS, 100)}
    distribution = ValueDistribution(
        n=len(values), runs=runs, quantiles=quantiles, intervals=intervals, within=group.within(quantity)
    )
    return distribution, medians


def _curve(values: Sequence[int]) -> tuple[tuple[int, float], ...]:
    """Return the empirical distribution of sorted values. Of many values, evenly spaced ones and the last are kept."""
    every = -(-len(values) // CURVE_POINTS) or 1
    places = sorted({*range(every - 1, len(values), every), len(values) - 1} - {-1})
    return tuple((values[place], (place + 1) / len(values)) for place in places)


def _shown(group: RunGroup, quantity: str) -> tuple[RunValue, ...]:
    found = [
        RunValue(run=run.run, opened_by=run.opened_by, value=value)
        for run in group.runs
        for value in run.values[quantity]
    ]
    found.sort(key=lambda each: (each.value, each.run))
    return tuple(found if len(found) <= MOST_OF_GROUP else found[-WORST:])


def _worst(group: RunGroup, quantity: str) -> tuple[WorstRun, ...]:
    return _largest(
        WorstRun(run=run.run, opened_by=run.opened_by, key=group.key, value=max(run.values[quantity]))
        for run in group.runs
        if any(run.values[quantity])
    )


def _largest(runs: Iterable[WorstRun]) -> tuple[WorstRun, ...]:
    return tuple(sorted(runs, key=lambda worst: (-worst.value, worst.run))[:WORST])


def _generator(*names: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32("\0".join(names).encode()))
