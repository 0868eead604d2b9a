"""Kills a service between each two of its own awaits in turn, as `understudy crash-points` does with a controller.

The first run of a test counts the places that the service reaches. Runs are determined by their seed, so each further
run is equal up to one of these places, at which the service is killed and started again.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.clusters.virtual.strikes import Place
from understudy.clusters.virtual.world import CrashPoint


def in_order(places: Sequence[Place]) -> list[Place]:
    """Return places in an order whose beginnings are spread over all of them.

    The first place at each line and at each named point comes first. The others follow so that each is far from those
    before it.
    """
    first = {place.words: place for place in reversed(places)}
    chosen = sorted(first.values())
    left = [place for place in places if place not in chosen]
    return [*chosen, *(left[place] for place in _spread(len(left)))]


def _spread(count: int) -> list[int]:
    """The numbers below `count` in the order of their reversed binary digits."""
    digits = max(1, (count - 1).bit_length())
    return sorted(range(count), key=lambda number: f"{number:0{digits}b}"[::-1])


def crash_point(service: str, places: Sequence[tuple[int, str]], run: int) -> CrashPoint:
    """Return at which place a service is killed in a run, from 1; run 0 only counts its places."""
    if run == 0:
        return CrashPoint(service)
    number, words = in_order([Place(*place) for place in places])[run - 1]
    return CrashPoint(service, number, words)
