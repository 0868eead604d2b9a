"""Writes the figures of a page of text: with a sign if missing records may change them, and with what clocks allow.

| sign | meaning |
|---|---|
| `≥ 12` | at least: missing records can only make it larger |
| `≤ 24.3 s` | at most, up to the end that is on record |
| `12.2 ms ?` | missing records may change it in both directions |
| `6.01 s ± 1.4 ms` | the clocks of several machines allow it to be wrong by this |
| `< 2.8 ms` | it is smaller than what the clocks allow it to be wrong by |
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from understudy.foundation.times import fixed, uncertain
from understudy.history.metrics.doubt import COUNTS, is_upper_bound
from understudy.history.metrics.metric_tables import TABLES, RunMetrics, Table, Totals

AT_LEAST: Final = "≥"
AT_MOST: Final = "≤"
EITHER_WAY: Final = "?"
WITHIN: Final = "±"

_MEANINGS: Final = {
    AT_LEAST: "≥ at least",
    AT_MOST: "≤ at most, up to the end on record",
    EITHER_WAY: "? may be larger, smaller or another",
    WITHIN: "± by the clocks of several machines",
}
_NAMES: Final = {table: name for name, table in TABLES.items()}


class Figures:
    """The figures of one page; it remembers which signs were written, for the legend."""

    def __init__(self) -> None:
        self._written: set[str] = set()

    def legend(self) -> list[str]:
        """Return a line with the meaning of each sign that was written; none if no sign was."""
        meanings = [meaning for sign, meaning in _MEANINGS.items() if sign in self._written]
        return [f"  {'; '.join(meanings)}"] if meanings else []

    def text(self, text: str, row: Table, column: str, *, run: RunMetrics | None = None) -> str:
        """Return a text about a column of a row, with the column's sign.

        Args:
            run: the run of `totals`, to find out whether the time without a controller is an upper bound.
        """
        return self.signed(text, sign_of(row, column, run))

    def count(self, row: Table, column: str) -> str:
        """Return a number of a row with its sign."""
        return self.text(f"{getattr(row, column):,}", row, column)

    def sum_of(self, number: int, rows: Iterable[Table], column: str) -> str:
        """Return a number that is a sum over a column, with the sign of any row."""
        return self.any_of(f"{number:,}", rows, column)

    def any_of(self, text: str, rows: Iterable[Table], column: str) -> str:
        """Return a text about a column of many rows, with the sign of any row."""
        return self.signed(text, max((sign_of(row, column) for row in rows), default=""))

    def duration(self, row: Table, column: str, *, run: RunMetrics | None = None) -> str:
        """Return a time of a row, which must have it, with its uncertainty and its sign."""
        within = _within_ms(row, column)
        if within > 0:
            self._written.add(WITHIN)
        return self.text(uncertain(getattr(row, column), within), row, column, run=run)

    def cell(self, row: Table, column: str, *, run: RunMetrics | None = None) -> str:
        """As `duration`, in milliseconds for a column of times."""
        return self.text(f"{self.within(getattr(row, column), _within_ms(row, column))} ms", row, column, run=run)

    def within(self, value: float, within: float) -> str:
        """Return a number of a column with what it may be wrong by, and no more decimals than that justifies."""
        if within <= 0:
            return fixed(value)
        self._written.add(WITHIN)
        decimals = min(3, max(0, 1 - math.floor(math.log10(within))))
        unit = 10**decimals
        if abs(value) < within:
            return f"< {fixed(math.ceil((abs(value) + within) * unit) / unit, decimals)}"
        return f"{fixed(value, decimals)} ± {fixed(math.ceil(within * unit) / unit, decimals)}"

    def signed(self, text: str, sign: str) -> str:
        """Return a figure with a sign, which may be empty."""
        if not sign:
            return text
        self._written.add(sign)
        return f"{text} {sign}" if sign == EITHER_WAY else f"{sign} {text}"


def sign_of(row: Table, column: str, run: RunMetrics | None = None) -> str:
    """Return the sign of a column of a row; empty if missing records cannot change it."""
    if column not in row.doubt:
        return ""
    if column in COUNTS.get(_NAMES[type(row)], ()):
        return AT_LEAST
    if isinstance(row, Totals) and column == "without_controller_ms" and run is not None and is_upper_bound(run):
        return AT_MOST
    return EITHER_WAY


def _within_ms(row: Table, column: str) -> float:
    """Return what the clocks allow a time of a row to be wrong by; 0 if it is on one clock."""
    within: float | None = getattr(row, f"{column.removesuffix('_ms')}_within_ms", None)
    return within or 0.0


def padded(texts: Sequence[str], least: int) -> list[str]:
    """Return the cells of a column, right-aligned by their units: a `?` stands behind the unit."""
    has_signs = any(text.endswith(EITHER_WAY) for text in texts)
    aligned = [text if text.endswith(EITHER_WAY) or not has_signs else f"{text}  " for text in texts]
    width = max(map(len, aligned), default=0)
    return [text.rjust(max(width, least)) for text in aligned]
