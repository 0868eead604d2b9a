"""Starts Spark in a thread, while the command still does other work."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from pyspark.sql import SparkSession

from understudy.spark.running import spark_running
from understudy.spark.settings import Progress, SparkSettings, no_progress


class SparkWork(Protocol):
    """Work that is done in Spark."""

    def warm_up(self) -> None:
        """Run an empty job, so that the workers have been started when the first real one comes."""


W = TypeVar("W", bound=SparkWork)


class SparkInBackground(Generic[W]):
    """Runs Spark until its block ends. `start` returns at once, so that files can be listed while Java starts.

    Args:
        work: returns the work in a session, which is warmed up unless `wait` is called before Spark has started.
    """

    def __init__(self, settings: SparkSettings, work: Callable[[SparkSession], W]) -> None:
        self._settings = settings
        self._work = work
        self._stack = contextlib.ExitStack()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="understudy-spark")
        self._started: Future[W] | None = None
        self._is_awaited = threading.Event()

    def start(self, progress: Progress = no_progress) -> None:
        """Start Spark, unless it has been started.

        Args:
            progress: called in another thread with the name of each step before the step begins.
        """
        if self._started is None:
            self._started = self._thread.submit(self._start, progress)

    def wait(self, progress: Progress) -> W:
        """Wait until Spark has started, and return the work; start Spark if `start` has not.

        Raises:
            SparkFailed: Java did not start, or Spark does not run with the `master` of the settings.
        """
        self.start(progress)
        self._is_awaited.set()
        assert self._started is not None
        progress("waiting for Spark")
        return self._started.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()
        # If the cluster gave no executor, this raises an exception that says so.
        self._stack.__exit__(kind, error, trace)

    def _start(self, progress: Progress) -> W:
        work = self._work(self._stack.enter_context(spark_running(self._settings, progress)))
        if not self._is_awaited.is_set():
            work.warm_up()
        return work
