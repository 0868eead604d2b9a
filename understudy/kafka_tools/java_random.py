"""The numbers that Java's `SplittableRandom` draws, with which Kafka's performance tool makes its payloads."""

from __future__ import annotations

from typing import Final

_GAMMA: Final = 0x9E3779B97F4A7C15
_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_LARGEST: Final = 2**31 - 1


class SplittableRandom:
    """Draws the same numbers from a seed as Java's class."""

    def __init__(self, seed: int) -> None:
        self._seed = seed & _MASK

    def next_int(self, bound: int) -> int:
        """Return a number from 0 to `bound` - 1."""
        drawn = self._next()
        largest = bound - 1
        if bound & largest == 0:
            return drawn & largest
        drawn >>= 1
        # The last numbers, which would make small results a little more likely, are drawn again.
        while drawn - drawn % bound + largest > _LARGEST:
            drawn = self._next() >> 1
        return drawn % bound

    def _next(self) -> int:
        """Return 32 bits."""
        self._seed = (self._seed + _GAMMA) & _MASK
        mixed = (self._seed ^ self._seed >> 33) * 0x62A9D9ED799705F5 & _MASK
        mixed = (mixed ^ mixed >> 28) * 0xCB24D0A5C88C35B3 & _MASK
        return mixed >> 32
