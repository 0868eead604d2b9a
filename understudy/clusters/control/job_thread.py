"""`JobThread`: one thread that runs jobs one after the other, at once or after a delay."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from understudy.clusters.cluster import ClusterError

T = TypeVar("T")

MOST_WAITING: Final = 200


class TooManyWait(ClusterError):
    """More jobs wait than the thread accepts."""


@dataclass(order=True, slots=True)
class _Job:
    due_s: float
    number: int
    call: Callable[[], Any] = field(compare=False)
    result: Future[Any] = field(compare=False, default_factory=Future)


class JobThread:
    """A daemon thread: a job that waits for a cluster cannot keep this program from ending."""

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._jobs: list[_Job] = []
        self._numbers = itertools.count()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Run `call` when the jobs before it have ended. Cancel the future to leave it out.

        Raises:
            TooManyWait: `MOST_WAITING` jobs wait already, without those for later.
            ClusterError: the thread has been closed.
        """
        with self._changed:
            if self._is_closed:
                raise ClusterError("the cluster is being stopped")
            now_s = time.monotonic()
            if sum(job.due_s <= now_s and not job.result.cancelled() for job in self._jobs) >= MOST_WAITING:
                raise TooManyWait(f"{MOST_WAITING} verbs wait to be done already")
            return self._add(_Job(now_s, next(self._numbers), call))

    def later(self, delay_s: float, call: Callable[[], T]) -> Future[T]:
        """Run `call` once `delay_s` have passed; the future is cancelled if the thread has been closed.

        The callers bound the number of waiting jobs: they cancel a job before they replace it.
        """
        with self._changed:
            job = _Job(time.monotonic() + delay_s, next(self._numbers), call)
            if self._is_closed:
                job.result.cancel()
                return job.result
            return self._add(job)

    def _add(self, job: _Job) -> Future[Any]:
        self._jobs = [job, *(each for each in self._jobs if not each.result.cancelled())]
        heapq.heapify(self._jobs)
        self._changed.notify()
        return job.result

    def close(self, timeout_s: float) -> bool:
        """Leave out the jobs that wait, and wait for the one that runs; return whether it has ended in time."""
        with self._changed:
            self._is_closed = True
            for job in self._jobs:
                job.result.cancel()
            self._jobs.clear()
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            if job.result.set_running_or_notify_cancel():
                try:
                    job.result.set_result(job.call())
                except Exception as error:  # noqa: BLE001  # the future carries every error to the caller of submit
                    job.result.set_exception(error)

    def _next(self) -> _Job | None:
        """Wait for the next job that is due; None if the thread has been closed."""
        with self._changed:
            while not self._is_closed:
                left_s = self._jobs[0].due_s - time.monotonic() if self._jobs else None
                if left_s is not None and left_s <= 0:
                    return heapq.heappop(self._jobs)
                self._changed.wait(left_s)
        return None
