"""Limits the lines of the operator's log: all if there are few, the first `LINES` if there are many.

Kafka writes a line for each partition of each transition; for a failover of a hundred thousand partitions that takes
longer than the failover. Here a summary has their number, `LINES` of them get a line, and at level DEBUG all do. Lines
that the log's level drops are not built.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

import structlog

T = TypeVar("T")

LINES = 50
"""Maximum number of lines of one kind for one step, at level INFO or above."""


def is_detailed(log: structlog.typing.FilteringBoundLogger) -> bool:
    """Whether lines at level DEBUG are written."""
    return log.is_enabled_for(logging.DEBUG)


def with_a_line(
    log: structlog.typing.FilteringBoundLogger, things: Iterable[T], *, level: int = logging.INFO
) -> Iterator[T]:
    """Yield the `things` that get a line at `level`; none if the log drops that level."""
    if is_detailed(log):
        return iter(things)
    return islice(things, LINES if log.is_enabled_for(level) else 0)


def some(things: Iterable[T]) -> tuple[T, ...]:
    """Return at most `LINES` of `things`, for a field that lists them; log their number beside it."""
    return tuple(islice(things, LINES))


class LinesPerSecond:
    """Limits lines that come one at a time: `LINES` of them in a second, and the number of those left out.

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
        """Return fields to add to this line, `left_out` if lines were left out; None if this line is left out."""
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
