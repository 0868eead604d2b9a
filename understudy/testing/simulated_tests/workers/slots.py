"""Slots: each runs one seed of a test at a time."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Protocol

import msgspec

from understudy.testing.simulated_tests.workers.forks import Child
from understudy.testing.simulated_tests.workers.runs import BoundTest, Explanation, Result, result_of


class WorkerDied(Exception):
    """A worker process has ended. The message says how, with what it has written to its standard error."""


class CannotRun(Exception):
    """A worker process cannot run the test: it has not found it, or a fixture has failed. The message says why."""


class WorkerSkips(Exception):
    """The test is skipped in a worker. The message is the reason."""


class Begin(msgspec.Struct, frozen=True):
    """Find a test, and be ready to run seeds of it.

    Attributes:
        target: how the worker finds it.
        page: the folder for pages; empty for none.
        is_live: whether the run of a seed has the terminal, for `breakpoint()`.
    """

    target: Any
    page: str = ""
    is_live: bool = False


class Run(msgspec.Struct, frozen=True):
    """Run a seed; the answer is a `Result`."""

    seed: int


class Explain(msgspec.Struct, frozen=True):
    """Say why a seed fails; the answer is an `Explanation`.

    Attributes:
        seen: why it has failed.
    """

    seed: int
    seen: str


class End(msgspec.Struct, frozen=True):
    """Run no more seeds of the test."""


class Ready(msgspec.Struct, frozen=True):
    """A worker's answer to `Begin`."""


class NotReady(msgspec.Struct, frozen=True):
    """A worker's answer to `Begin`, if it cannot run the test."""

    why: str
    is_skipped: bool = False


class Slot(Protocol):
    """Runs one seed at a time."""

    @property
    def is_ready(self) -> bool:
        """Whether it can run a seed; if it is not, it becomes readable when it is."""

    def fileno(self) -> int:
        """What becomes readable with the next result."""

    def run(self, seed: int) -> None:
        """Begin to run a seed."""

    def take(self) -> Result | None:
        """Take what has become readable: a result, or None if the slot has become ready."""

    def explain(self, failed: Result) -> Explanation:
        """Say why a seed fails, and wait for it."""

    def end(self) -> None:
        """Run no more seeds; harmless if it runs none."""


class ForkSlot:
    """Runs seeds in processes that are forked from this one."""

    is_ready = True

    def __init__(self, test: BoundTest) -> None:
        self._test = test
        self._child: Child | None = None
        self._seed = 0

    def fileno(self) -> int:
        assert self._child is not None
        return self._child.fileno()

    def run(self, seed: int) -> None:
        self._seed = seed
        self._child = self._test.start_first(seed)

    def take(self) -> Result:
        assert self._child is not None
        result = result_of(self._child, self._seed)
        self._child = None
        self._test.host.between_runs()
        return result

    def explain(self, failed: Result) -> Explanation:
        __tracebackhide__ = True
        return self._test.explain(failed.seed, failed.why)

    def end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None


class WorkerSlot:
    """Runs seeds in a worker process.

    Args:
        lost: called when the worker has ended; returns how.
    """

    def __init__(self, connection: Connection[Any, Any], begin: Begin, lost: Callable[[], str]) -> None:
        self.is_ready = False
        self._connection = connection
        self._lost = lost
        self._seed: int | None = None
        self._send(begin)

    def fileno(self) -> int:
        return self._connection.fileno()

    def run(self, seed: int) -> None:
        self._seed = seed
        self._send(Run(seed))

    def take(self) -> Result | None:
        match self._receive():
            case Ready():
                self.is_ready = True
                return None
            case NotReady(why, is_skipped):
                raise (WorkerSkips if is_skipped else CannotRun)(why)
            case Result() as result:
                self._seed = None
                return result
            case other:
                raise AssertionError(f"an unexpected answer of a worker: {other!r}")

    def explain(self, failed: Result) -> Explanation:
        self._seed = failed.seed
        self._send(Explain(failed.seed, failed.why))
        answer = self._receive()
        assert isinstance(answer, Explanation)
        self._seed = None
        return answer

    def end(self) -> None:
        self._send(End())

    def _send(self, message: Any) -> None:
        try:
            self._connection.send(message)
        except OSError:
            raise self._died() from None

    def _receive(self) -> Any:
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            raise self._died() from None

    def _died(self) -> WorkerDied:
        during = "" if self._seed is None else f" while it ran seed {self._seed}"
        return WorkerDied(f"a worker process has ended{during}: {self._lost()}")
