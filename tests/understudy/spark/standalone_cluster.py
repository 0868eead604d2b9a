"""Kills a worker of a real standalone Spark cluster at a moment that cannot be missed."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from devtools.java_processes import START_TIMEOUT_S
from devtools.standalone_spark import StandaloneCluster
from understudy.spark.kernels.results import Result


class KillInTheMiddle:
    """Kills a worker when the first task has finished, while all others wait for that.

    Args:
        folder: an empty folder that the workers see.
    """

    def __init__(self, folder: Path, cluster: StandaloneCluster) -> None:
        self._one_has_finished = folder / "one-has-finished"
        self._killed = folder / "killed"
        self._cluster = cluster
        self._thread = threading.Thread(target=self._kill)

    def __enter__(self) -> KillInTheMiddle:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def waiting(self, work: Callable[..., Iterable[Result]]) -> Callable[..., Iterator[Result]]:
        """Return a kernel as a function that is sent to workers by value and waits for the kill."""
        one_has_finished, killed, timeout_s = self._one_has_finished, self._killed, START_TIMEOUT_S

        def waiting_work(task: Iterable[Any], **options: Any) -> Iterator[Result]:
            results = list(work(task, **options))
            deadline = time.monotonic() + timeout_s
            while one_has_finished.exists() and not killed.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            one_has_finished.touch()
            return iter(results)

        return waiting_work

    def _kill(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._one_has_finished.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        self._cluster.kill_worker(0)
        self._killed.touch()


@contextlib.contextmanager
def port_of_no_server() -> Iterator[int]:
    """Hold a port on which no server listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
