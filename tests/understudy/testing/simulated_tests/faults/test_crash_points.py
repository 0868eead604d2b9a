"""A service is killed at each of its own awaits in turn, and the runs differ in the place alone."""

from __future__ import annotations

import asyncio
from typing import Any

from understudy.clusters.virtual.strikes import Place
from understudy.clusters.virtual.world import CrashPoint
from understudy.testing import point, simulated
from understudy.testing.simulated_tests.arguments import checked_arguments
from understudy.testing.simulated_tests.decorator import simulated_test
from understudy.testing.simulated_tests.faults.crash_points import crash_point, in_order
from understudy.testing.simulated_tests.outcome import FailureKind, Outcome
from understudy.testing.simulated_tests.run import TestRun
from understudy.testing.simulated_tests.workers.runs import BoundTest, Explanation

ARGUMENTS = checked_arguments({"brokers": 1, "faults": "none", "crash_points": "billing"})
billed: list[int] = []
committed: list[int] = []


async def billing() -> None:
    """Commit before processing, as no service should."""
    for order in range(max(committed, default=-1) + 1, 3):
        await asyncio.sleep(0.1)
        committed.append(order)
        await point("before processing")
        await asyncio.sleep(0.1)
        billed.append(order)


async def each_order_is_billed(cluster: Any) -> None:
    billed.clear()
    committed.clear()
    cluster.start(billing)
    await cluster.wait_until(lambda: 2 in committed and not cluster.world.services["billing"].is_running, "all")
    await asyncio.sleep(2)
    assert billed == [0, 1, 2]


def run(at: CrashPoint, test: Any = each_order_is_billed) -> Outcome:
    return TestRun(test, (), {}, ARGUMENTS, 0, crash_point=at).run()


def test_the_runs_find_the_places_at_which_a_service_must_not_die() -> None:
    counted = run(CrashPoint("billing"))
    assert counted.has_passed
    assert [words.partition(" at ")[0] for _, words in counted.places[:3]] == [
        "billing",
        "the point 'before processing'",
        "billing",
    ]
    safe, unsafe = crash_point("billing", counted.places, 1), crash_point("billing", counted.places, 2)
    assert run(safe).has_passed
    failed = run(unsafe)
    assert [problem.kind for problem in failed.problems] == [FailureKind.TEST]
    assert failed.crash_point == "billing is killed at await 2, the point 'before processing', and started again"
    assert billed == [1, 2]


def test_a_service_that_is_not_started_is_named() -> None:
    async def test(cluster: Any) -> None:
        cluster.start(billing, name="invoicing")
        await asyncio.sleep(1)

    (problem,) = run(CrashPoint("billing"), test).problems
    assert problem.text == "crash_points names the service 'billing', and the test has started invoicing"


def test_places_are_spread_however_many_are_taken() -> None:
    places = [Place(number, "the loop" if number > 2 else f"line {number}") for number in range(1, 101)]
    order = in_order(places)
    assert sorted(order) == places
    assert [place.number for place in order[:3]] == [1, 2, 3]
    for count in (11, 19, 35):
        numbers = sorted(place.number for place in order[:count])
        widest = max(after - before for before, after in zip(numbers, [*numbers[1:], 101], strict=True))
        assert widest <= 3 * 100 / count


async def careful_billing() -> None:
    """Commit after processing: at worst an order is billed twice."""
    for order in range(max(committed, default=-1) + 1, 3):
        await asyncio.sleep(0.1)
        billed.append(order)
        await point("before commit")
        committed.append(order)
        await asyncio.sleep(0.1)


@simulated(seeds=5, brokers=1, faults="none", crash_points="billing")
async def test_a_service_that_commits_after_processing_may_die_at_any_place(cluster: Any) -> None:
    billed.clear()
    committed.clear()
    service = cluster.start(careful_billing, name="billing")
    await cluster.wait_until(lambda: service.exits, "every order is billed")
    assert sorted(set(billed)) == committed == [0, 1, 2]
    assert service.incarnation == 1 + bool(cluster.world.crash_point.number)


def test_a_run_beyond_the_last_place_is_skipped() -> None:
    test = simulated_test(test_a_service_that_commits_after_processing_may_die_at_any_place)
    assert test is not None
    bound = BoundTest(test, (), {}, Silent())
    assert bound.start(9).result().outcome.crash_point.startswith("billing is killed at await ")
    assert bound.start(40).result().skipped == "billing has 9 places to be killed at"


class Silent:
    """A host of a test that shows nothing."""

    def drop_output(self) -> None: ...
    def between_runs(self) -> None: ...
    def replay(self, seed: int) -> str:
        return ""

    def last_run(self, test: BoundTest, seed: int, text: str) -> Explanation:
        return Explanation(text)
