"""Writes the parts of a lake in Spark: each task has whole runs, and its worker writes their Parquet files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from pyspark import SparkContext

from understudy.history.lake.runs_to_parts import WrittenRun, write_part
from understudy.history.report.runs import RunFiles
from understudy.spark.context import Progress, SparkSettings, no_progress, spark_context, spark_errors


class SparkEngine:
    """Writes parts in the workers of Spark. Logs and lake have to be on paths that every worker sees.

    Attributes:
        cores: the number of tasks that run at a time.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self.cores = max(1, context.defaultParallelism)

    def warm_up(self) -> None:
        """Run empty tasks, so that the workers have been started when the first real ones come."""
        with spark_errors("Spark does not run"):
            self._context.parallelize([()] * self.cores, self.cores).mapPartitions(_nothing).collect()

    def write(self, lake: Path, tasks: Sequence[tuple[RunFiles, ...]]) -> Iterator[WrittenRun]:
        """Write one part for each task.

        Raises:
            SparkFailed: a task failed again and again, for example because the disk is full.
        """
        distributed = self._context.parallelize(tasks, len(tasks))
        with spark_errors(f"the event logs cannot be written into {lake}"):
            results = distributed.mapPartitions(_IngestTask(str(lake))).collect()
        return (msgspec.json.decode(result, type=WrittenRun) for result in results)


class EngineInBackground:
    """Runs Spark until its block ends. `start` returns at once, so that files can be listed while Java starts."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._stack = contextlib.ExitStack()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="understudy-spark")
        self._started: Future[SparkEngine] | None = None

    def start(self, progress: Progress = no_progress) -> None:
        """Start Spark, unless it has been started.

        Args:
            progress: called in another thread with the name of each step before the step begins.
        """
        if self._started is None:
            self._started = self._thread.submit(self._start, progress)

    def engine(self, progress: Progress = no_progress) -> SparkEngine:
        """Wait until Spark has started; start it if `start` has not.

        Raises:
            SparkFailed: Java did not start, or Spark does not run with the `master` of the settings.
        """
        self.start(progress)
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

    def _start(self, progress: Progress) -> SparkEngine:
        engine = SparkEngine(self._stack.enter_context(spark_context(self._settings, progress)))
        engine.warm_up()
        return engine


class _IngestTask:
    """The function that a worker runs: it writes a part for each task."""

    def __init__(self, lake: str) -> None:
        self._lake = lake

    def __call__(self, tasks: Iterable[tuple[RunFiles, ...]]) -> Iterator[bytes]:
        return (msgspec.json.encode(write_part(Path(self._lake), groups)) for groups in tasks)


def _nothing(tasks: Iterable[tuple[()]]) -> Iterator[bytes]:
    """Write no part. A worker that runs this function has loaded all modules that writing a part needs."""
    return iter(())
