"""Keeps the broker's long-lived tasks, and stops the broker when one of them fails: a task that dies in silence looks
like a hang (reliability R-9)."""

from __future__ import annotations

import asyncio
import contextlib
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
        """Run `work` until it ends, is cancelled, or fails the broker; not at all once that is being closed."""
        task = asyncio.create_task(work, name=name)
        self._tasks[task] = name
        task.add_done_callback(self._done)
        if self._closing:
            # Requests are answered to the last: what one of them begins now, nobody would end.
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
        # Where the disk is full, `event_log_lost` has stopped the broker already.
        with contextlib.suppress(OSError):
            self._events.append(TaskFailed(task=name, error=what))

    def event_log_lost(self, error: OSError) -> None:
        """A broker that cannot record what it does must not do it."""
        self._end(f"the event log cannot be written: {error}", error)

    async def close(self) -> None:
        """Cancel what still runs and wait until it is gone."""
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
