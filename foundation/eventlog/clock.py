"""The `Clock` port: what time it is, asked of the world and never of the machine.

Waiting is not here: `asyncio.sleep` and `asyncio.timeout` follow the running loop, which in the simulator moves its own
time.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def monotonic_ms(self) -> float:
        """Milliseconds that only grow; comparable between processes of one machine, sub-millisecond."""

    def wall_ms(self) -> float:
        """Milliseconds since 1970-01-01 UTC; may jump."""
