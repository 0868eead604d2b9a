"""Keeps the broker's long-lived tasks, and stops the broker when one of them fails: a task that dies in silence looks like a
hang (reliability R-9)."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Coroutine

from foundation.eventlog.log import EventLog
from foundation.eventlog.records import TaskFailed


class BrokerFailed(Exception):
    """The broker cannot go on; the message says which of its tasks failed, and how."""


class Supervisor:
    """Owns tasks by name. `failed` is resolved by the first unexpected exception of any of them."""

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._closing = False
        self.failed: asyncio.Future[BrokerFailed] = asyncio.get_running_loop().create_future()

    def spawn(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        """Run `work` until it ends, is cancelled, or fails the broker."""
        task = asyncio.create_task(work, name=name)
        self._tasks[task] = name
        task.add_done_callback(self._done)
        return task

    def fail(self, name: str, error: BaseException) -> None:
        """Record `error` and make it the broker's end; the first one counts."""
        where = traceback.extract_tb(error.__traceback__)[-1:]
        at = f" at {where[0].filename.rpartition('/')[2]}:{where[0].lineno}" if where else ""
        self._events.append(TaskFailed(task=name, error=f"{type(error).__name__}: {error}{at}"))
        if not self.failed.done():
            failure = BrokerFailed(f"{name} failed: {type(error).__name__}: {error}{at}")
            failure.__cause__ = error
            self.failed.set_result(failure)

    async def close(self) -> None:
        """Cancel what still runs and wait until it is gone."""
        self._closing = True
        running = tuple(self._tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        name = self._tasks.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not self._closing:
            self.fail(name, error)
