"""The end of a worker's connection: runs seeds of the test that the worker has found."""

from __future__ import annotations

import gc
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any

from understudy.testing.simulated_tests.workers.runs import BoundTest, result_of
from understudy.testing.simulated_tests.workers.slots import Begin, End, Explain, NotReady, Ready, Run


class Line:
    """The connection of a worker to the process that has started it.

    Attributes:
        begun: the test that is served now; None before the first one.
        is_answered: whether the test was found and has run since.
    """

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self.begun: Begin | None = None
        self.is_answered = False
        self._connection = connection

    def next(self) -> Begin | None:
        """Wait for the next test; None if there is no further one."""
        try:
            while not isinstance(message := self._connection.recv(), Begin):
                pass  # the End of a test that could not begin
        except EOFError:
            return None
        self.begun, self.is_answered = message, False
        return message

    def refuse(self, why: str, *, is_skipped: bool = False) -> None:
        """Answer that the test cannot be run."""
        self._connection.send(NotReady(why, is_skipped))

    def serve(self, test: BoundTest) -> None:
        """Run seeds of a test until `End`."""
        __tracebackhide__ = True
        test.warm_up()
        gc.enable()
        self._connection.send(Ready())
        self.is_answered = True
        while True:
            try:
                match self._connection.recv():
                    case Run(seed):
                        self._run(test, seed)
                    case Explain(seed, seen):
                        self._connection.send(test.explain(seed, seen))
                    case End():
                        return
            except EOFError:
                return

    def _run(self, test: BoundTest, seed: int) -> None:
        child = test.start_first(seed)
        # Nothing is sent before the result: the connection is readable now only if the other end is gone.
        if self._connection in wait([self._connection, child]):  # type: ignore[list-item]  # it has a fileno()
            child.kill()
            raise EOFError
        result = result_of(child, seed)
        test.host.between_runs()
        self._connection.send(replace(result, loaded=None))
        test.load_as(result)


line: Line | None = None
"""The connection, if this process is a worker."""


def open_line(connection: Connection[Any, Any]) -> Line:
    """Make this process a worker."""
    global line
    line = Line(connection)
    return line
