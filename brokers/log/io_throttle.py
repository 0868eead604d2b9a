"""Decides how long the log cleaner pauses, so that it reads and writes no faster than it may. Mirrors `Throttler`."""

from __future__ import annotations

from typing import Final

CHECK_INTERVAL_MS: Final = 300


class IoThrottle:
    """Counts bytes over intervals of `CHECK_INTERVAL_MS` or more."""

    def __init__(self, now_ms: float) -> None:
        self._since_ms = now_ms
        self._seen = 0

    def pause_ms(self, size: int, *, now_ms: float, bytes_per_second: float) -> float:
        """Return how long to pause after `size` more bytes, in ms; the next interval begins after the pause."""
        self._seen += size
        elapsed_ms = now_ms - self._since_ms
        if elapsed_ms <= CHECK_INTERVAL_MS or self._seen == 0:
            return 0
        pause_ms = max(0.0, self._seen * 1000 / bytes_per_second - elapsed_ms) if bytes_per_second > 0 else 0.0
        self._since_ms = now_ms + pause_ms
        self._seen = 0
        return pause_ms
