"""Searches random seeds for one that notices that a fence or a fix is switched off.

A run without a fence or a fix is a mutant that somebody knows how to name: Kafka was once like that. The question is
how many seeds it takes until a check notices, and which check that is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from understudy.foundation.eventlog.fences import SWITCHES, Switch
from understudy.trials.seeds.seeds import DEFAULT_SECONDS, run_seed
from understudy.trials.seeds.worker_processes import worker_pool

SETTLES: Final = "settles"
"""Stands for a cluster that does not settle after the last fault."""
NO_FAILURE: Final = "no failure"
"""Stands for exceptions, failed tasks and brokers that end by themselves."""

_CHECK: Final = re.compile(r"([A-Z]\d+[a-c]?) violated")


class SearchResult(NamedTuple):
    """What a search has found for one switch.

    Attributes:
        seeds: how many seeds were run without it.
        hits: how often it would have decided something in them.
        seed: the first seed that noticed; None without one.
        checks: what noticed it there: ids of checks, `settles`, `no failure`.
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
            return f"{name}nothing is shown: seed {self.seed} has problems with it, too"
        return f"{name}found by seed {self.seed}, the {ordinal(self.seeds)}: {', '.join(self.checks)}"


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `11th`."""
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def check_of(problem: str) -> str:
    """Return the id of the check that a problem of a seed comes from, or `settles` or `no failure`."""
    found = _CHECK.match(problem)
    if found is not None:
        return found[1]
    return SETTLES if problem.startswith("Unsettled") else NO_FAILURE


def search(name: str, seeds: Sequence[int], seconds: int = DEFAULT_SECONDS) -> SearchResult:
    """Run seeds without one fence or fix, by its name, until one has a problem; then run that one with it."""
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
