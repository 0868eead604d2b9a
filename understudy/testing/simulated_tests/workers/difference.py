"""Names the first difference between the traces of two runs of a seed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

_END: Final = "the end of the run"


def first_difference(trace_a: Sequence[str], trace_b: Sequence[str]) -> str | None:
    """Say in which line two traces differ first; None if they are equal.

    Args:
        trace_a, trace_b: a line for each callback of the user's processes, in order, with its virtual time, process,
            coroutine and place, such as `12.345678 billing Fetcher._fetch_requests_routine fetcher.py:512`.
    """
    before = "the start of the run"
    for line_a, line_b in zip_longest(trace_a, trace_b, fillvalue=_END):
        if line_a != line_b:
            return f"after {before}\n  one run:     {line_a}\n  the other:   {line_b}"
        before = line_a
    return None
