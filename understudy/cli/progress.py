"""A line on stderr that says how far a long command is; silent where nobody watches a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self, TextIO

_REDRAWN_EVERY_S = 0.2


class Progress:
    """Counts the finished steps of a long command, and shows them on a terminal.

    Args:
        total: of how many.
        what: their name, in the plural.
    """

    def __init__(self, total: int, what: str, out: TextIO | None = None) -> None:
        self._total = total
        self._what = what
        self._out = out or sys.stderr
        self._shown = self._out.isatty()
        self._started = self._drawn_at = time.monotonic()
        self._done = self._failed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.wipe()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._started

    def step(self, *, failed: bool = False) -> None:
        """One more is done."""
        self._done += 1
        self._failed += failed
        now = time.monotonic()
        if self._shown and now - self._drawn_at >= _REDRAWN_EVERY_S:
            self._drawn_at = now
            left_s = self.seconds / self._done * (self._total - self._done)
            line = f"{self._done} of {self._total} {self._what}, {self._failed} failed, about {left_s:.0f} s to go"
            self._out.write(f"\r{line}\x1b[K")
            self._out.flush()

    def wipe(self) -> None:
        """Make room for a line that stays."""
        if self._shown:
            self._out.write("\r\x1b[K")
            self._out.flush()
