"""ddmin: what it returns fails, and nothing can be left out of it; the number of runs is bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from understudy.trials.hunt.shrinking import Budget, ddmin

MANY = 100_000
SIZES = st.integers(min_value=1, max_value=40)


def is_subsequence(part: tuple[int, ...], of: list[int]) -> bool:
    rest = iter(of)
    return all(item in rest for item in part)


@given(SIZES.flatmap(lambda size: st.tuples(st.just(size), st.sets(st.integers(0, size - 1)))))
def test_what_a_failure_needs_is_found_exactly(drawn: tuple[int, set[int]]) -> None:
    """If the failure needs certain items, whatever else there is, exactly these are left."""
    size, needed = drawn
    found = ddmin(range(size), lambda part: needed <= set(part), Budget(MANY))
    assert found == tuple(sorted(needed))


@given(SIZES, st.integers(0, 2**32), st.integers(1, 6))
def test_the_result_fails_and_no_single_item_can_be_left_out(size: int, salt: int, divisor: int) -> None:
    """This also holds for failures that depend on the items in no simple way, like a simulation's."""

    def fails(part: tuple[int, ...]) -> bool:
        return len(part) == size or hash((salt, *part)) % divisor == 0

    items = list(range(size))
    found = ddmin(items, fails, Budget(MANY))
    assert fails(found)
    assert is_subsequence(found, items)
    assert not any(fails(found[:left_out] + found[left_out + 1 :]) for left_out in range(len(found)))


@given(SIZES, st.integers(0, 30))
def test_no_more_runs_are_taken_than_the_budget_has(size: int, runs: int) -> None:
    ran: list[tuple[int, ...]] = []

    def fails(part: tuple[int, ...]) -> bool:
        ran.append(part)
        return {0, size - 1} <= set(part)

    budget = Budget(runs)
    found = ddmin(range(size), fails, budget)
    assert {0, size - 1} <= set(found), "what it returns fails, though it may be large"
    assert len(ran) == budget.taken <= runs
    assert len(set(ran)) == len(ran), "no part is run twice"
    assert budget.was_exceeded or found == tuple(sorted({0, size - 1}))


def test_a_failure_that_needs_nothing_takes_one_run() -> None:
    budget = Budget(10)
    assert ddmin(range(1_000), lambda part: True, budget) == ()
    assert budget.taken == 1


def test_a_few_of_many_take_few_runs() -> None:
    budget = Budget(MANY)
    assert ddmin(range(128), lambda part: {3, 77, 120} <= set(part), budget) == (3, 77, 120)
    assert budget.taken < 100
