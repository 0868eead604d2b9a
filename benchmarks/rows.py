"""The rows that a benchmark reports: one per measured quantity, ours beside a reference.

Targets are ratios, because seconds of one machine say nothing on another. If possible, the reference is measured in
the same run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Row(NamedTuple):
    what: str
    """The measured quantity, with its unit."""
    ours: float
    """Less is better."""
    reference: float | None
    target: float | None
    """The ratio not to exceed; None if only the number is of interest."""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.reference if self.reference else None

    @property
    def is_missed(self) -> bool:
        return self.ratio is not None and self.target is not None and self.ratio > self.target


def print_rows(rows: Iterable[Row]) -> None:
    """Print one line per row, and mark missed targets; asserts nothing."""
    print(f"  {'':66}{'ours':>10}{'reference':>11}{'ratio':>8}{'target':>8}")
    for row in rows:
        numbers = f"{row.ours:10.3f}{_or_dash(row.reference, 11)}{_or_dash(row.ratio, 8)}{_or_dash(row.target, 8)}"
        print(f"  {row.what:66}{numbers}{'  missed' if row.is_missed else ''}", flush=True)


def _or_dash(number: float | None, width: int) -> str:
    return f"{'-':>{width}}" if number is None else f"{number:{width}.3f}"
