"""`Progress` shows on the terminal of stderr how much of a long command is done; elsewhere it prints nothing."""

from __future__ import annotations

import sys
import time
from typing import Self

_REDRAWN_EVERY_S = 0.2


class Progress:
    """Counts the finished steps of a long command, and shows the count on a terminal.

    Args:
        total: the number of all steps; None if it is not known.
        what: the name of the steps, in the plural.
    """

    def __init__(self, total: int | None, what: str) -> None:
        self._total = total
        self._what = what
        self._out = sys.stderr
        self._shown = self._out.isatty()
        self._started = self._drawn_at = time.monotonic()
        self._done = self._failed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wipe()

    def begin(self, total: int) -> None:
        """Begin to count once the number of all steps is known."""
        self._total = total
        self._started = self._drawn_at = time.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds since the beginning."""
        return time.monotonic() - self._started

    def step(self, *, failed: bool = False) -> None:
        """Count one more finished step."""
        self._done += 1
        self._failed += failed
        now = time.monotonic()
        if self._shown and now - self._drawn_at >= _REDRAWN_EVERY_S:
            self._drawn_at = now
            if self._total is None:
                line = f"{self._done} {self._what}, {self._failed} failed, {self.seconds:.0f} s"
            else:
                left_s = self.seconds / self._done * (self._total - self._done)
                line = f"{self._done} of {self._total} {self._what}, {self._failed} failed, about {left_s:.0f} s to go"
            self._out.write(f"\r{line}\x1b[K")
            self._out.flush()

    def wipe(self) -> None:
        """Remove the line, so that another can be printed."""
        if self._shown:
            self._out.write("\r\x1b[K")
            self._out.flush()
