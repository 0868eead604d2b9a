"""Writes times as text: moments of a run, durations, and numbers whose unit is named elsewhere.

A moment counts from the first record of its run. `understudy/page/static/words.js` has the same functions for the page,
and `tests/foundation/times.tsv` has the cases that both of them are tested with.

Text that is read along a line has `duration`, which chooses the unit. A column that is read downwards has `fixed` or
`digits` and names its unit once, in its head, because numbers of one unit can be compared at a glance.
"""

from __future__ import annotations

import math
from typing import Final

MINUS: Final = "−"
AT_ONCE: Final = "at once"

_UNITS: Final = (
    ("µs", 1, 1_000),
    ("ms", 1_000, 1_000),
    ("s", 1_000_000, 1_000),
    ("min", 60_000_000, 60),
    ("h", 3_600_000_000, math.inf),
)
"""Name of each unit, its microseconds, and the number of it from which the next one is used."""


def micros(ms: float) -> int:
    """Return milliseconds as whole microseconds, rounded half up; every engine calculates with them."""
    return math.floor(ms * 1000 + 0.5)


def moment(ms: float) -> str:
    """Return the text of a time since the first record of a run: `12.346 s`."""
    us = micros(ms)
    whole = (abs(us) + 500) // 1000
    return f"{MINUS if us < 0 and whole else ''}{whole // 1000:,}.{whole % 1000:03} s"


def duration(ms: float) -> str:
    """Return a duration with three digits: `3.15 s`, `24.2 ms`, `640 µs`.

    Zeros at its end show that it was rounded: exactly three seconds are `3 s`.
    """
    us = micros(ms)
    if not us:
        return "0 ms"
    return (MINUS if us < 0 else "") + next(filter(None, (_in_unit(abs(us), *unit) for unit in _UNITS)))


def uncertain(ms: float, within_ms: float | None) -> str:
    """Return a duration that may be wrong by `within_ms`, which is None if it is not known: `3.4 ms ± 120 µs`.

    A duration that is shorter than its uncertainty is only bounded: `< 180 µs`.
    """
    if within_ms is None:
        return f"{duration(ms)} ± ?"
    if not micros(within_ms):
        return duration(ms)
    if abs(ms) < within_ms:
        return f"< {duration(abs(ms) + within_ms)}"
    return f"{duration(ms)} ± {duration(within_ms)}"


def after(ms: float) -> str:
    """Return `after 2.4 ms`; `at once` if no time has passed."""
    return f"after {duration(ms)}" if micros(ms) else AT_ONCE


def digits(value: float) -> str:
    """Return a number with three digits, or with all its whole ones: `12.3`, `6,013`. At most three are decimals.

    As in a duration, zeros at its end show that it was rounded.
    """
    size = abs(value)
    number, decimals = _rounded(size, 1)
    text = _text(number, decimals, is_exact=number == size * 10**decimals)
    return f"{MINUS if value < 0 and number else ''}{text}"


def fixed(value: float, decimals: int = 3) -> str:
    """Return a number with as many decimals as the others of its column: `1,204.500`."""
    number = math.floor(abs(value) * 10**decimals + 0.5)
    return f"{MINUS if value < 0 and number else ''}{_text(number, decimals, is_exact=False)}"


def _in_unit(us: int, unit: str, us_of_unit: int, limit: float) -> str:
    """Return a duration in some unit; empty if it has a larger one."""
    number, decimals = _rounded(us, us_of_unit)
    is_exact = number * us_of_unit == us * 10**decimals
    return f"{_text(number, decimals, is_exact)} {unit}" if number < limit * 10**decimals else ""


def _rounded(size: float, unit: int) -> tuple[int, int]:
    """Return a size in some unit, times a power of ten, and the power; rounded half up to three digits."""
    for decimals in (3, 2, 1, 0):
        number = math.floor((2 * size * 10**decimals + unit) / (2 * unit))
        if number < 1000:
            break
    return number, decimals


def _text(number: int, decimals: int, is_exact: bool) -> str:
    """Return `number` divided by a power of ten; without zeros at its end if it is exact."""
    whole, rest = divmod(number, 10**decimals)
    part = f".{rest:0{decimals}}" if decimals else ""
    return f"{whole:,}{part.rstrip('0').rstrip('.') if is_exact else part}"
