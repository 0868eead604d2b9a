"""Searches random seeds for one that has a problem while a fence or a fix is switched off.

A run without a fence or a fix is a mutant with a known defect: Kafka once had it. The search shows how many seeds it
takes until a check finds the defect, and which check that is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from understudy.foundation.eventlog.fences import SWITCHES, Switch
from understudy.history.writing import ordinal
from understudy.trials.seeds.seeds import DEFAULT_SECONDS, run_seed
from understudy.trials.seeds.worker_processes import worker_pool

SETTLES: Final = "settles"
"""Name for a cluster that does not settle after the last fault."""
NO_FAILURE: Final = "no failure"
"""Name for exceptions, failed tasks and brokers that end by themselves."""

_CHECK: Final = re.compile(r"([A-Z]\d+[a-c]?) violated")


class SearchResult(NamedTuple):
    """The result of a search for one switch.

    Attributes:
        seeds: number of seeds that were run without it.
        hits: number of times that it would have decided something in them.
        seed: the first seed with a problem; None without one.
        checks: the checks that found the problem: ids of checks, `settles`, `no failure`.
        holds_when_on: whether the same seed has no problem with the switch on.
    """

    switch: Switch
    seeds: int
    hits: int
    seed: int | None = None
    checks: tuple[str, ...] = ()
    holds_when_on: bool = True

    @property
    def is_found(self) -> bool:
        return self.seed is not None and self.holds_when_on

    def __str__(self) -> str:
        name = f"{self.switch.value:<33} {self.hits:>7,} hits  "
        if self.seed is None:
            return f"{name}NOT found by {self.seeds} seeds"
        if not self.holds_when_on:
            return f"{name}nothing is shown: seed {self.seed} also has problems with it"
        return f"{name}found by seed {self.seed}, the {ordinal(self.seeds)}: {', '.join(self.checks)}"


def check_of(problem: str) -> str:
    """Return the id of the check that a problem of a seed comes from, or `settles` or `no failure`."""
    found = _CHECK.match(problem)
    if found is not None:
        return found[1]
    return SETTLES if problem.startswith("Unsettled") else NO_FAILURE


def search(name: str, seeds: Sequence[int], seconds: int = DEFAULT_SECONDS) -> SearchResult:
    """Run seeds without the fence or fix of this name until one has a problem; then run that seed with it."""
    switch = SWITCHES[name]
    hits = 0
    for number, seed in enumerate(seeds, 1):
        report = run_seed(seed, seconds, fences_off=(switch,))
        hits += report.judgement.fence_hits[switch]
        if report.problems:
            checks = tuple(dict.fromkeys(map(check_of, report.problems)))
            return SearchResult(switch, number, hits, seed, checks, not run_seed(seed, seconds).problems)
    return SearchResult(switch, len(seeds), hits)


def search_all(
    names: Sequence[str], seeds: Sequence[int], seconds: int = DEFAULT_SECONDS, *, workers: int = 1
) -> Iterator[SearchResult]:
    """Search for each switch on `workers` processes; the results come as they are ready."""
    one = partial(search, seeds=seeds, seconds=seconds)
    if workers <= 1:
        yield from map(one, names)
        return
    with worker_pool(workers, runs_per_process=1) as pool:
        yield from pool.imap_unordered(one, names)
