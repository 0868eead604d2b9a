"""Shrinks the plan of a failed seed to a small one that fails in the same way, which is easier to understand.

A run fails in the same way if it violates the same invariant, or has a problem of the same kind. A smaller plan has
less load of clients, fewer members of groups, faults and actions, fewer brokers and partitions, and a shorter run.
Every random number depends on all that has happened before, so a smaller plan is another history: only a run of it
shows what it does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import msgspec

from understudy.trials.hunt.shrinking import Budget, ddmin
from understudy.trials.seeds.seed_plans import SeedPlan
from understudy.trials.seeds.seeds import SeedReport, run_plan

MOST_RUNS = 200
"""Maximum number of runs to shrink one seed. Most seeds need a third of it."""
FEWEST_BROKERS = 3
_HALVINGS = 4
_QUIET_S = 2
_VIOLATION = re.compile(r"([A-Z]\d+[a-z]?) violated at ")
_EXCEPTION = re.compile(r"([A-Z]\w+): ")
_NUMBER = re.compile(r"\d+")

RunPlan: TypeAlias = Callable[[SeedPlan], SeedReport]


def kind_of(problem: str) -> str:
    """Return the kind of a problem, which equal problems of different runs have in common.

    The kind is the id of the invariant, the name of the exception that ended the run, as in `Unsettled`, or else the
    text without its numbers.
    """
    found = _VIOLATION.match(problem) or _EXCEPTION.match(problem)
    return found.group(1) if found else _NUMBER.sub("N", problem)


def main_problem(report: SeedReport) -> str:
    """Return the problem that a failed seed is shrunk for: the first violated invariant, else the first problem.

    A cluster that does not settle often has violated an invariant before.
    """
    return next(filter(_VIOLATION.match, report.problems), report.problems[0])


class Shrunk(NamedTuple):
    """The result of shrinking.

    Attributes:
        report: the run of the smallest plan that was found.
        kind: the kind of the problem that this run shares with the run of the whole plan. See `kind_of`.
        runs: number of runs that it took.
        is_minimal: whether the runs were enough. Then no single fault or action can be left out.
    """

    report: SeedReport
    kind: str
    runs: int
    is_minimal: bool

    @property
    def plan(self) -> SeedPlan:
        return self.report.plan

    @property
    def problem(self) -> str:
        """The problem of the shrunk run."""
        return next(problem for problem in self.report.problems if kind_of(problem) == self.kind)


def shrink(failed: SeedReport, *, most_runs: int = MOST_RUNS, run: RunPlan = run_plan) -> Shrunk:
    """Shrink the plan of a failed run.

    Args:
        most_runs: number of runs after which the smallest plan found so far is returned.
    """
    search = _Search(failed, Budget(most_runs), run)
    search.leave_out("load")
    search.leave_out("members")
    search.end_earlier()
    search.leave_out_lost_answers()
    before = None
    while before != (left := search.amounts()):
        before = left
        search.leave_out("actions")
        search.leave_out_faults()
        search.simplify_cluster()
    search.end_earlier()
    return Shrunk(search.best, search.kind, search.budget.taken, not search.budget.was_exceeded)


class _Search:
    """The smallest plan that was found to fail in the same way, and the runs that are left."""

    def __init__(self, failed: SeedReport, budget: Budget, run: RunPlan) -> None:
        self.best = failed
        self.kind = kind_of(main_problem(failed))
        self.budget = budget
        self._run = run

    def amounts(self) -> tuple[int, int]:
        """The numbers of faults and actions that are left."""
        return len(self.best.plan.schedule.faults), len(self.best.plan.actions)

    def leave_out(self, name: str) -> None:
        """Try with fewer items of a field of the plan: its load, members or actions."""
        ddmin(getattr(self.best.plan, name), lambda items: self._fails(**{name: items}), self.budget)

    def leave_out_faults(self) -> None:
        schedule = self.best.plan.schedule
        ddmin(schedule.faults, lambda faults: self._fails(schedule=replace(schedule, faults=faults)), self.budget)

    def leave_out_lost_answers(self) -> None:
        """Try without lost answers of ZooKeeper, except those that faults lose."""
        if self.best.plan.schedule.unknown_probability:
            self._try(schedule=replace(self.best.plan.schedule, unknown_probability=0.0))

    def simplify_cluster(self) -> None:
        """Try without an absent broker, then with the usual order of callbacks, right clocks, one clock, clean
        elections, fewer brokers, and one partition."""
        if self.best.plan.absent is not None:
            self._try(absent=None)
        for name in ("reordering", "wrong_clocks", "own_clocks", "unclean_election"):
            if getattr(self.best.plan, name):
                self._try(**{name: False})
        for brokers in range(max(FEWEST_BROKERS, self.best.plan.absent or 0), self.best.plan.brokers):
            schedule = self.best.plan.schedule
            left = tuple(fault for fault in schedule.faults if fault.target <= brokers)
            if self._try(brokers=brokers, schedule=replace(schedule, faults=left)):
                break
        if self.best.plan.partitions > 1:
            self._try(partitions=1)

    def end_earlier(self) -> None:
        """Search for the shortest run, by halving. Later faults and actions are left out."""
        from_ms, to_ms = 0, self.best.plan.schedule.healed_at_ms
        for _ in range(_HALVINGS):
            middle_ms = (from_ms + to_ms) // 2
            if self._try(**dict(_ended_at(self.best.plan, middle_ms))):
                to_ms = middle_ms
            else:
                from_ms = middle_ms

    def _try(self, **changes: object) -> bool:
        """Run the best plan with changes, if a run is left; return whether it fails in the same way."""
        return self.budget.take() and self._fails(**changes)

    def _fails(self, **changes: object) -> bool:
        """Run the best plan with changes; keep it if it fails in the same way."""
        report = self._run(msgspec.structs.replace(self.best.plan, **changes))
        is_same = self.kind in map(kind_of, report.problems)
        if is_same:
            self.best = report
        return is_same


def _ended_at(plan: SeedPlan, healed_at_ms: int) -> Iterator[tuple[str, object]]:
    """Yield the changed fields of a plan whose faults are healed at an earlier time, and which ends soon after it."""
    faults = tuple(
        replace(fault, lasts_ms=min(fault.lasts_ms, healed_at_ms - fault.at_ms))
        for fault in plan.schedule.faults
        if fault.at_ms < healed_at_ms
    )
    yield "schedule", replace(plan.schedule, faults=faults, healed_at_ms=healed_at_ms)
    yield "actions", tuple(action for action in plan.actions if action.at_ms < healed_at_ms)
    yield (
        "members",
        tuple(
            msgspec.structs.replace(
                member, ends_at_ms=None if member.ends_at_ms is None else min(member.ends_at_ms, healed_at_ms)
            )
            for member in plan.members
            if member.joins_at_ms < healed_at_ms
        ),
    )
    yield "seconds", min(plan.seconds, -(-healed_at_ms // 1000) + _QUIET_S)
