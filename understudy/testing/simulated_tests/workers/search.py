"""Spreads the seeds of a test over slots, and ends at the first failure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

from understudy.testing.simulated_tests.workers.runs import Result
from understudy.testing.simulated_tests.workers.slots import Slot


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a seed, and the slot that has seen it."""

    result: Result
    slot: Slot


def first_failure(slots: Sequence[Slot], seeds: Iterable[int], passed: list[Result]) -> Failure | None:
    """Run seeds until one fails, and those in progress then to their end; return the failure of the lowest seed.

    Args:
        passed: gets the results of the seeds that have not failed.
    """
    waiting = iter(seeds)
    following = next(waiting, None)
    failures: list[Failure] = []
    busy: list[Slot] = []
    while True:
        for slot in slots:
            if following is not None and not failures and slot.is_ready and slot not in busy:
                slot.run(following)
                busy.append(slot)
                following = next(waiting, None)
        starting = [slot for slot in slots if not slot.is_ready] if following is not None and not failures else []
        if not busy and not starting:
            break
        readable: list[Any] = wait([*busy, *starting])  # type: ignore[list-item]  # a slot has a fileno()
        for slot in readable:
            result = slot.take()
            if result is None:
                continue
            busy.remove(slot)
            if result.has_failed:
                failures.append(Failure(result, slot))
            else:
                passed.append(result)
    return min(failures, key=lambda failure: failure.result.seed, default=None)
