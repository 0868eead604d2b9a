"""`WaitingUndos`: the undos of verbs that are due later."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from understudy.clusters.control.job_thread import JobThread
from understudy.clusters.verb_table import VERBS


def ended_by(verb: str) -> tuple[str, ...]:
    """Return the undos that are pointless once a verb is done, because the verb has ended the fault."""
    return VERBS[verb].ends or (verb,)


class WaitingUndos:
    """At most one undo for each process and each verb that undoes. It is used in the thread of its jobs."""

    def __init__(self, jobs: JobThread) -> None:
        self._jobs = jobs
        self._waiting: dict[tuple[str, str], Future[None]] = {}

    def later(self, name: str, undo: str, ms: float, call: Callable[[], None]) -> None:
        """Run `call` after `ms` milliseconds, in place of an earlier one of this process and verb.

        Args:
            name: the process.
            undo: the verb that `call` does.
        """
        key = (name, undo)
        self._leave_out(key)

        def run() -> None:
            self._waiting.pop(key, None)
            call()

        self._waiting[key] = self._jobs.later(ms / 1000, run)

    def note(self, verb: str, name: str) -> None:
        """Leave out the undos of a process that a verb has made pointless."""
        for undo in ended_by(verb):
            self._leave_out((name, undo))

    def take(self) -> list[tuple[str, str]]:
        """Return the process and the verb of each undo that waits, sorted, and leave all of them out."""
        found = sorted(self._waiting)
        for key in found:
            self._leave_out(key)
        return found

    def _leave_out(self, key: tuple[str, str]) -> None:
        if (waiting := self._waiting.pop(key, None)) is not None:
            waiting.cancel()
