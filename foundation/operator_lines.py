"""How many lines an operator's log gets: one by one where there are few, the first of them where there are many.

Kafka writes a line for each partition of each transition; at a takeover of a hundred thousand partitions that takes
longer than the takeover. Here a summary says how many there are, `LINES` of them get lines of their own, and at level
DEBUG all do. No line is built that nobody would read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

import structlog

T = TypeVar("T")

LINES = 50
"""Of one kind, of one step, at level INFO or above."""


def is_detailed(log: structlog.typing.FilteringBoundLogger) -> bool:
    """Whether lines at level DEBUG are read."""
    return log.is_enabled_for(logging.DEBUG)


def with_a_line(
    log: structlog.typing.FilteringBoundLogger, things: Iterable[T], *, level: int = logging.INFO
) -> Iterator[T]:
    """Those of `things` that get a line of their own at `level`; none where nobody reads that."""
    if is_detailed(log):
        return iter(things)
    return islice(things, LINES if log.is_enabled_for(level) else 0)


def some(things: Iterable[T]) -> tuple[T, ...]:
    """At most `LINES` of `things`, for a field that names them; how many there are belongs beside it."""
    return tuple(islice(things, LINES))


class LinesPerSecond:
    """For lines that come one at a time, from many places: `LINES` of them in a second, and a count of those left out.

    Args:
        monotonic_ms: the time, as of `Clock`.
    """

    def __init__(self, log: structlog.typing.FilteringBoundLogger, monotonic_ms: Callable[[], float]) -> None:
        self._log = log
        self._monotonic_ms = monotonic_ms
        self._second = -1
        self._taken = 0
        self._left_out = 0

    def take(self) -> Mapping[str, int] | None:
        """Fields to add to this line: `left_out`, where lines before it were; None where it is to be left out
        itself."""
        second = int(self._monotonic_ms() // 1000)
        if second != self._second:
            self._second, self._taken = second, 0
        if not self._log.is_enabled_for(logging.INFO):
            return None
        if self._taken >= LINES and not is_detailed(self._log):
            self._left_out += 1
            return None
        self._taken += 1
        left_out, self._left_out = self._left_out, 0
        return {"left_out": left_out} if left_out else {}
