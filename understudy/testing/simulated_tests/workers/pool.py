"""Starts the worker processes of this process, and ends them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import IO, Any, Final

from understudy.testing.simulated_tests.workers import addresses, worker
from understudy.testing.simulated_tests.workers.forks import how_it_ended
from understudy.testing.simulated_tests.workers.slots import Begin, WorkerSlot

HASH_SEED: Final = "0"
"""Value of PYTHONHASHSEED of workers: sets of strings have the same order in each of them."""
SEEDS_PER_WORKER: Final = 4
"""Minimum number of seeds for which one more worker is started: its start takes about as long as one of them."""
_LINES: Final = 30
_END_S: Final = 5.0


def is_like_a_worker() -> bool:
    """Whether strings and other objects hash in this process as in workers."""
    return not sys.flags.hash_randomization and addresses.are_fixed()


def can_have_workers() -> bool:
    """Whether a new interpreter would take the hash seed from its environment."""
    return not sys.flags.ignore_environment


def usual_workers(seeds: int, most: int | None) -> int:
    """How many workers run a number of seeds, if at most `most` may; by default as many as there are cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(most or cores, -(-seeds // SEEDS_PER_WORKER)))


@dataclass(slots=True)
class Worker:
    """A worker process and this end of its connection."""

    process: subprocess.Popen[bytes]
    connection: Connection[Any, Any]
    errors: IO[bytes]

    def how_it_ended(self) -> str:
        """Wait for its end, and say how it has ended, with the last lines of its standard error."""
        try:
            status = self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").splitlines()[-_LINES:]
        return "\n".join([how_it_ended(status), *lines])

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.wait()
        self.errors.close()


class Pool:
    """The workers of one kind.

    Args:
        kind: `pytest` or `plain`.
        job: what each worker gets once, with its number in it.
        directory: the working directory of the workers.
        terminal: a context in which this process has the standard streams of the terminal.
    """

    def __init__(
        self,
        kind: str,
        job: Callable[[int], dict[str, Any]],
        *,
        directory: str | None = None,
        terminal: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self._kind = kind
        self._job = job
        self._directory = directory
        self._terminal = terminal
        self._workers: list[Worker] = []
        self._started = 0

    def start(self, count: int, *, is_live: bool = False) -> None:
        """Let there be `count` workers.

        Args:
            is_live: whether a new one gets the standard streams of the terminal, for a debugger.
        """
        while len(self._workers) < count:
            self._workers.append(self._new_worker(is_live))

    def slots(self, count: int, begin: Begin, *, is_live: bool = False) -> list[WorkerSlot]:
        """Return `count` slots for a test."""
        self.start(count, is_live=is_live)
        return [WorkerSlot(each.connection, begin, each.how_it_ended) for each in self._workers[:count]]

    def close(self) -> None:
        """End all workers at once. The pool can be used again."""
        workers, self._workers = self._workers, []
        for each in workers:
            each.end()

    def _new_worker(self, is_live: bool) -> Worker:
        ours, theirs = Pipe()
        errors = tempfile.TemporaryFile()  # noqa: SIM115  it is closed with the worker
        program = (
            f"import sys; sys.path[:] = {sys.path!r}\n"
            f"from {worker.__name__} import main\n"
            f"main({self._kind!r}, {theirs.fileno()})"
        )
        streams: dict[str, Any] = (
            {} if is_live else {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": errors}
        )
        with self._terminal(), addresses.fixed():
            process = subprocess.Popen(
                [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", program],  # type: ignore[attr-defined]  # as multiprocessing uses it
                env=os.environ | {"PYTHONHASHSEED": HASH_SEED},
                cwd=self._directory,
                pass_fds=[theirs.fileno()],
                **streams,
            )
        theirs.close()
        ours.send(self._job(self._started))
        self._started += 1
        return Worker(process, ours, errors)
