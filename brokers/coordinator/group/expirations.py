"""`Expirations` runs the tasks that are due: sessions, rebalances and syncs that end by their timeout.

Mirrors `DelayedOperationPurgatory.ExpiredOperationReaper`. One task serves all groups, so that simulated time drives
them, and an idle member costs nothing between two of its session timeouts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from understudy.brokers.coordinator.group.timer import TaskTimer, TimerTask
from understudy.foundation.eventlog.clock import Clock

EXPIRED_WITHOUT_PAUSE = 100
"""Number of tasks after which other requests may proceed."""


class Expirations:
    """A timer that runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer = TaskTimer()
        self._woken = asyncio.Event()

    def __len__(self) -> int:
        return len(self._timer)

    def after(self, delay_ms: float, action: Callable[[], None]) -> TimerTask:
        """Have `action` done in `delay_ms`, unless it is cancelled or postponed."""
        task = self._timer.add(self._clock.monotonic_ms() + delay_ms, action)
        self._wake(task)
        return task

    def postpone(self, task: TimerTask | None, delay_ms: float) -> TimerTask | None:
        """Have `task` done in `delay_ms` from now instead; return it, or None if it was done, or is none."""
        if task is None or task.action is None:
            return None
        task = self._timer.reschedule(task, self._clock.monotonic_ms() + delay_ms)
        self._wake(task)
        return task

    def cancel(self, task: TimerTask | None) -> None:
        """Do a task no more; harmless if it was done, or is none."""
        self._timer.cancel(task)

    async def run(self) -> None:
        """Run each task when it is due, without end."""
        while True:
            self.run_due()
            next_ms = self._timer.next_ms
            self._woken.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(
                    None if next_ms is None else max(next_ms - self._clock.monotonic_ms(), 0.0) / 1000
                ):
                    await self._woken.wait()

    def run_due(self) -> None:
        """Run the tasks that are due by now, at most `EXPIRED_WITHOUT_PAUSE`."""
        for _ in range(EXPIRED_WITHOUT_PAUSE):
            action = self._timer.take_due(self._clock.monotonic_ms())
            if action is None:
                return
            action()

    def _wake(self, task: TimerTask) -> None:
        # A later time than the one waited for is seen in time.
        if self._timer.next_ms == task.due_ms:
            self._woken.set()
