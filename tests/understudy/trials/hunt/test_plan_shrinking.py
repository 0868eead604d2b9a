"""Shrinking of plans: which parts are tried and kept, and that it stays the same problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from tests.timing import shared
from understudy.checks.check import Violation
from understudy.trials.hunt.plan_shrinking import kind_of, main_problem, shrink
from understudy.trials.seeds.seed_plans import SeedPlan, draw_plan
from understudy.trials.seeds.seeds import SeedReport, run_seed

VIOLATED = str(Violation("C4a", "it holds", "it does not", "broker-1/1#7"))
UNSETTLED = "Unsettled: seed 1, not settled within 30 s without faults: a finding"


@shared
def report() -> SeedReport:
    """A run that ended well; most tests give it problems, and plans of their own."""
    return run_seed(6, 9)


def with_plan(plan: SeedPlan, *problems: str) -> SeedReport:
    return replace(report(), plan=plan, problems=problems)


def failing_where(condition: Callable[[SeedPlan], bool], *problems: str) -> Callable[[SeedPlan], SeedReport]:
    return lambda plan: with_plan(plan, *(problems or (VIOLATED,)) if condition(plan) else ())


def test_what_a_failure_needs_is_left() -> None:
    plan = report().plan
    fault, action = plan.schedule.faults[0], plan.actions[-1]

    def fails(tried: SeedPlan) -> bool:
        return fault in tried.schedule.faults and action in tried.actions and "producer-2" in tried.load

    shrunk = shrink(with_plan(plan, VIOLATED), run=failing_where(fails))
    assert (shrunk.plan.schedule.faults, shrunk.plan.actions) == ((fault,), (action,))
    assert shrunk.plan.load == ("producer-2",)
    assert (shrunk.plan.brokers, shrunk.plan.partitions) == (max(3, fault.target), 1)
    left = shrunk.plan
    assert not any((left.reordering, left.wrong_clocks, left.own_clocks, left.unclean_election))
    assert shrunk.plan.schedule.unknown_probability == 0
    assert shrunk.plan.schedule.healed_at_ms <= plan.schedule.healed_at_ms
    assert shrunk.is_minimal
    assert shrunk.problem == VIOLATED


def test_an_absent_broker_that_the_failure_needs_stays_one_of_the_brokers() -> None:
    plan = structs.replace(report().plan, brokers=5, absent=4)
    needs_it = shrink(with_plan(plan, VIOLATED), run=failing_where(lambda tried: tried.absent is not None)).plan
    assert (needs_it.absent, needs_it.brokers) == (4, 4)
    does_not = shrink(with_plan(plan, VIOLATED), run=failing_where(lambda tried: True)).plan
    assert (does_not.absent, does_not.brokers) == (None, 3)


def test_a_run_with_another_problem_is_not_kept() -> None:
    failed = with_plan(report().plan, UNSETTLED, VIOLATED)
    shrunk = shrink(failed, run=failing_where(lambda plan: True, UNSETTLED))
    assert shrunk.kind == "C4a", "an invariant comes before the cluster that does not settle"
    assert shrunk.report is failed


def test_members_that_the_failure_needs_are_left_and_end_with_the_faults() -> None:
    plan = draw_plan(seed_with_groups(), 40)
    needed = next(member for member in plan.members if member.ends_at_ms is not None)
    shrunk = shrink(
        with_plan(plan, VIOLATED),
        run=failing_where(lambda tried: needed.name in [member.name for member in tried.members]),
    ).plan
    (left,) = shrunk.members
    assert structs.replace(left, ends_at_ms=needed.ends_at_ms) == needed
    assert left.joins_at_ms < shrunk.schedule.healed_at_ms
    assert left.ends_at_ms is not None
    assert left.ends_at_ms <= shrunk.schedule.healed_at_ms < plan.schedule.healed_at_ms


def seed_with_groups() -> int:
    return next(seed for seed in range(100) if any(member.ends_at_ms for member in draw_plan(seed, 40).members))


def test_shrinking_ends_when_no_run_is_left() -> None:
    ran: list[SeedPlan] = []

    def run(plan: SeedPlan) -> SeedReport:
        ran.append(plan)
        return with_plan(plan)

    shrunk = shrink(with_plan(report().plan, VIOLATED), most_runs=5, run=run)
    assert len(ran) == shrunk.runs == 5
    assert not shrunk.is_minimal
    assert shrunk.plan == report().plan


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        (VIOLATED, "C4a"),
        (UNSETTLED, "Unsettled"),
        ("Deadlock: at 12.000 ms nothing can run", "Deadlock"),
        ("broker-2 ended at 733 ms with KeyError('x')", "broker-N ended at N ms with KeyError('x')"),
    ],
)
def test_equal_problems_have_equal_kinds(problem: str, kind: str) -> None:
    assert kind_of(problem) == kind


def test_without_a_violated_invariant_the_first_problem_counts() -> None:
    assert main_problem(with_plan(report().plan, UNSETTLED, "unhandled: x")) == UNSETTLED
