"""The `Clock` port: the time of a broker's world, which is simulated in the simulator.

Waiting is not part of it: `asyncio.sleep` and `asyncio.timeout` follow the running loop, which in the simulator has
simulated time.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Returns the time of the World."""

    def monotonic_ms(self) -> float:
        """Return milliseconds, with fractions, that only grow; comparable between processes with the same boot.

        `ProcessStarted.boot` identifies it.
        """

    def wall_ms(self) -> float:
        """Return milliseconds since 1970-01-01 UTC; they may jump."""
