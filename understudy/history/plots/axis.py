"""`Axis` places values between two ends, linearly or by their logarithms, with round ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_STEPS: Final = 5
"""Number of steps between ticks that is aimed at; labels of six ticks fit on a telephone."""
_FACTORS: Final = (1, 2, 5, 10)
_LOG_SPREAD: Final = 100
"""A logarithmic axis needs a largest value of at least this many times the smallest one."""
_LOG_MEDIAN: Final = 0.1
"""A logarithmic axis needs a median below this part of the largest value: otherwise a linear one separates values."""
_FAR_FROM_ZERO: Final = 0.6
"""An axis begins at zero unless the smallest value is above this part of the largest one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis from `low` to `high`, which are ticks also.

    Attributes:
        ticks: round values, in order.
        is_log: whether places follow the logarithms of values, which are then all positive.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    is_log: bool = False

    def at(self, value: float) -> float:
        """Return the place of a value, in per cent of the length of the axis."""
        if self.is_log:
            return 100 * math.log(value / self.low) / math.log(self.high / self.low)
        return 100 * (value - self.low) / (self.high - self.low)


def axis_of(values: Iterable[float], *, from_zero: bool = False) -> Axis:
    """Return the axis for some values, none of which is negative.

    It begins at zero, unless all values are far from it. It is logarithmic if one value is so large that a linear axis
    would put most of the others at one place.

    Args:
        from_zero: begin at zero in any case, because lengths are drawn and not places.
    """
    found = sorted(values)
    if not found or found[-1] <= 0:
        return Axis(low=0, high=1, ticks=(0, 1))
    smallest, largest = found[0], found[-1]
    median = found[(len(found) - 1) // 2]
    if not from_zero and 0 < smallest <= largest / _LOG_SPREAD and median < _LOG_MEDIAN * largest:
        return _logarithmic(smallest, largest)
    begin = smallest if smallest > _FAR_FROM_ZERO * largest and smallest < largest and not from_zero else 0.0
    step = _round_up((largest - begin) / _STEPS)
    first, last = math.floor(begin / step + 1e-9), math.ceil(largest / step - 1e-9)
    ticks = tuple(_product(step, place) for place in range(first, last + 1))
    return Axis(low=ticks[0], high=ticks[-1], ticks=ticks)


def _logarithmic(smallest: float, largest: float) -> Axis:
    first, last = math.floor(math.log10(smallest) + 1e-9), math.ceil(math.log10(largest) - 1e-9)
    every = -(-(last - first) // _STEPS)
    last += -(last - first) % every
    ticks = tuple(float(f"1e{power}") for power in range(first, last + 1, every))
    return Axis(low=ticks[0], high=ticks[-1], ticks=ticks, is_log=True)


def _round_up(size: float) -> float:
    """Return the smallest of 1, 2, 5 and 10 times a power of ten that is not below `size`."""
    power = math.floor(math.log10(size))
    return next(step for factor in _FACTORS if (step := _power(factor, power)) >= size * 0.999)


def _power(factor: int, power: int) -> float:
    # Read from text, so that a step is the double closest to its decimal number.
    return float(f"{factor}e{power}")


def _product(step: float, place: int) -> float:
    return float(f"{step * place:.12g}")
