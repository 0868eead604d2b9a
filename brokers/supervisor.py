"""Runs the broker's long-lived tasks, and stops the broker when one of them fails.

A task that ended without notice would look as if the broker hung (R-9).
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Coroutine

from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import TaskFailed


class BrokerFailed(Exception):
    """The broker has to stop; the message says which of its tasks failed, and how."""


class Supervisor:
    """Owns tasks by name.

    Attributes:
        failed: resolved with the first unexpected exception of any task.
    """

    def __init__(self, events: EventLog) -> None:
        self._events = events
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._closing = False
        self.failed: asyncio.Future[BrokerFailed] = asyncio.get_running_loop().create_future()

    def spawn(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        """Run `work` as a task; an exception fails the broker. A broker that is closing runs nothing new."""
        task = asyncio.create_task(work, name=name)
        self._tasks[task] = name
        task.add_done_callback(self._done)
        if self._closing:
            # Requests are handled until the end; `close` would not see a task that one of them starts now.
            task.cancel()
        return task

    def fail(self, name: str, error: BaseException) -> None:
        """Stop the broker because of `error`, and record it. Of several errors the first one counts."""
        error, what = _described(error)
        self._end(f"{name} failed: {what}", error)
        self._append(name, what)

    def record(self, name: str, error: BaseException) -> None:
        """Record `error`, which does not stop the broker."""
        _, what = _described(error)
        self._append(name, what)

    def _append(self, name: str, what: str) -> None:
        # If the disk is full, `event_log_lost` has stopped the broker already.
        with contextlib.suppress(OSError):
            self._events.append(TaskFailed(task=name, error=what))

    def event_log_lost(self, error: OSError) -> None:
        """Stop the broker because its event log cannot be written."""
        self._end(f"the event log cannot be written: {error}", error)

    async def close(self) -> None:
        """Cancel the running tasks and wait until they have ended."""
        self._closing = True
        running = tuple(self._tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _end(self, why: str, error: BaseException) -> None:
        if not self.failed.done():
            failure = BrokerFailed(why)
            failure.__cause__ = error
            self.failed.set_result(failure)

    def _done(self, task: asyncio.Task[None]) -> None:
        name = self._tasks.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not self._closing:
            self.fail(name, error)


def _described(error: BaseException) -> tuple[BaseException, str]:
    """The exception inside the groups that a group of tasks adds, and its class, message and place."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    where = traceback.extract_tb(error.__traceback__)[-1:]
    at = f" at {where[0].filename.rpartition('/')[2]}:{where[0].lineno}" if where else ""
    return error, f"{type(error).__name__}: {error}{at}"
