"""How seeds are spread over slots, and which failure is reported."""

from __future__ import annotations

import os
from collections.abc import Collection

import pytest

from understudy.testing.simulated_tests.outcome import Outcome
from understudy.testing.simulated_tests.workers.runs import Explanation, Result
from understudy.testing.simulated_tests.workers.search import first_failure


class FakeSlot:
    """Fails the seeds that it is created with. Its results are there when `let` is called."""

    def __init__(self, failing: Collection[int], order: list[int], *, starts: int = 0) -> None:
        self.seeds: list[int] = []
        self._failing = failing
        self._order = order
        self._starts = starts
        self._reading, self._writing = os.pipe()
        if starts:
            os.write(self._writing, b"r")

    @property
    def is_ready(self) -> bool:
        return self._starts == 0

    def fileno(self) -> int:
        return self._reading

    def run(self, seed: int) -> None:
        self.seeds.append(seed)
        self._order.append(seed)
        os.write(self._writing, b"s")

    def take(self) -> Result | None:
        os.read(self._reading, 1)
        if self._starts:
            self._starts -= 1
            if self._starts:
                os.write(self._writing, b"r")
            return None
        seed = self.seeds[-1]
        return Result(seed, None if seed in self._failing else Outcome(seed), death="it died")

    def explain(self, failed: Result) -> Explanation:
        raise AssertionError(f"seed {failed.seed} is not to be explained")

    def end(self) -> None:
        os.close(self._reading)
        os.close(self._writing)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_each_seed_is_run_once_if_none_fails(count: int) -> None:
    order: list[int] = []
    slots = [FakeSlot((), order) for _ in range(count)]
    passed: list[Result] = []
    assert first_failure(slots, range(5), passed) is None
    assert sorted(order) == sorted(result.seed for result in passed) == [0, 1, 2, 3, 4]
    for slot in slots:
        slot.end()


def test_the_search_ends_at_the_first_failure() -> None:
    order: list[int] = []
    slot = FakeSlot({2, 4}, order)
    passed: list[Result] = []
    failure = first_failure([slot], range(100), passed)
    assert failure is not None
    assert failure.result.seed == 2
    assert order == [0, 1, 2]
    slot.end()


def test_the_lowest_seed_of_those_in_progress_is_reported() -> None:
    order: list[int] = []
    slots = [FakeSlot({0, 1, 2}, order) for _ in range(3)]
    failure = first_failure(list(reversed(slots)), range(100), [])
    assert failure is not None
    assert failure.result.seed == 0
    assert failure.slot is slots[2]
    assert sorted(order) == [0, 1, 2]
    for slot in slots:
        slot.end()


def test_a_slot_that_has_not_started_yet_runs_seeds_later() -> None:
    order: list[int] = []
    early, late = FakeSlot((), order), FakeSlot((), order, starts=3)
    assert first_failure([late, early], range(20), []) is None
    assert order == list(range(20))
    assert late.seeds
    assert early.seeds[0] == 0
    early.end()
    late.end()


def test_no_seed_waits_for_a_slot_that_does_not_start() -> None:
    """The seeds are over before the second worker is ready."""
    order: list[int] = []
    early, never = FakeSlot((), order), FakeSlot((), order, starts=1_000)
    assert first_failure([early, never], range(3), []) is None
    assert early.seeds == [0, 1, 2]
    early.end()
    never.end()
