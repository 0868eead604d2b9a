"""`Changes`: lets any number of coroutines wait until a run has new records."""

from __future__ import annotations

import asyncio


class Changes:
    """Wakes the waiters of one event loop. A waiter misses no change, as it looks at the run again before it waits."""

    def __init__(self) -> None:
        self._next = asyncio.Event()
        self.are_over = False
        """Whether the server ends, so that open answers should also end."""

    def close(self) -> None:
        """Wake every waiter, for the last time."""
        self.are_over = True
        self.notify()

    def notify(self) -> None:
        """Wake every waiter."""
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for the next change; return False if none came in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._next.wait()
        except TimeoutError:
            return False
        return True
