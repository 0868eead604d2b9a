"""The machine's clock. `CLOCK_MONOTONIC` is one for all processes of the machine, so their records can be put in order."""

from __future__ import annotations

import time


class MachineClock:
    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1_000_000

    def wall_ms(self) -> float:
        return time.time_ns() / 1_000_000
