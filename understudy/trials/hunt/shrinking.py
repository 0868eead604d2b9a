"""Delta debugging: finds a small part of a sequence that still fails, with a bounded number of runs.

The algorithm is ddmin of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

_T = TypeVar("_T")


class Budget:
    """The number of runs that a search may still take.

    Args:
        runs: the number of runs in all.
    """

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self.taken = 0
        self.was_exceeded = False
        """Whether a run was requested after the last one: the result may be larger than necessary."""

    def take(self) -> bool:
        """Take one run, and return whether there was one left."""
        if self.taken == self._runs:
            self.was_exceeded = True
            return False
        self.taken += 1
        return True


def ddmin(items: Sequence[_T], fails: Callable[[tuple[_T, ...]], bool], budget: Budget) -> tuple[_T, ...]:
    """Return a small part of `items`, in their order, that still fails.

    The result is 1-minimal, unless the budget was exceeded: it fails, and without any single one of its items it does
    not. No part is run twice.

    Args:
        items: a sequence that fails; it is not run again.
        fails: runs a part, and says whether it fails in the same way.
        budget: each call of `fails` takes one run from it.
    """
    known: dict[tuple[int, ...], bool] = {}

    def reproduces(part: tuple[int, ...]) -> bool:
        if part not in known:
            if not budget.take():
                return False
            known[part] = fails(tuple(items[position] for position in part))
        return known[part]

    kept = tuple(range(len(items)))
    if kept and reproduces(()):
        return ()
    parts = 2
    while len(kept) >= 2:
        chunks = list(_chunks(kept, parts))
        smaller = next(filter(reproduces, chunks), None) if parts == 2 else None
        if smaller is not None:
            kept, parts = smaller, 2
            continue
        smaller = next((rest for chunk in chunks if reproduces(rest := _without(kept, chunk))), None)
        if smaller is not None:
            kept, parts = smaller, max(parts - 1, 2)
        elif parts >= len(kept):
            break
        else:
            parts = min(len(kept), parts * 2)
    return tuple(items[position] for position in kept)


def _chunks(kept: tuple[int, ...], parts: int) -> Iterator[tuple[int, ...]]:
    """Split `kept` into a number of chunks of nearly equal length, none of them empty."""
    bounds = [len(kept) * part // parts for part in range(parts + 1)]
    yield from (kept[begin:end] for begin, end in pairwise(bounds))


def _without(kept: tuple[int, ...], chunk: tuple[int, ...]) -> tuple[int, ...]:
    removed = frozenset(chunk)
    return tuple(position for position in kept if position not in removed)
