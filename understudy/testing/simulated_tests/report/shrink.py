"""Shrinks the faults of a run that has failed to the fewest with which it still fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from understudy.testing.simulated_tests.faults.faults import Fault
from understudy.testing.simulated_tests.outcome import Outcome
from understudy.trials.hunt.shrinking import Budget, ddmin

MOST_RUNS: Final = 80
MOST_SECONDS: Final = 45.0
"""Limits of one search: the number of runs, and real time. The result may be larger than necessary if it ends there."""


class Runs(Protocol):
    """Runs the seed with other faults than it draws."""

    def __call__(self, faults: Sequence[Fault], *, is_last: bool = False) -> Outcome | None:
        """Run it in a process of its own; return None if the process has ended without an outcome.

        Args:
            is_last: whether this is the run that is shown: with the story, and the page if one is asked for.
        """


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The faults that are left.

    Attributes:
        faults: with these the run fails in the same way.
        of: number of faults that were injected in the run that has failed.
        runs: number of runs that the search has taken.
        seconds: real time that it has taken.
        is_minimal: whether the run does not fail without any single one of the faults.
    """

    faults: tuple[Fault, ...]
    of: int
    runs: int
    seconds: float
    is_minimal: bool


class _TimedBudget(Budget):
    """A number of runs, and a time at which the last one may begin."""

    def __init__(self, runs: int, until_s: float, clock: Callable[[], float]) -> None:
        super().__init__(runs)
        self._until_s = until_s
        self._clock = clock

    def take(self) -> bool:
        if self._clock() >= self._until_s:
            self.was_exceeded = True
            return False
        return super().take()


def shrink(
    schedule: Sequence[Fault],
    outcome: Outcome,
    run: Runs,
    *,
    runs: int = MOST_RUNS,
    seconds: float = MOST_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Shrunk:
    """Return the fewest faults that were found, with which the run still fails in the way of its first problem.

    First the faults of services or of brokers are left out, then the last ones; then others, by ddmin.

    Args:
        schedule: the faults of the run.
        outcome: what the run has shown; it has failed.
        runs, seconds: limits of the search; a run in progress is not ended.
    """
    began_s = clock()
    way = outcome.problems[0].way
    budget = _TimedBudget(runs, began_s + seconds, clock)
    known: dict[tuple[Fault, ...], bool] = {}

    def fails(part: tuple[Fault, ...]) -> bool:
        if part not in known:
            result = run(part)
            known[part] = result is not None and any(problem.way == way for problem in result.problems)
        return known[part]

    def still_fails(part: tuple[Fault, ...]) -> bool:
        """As `fails`, within the limits."""
        return known[part] if part in known else budget.take() and fails(part)

    kept = tuple(schedule)
    injected = tuple(schedule[place] for place in outcome.injected)
    if len(injected) < len(kept) and still_fails(injected):
        kept = injected
    if kept and still_fails(()):
        kept = ()
    for is_of_service in (True, False):
        part = tuple(fault for fault in kept if fault.is_of_users is not is_of_service)
        if 0 < len(part) < len(kept) and still_fails(part):
            kept = part
    if len(kept) > 1:
        kept = _with_earlier_end(kept, still_fails)
        kept = ddmin(kept, fails, budget)
    return Shrunk(kept, len(injected), budget.taken, clock() - began_s, not budget.was_exceeded)


def _with_earlier_end(faults: tuple[Fault, ...], fails: Callable[[tuple[Fault, ...]], bool]) -> tuple[Fault, ...]:
    """Leave out the last faults, by bisection: the run is the same up to the first that is left out."""
    most, least = len(faults), 0
    while most - least > 1:
        middle = (most + least) // 2
        if fails(faults[:middle]):
            most = middle
        else:
            least = middle
    return faults[:most]
