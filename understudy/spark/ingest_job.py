"""Writes the parts of a lake in Spark: each task has whole runs, or a piece of a large one; its worker writes files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial

from pyspark.sql import SparkSession

from understudy.history.lake.pieces import NotInPieces
from understudy.history.lake.runs_to_parts import WrittenRun
from understudy.history.report.runs import RunFiles
from understudy.history.storage.paths import StoragePath
from understudy.spark.distribution import contents, cores, distribute
from understudy.spark.failures import spark_errors
from understudy.spark.job_watch import described
from understudy.spark.kernels import writing
from understudy.spark.kernels.measuring import encoded_task
from understudy.spark.large_runs import write_large_run


class SparkEngine:
    """Writes parts in the workers of Spark. Logs and lake have to be on paths that every worker sees.

    Args:
        they_grow: the logs of the runs still grow, so that no run is divided.
    """

    def __init__(self, spark: SparkSession, *, they_grow: bool = False) -> None:
        self._spark = spark
        self._they_grow = they_grow

    @cached_property
    def cores(self) -> int:
        """The number of tasks that run at a time."""
        return cores(self._spark)

    def warm_up(self) -> None:
        """Run empty tasks, so that the workers have been started when the first real ones come."""
        self.cores  # noqa: B018  it is found out by a job of empty tasks

    def write(self, lake: StoragePath, tasks: Sequence[tuple[RunFiles, ...]]) -> Iterator[WrittenRun]:
        """Write one part for each task.

        Raises:
            SparkFailed: a task failed again and again, for example because the disk is full.
        """
        with spark_errors(f"the event logs cannot be written into {lake}", self._spark):
            kernel = partial(writing.write_parts, lake=str(lake))
            with described(self._spark, "Understudy: writing runs into a lake"):
                written = contents(distribute(self._spark, list(map(encoded_task, tasks)), kernel))
        return map(writing.decoded, written)

    def write_large(self, lake: StoragePath, run: RunFiles) -> WrittenRun:
        """Write a part of one run in pieces.

        Raises:
            NotInPieces: that cannot be; the message says why.
            SparkFailed: as for `write`.
            OSError: a file of the run or of the lake cannot be read or written.
        """
        if self._they_grow:
            raise NotInPieces("its logs grow")
        with spark_errors(f"the event logs of run {run.run} cannot be written into {lake}", self._spark):
            return write_large_run(self._spark, lake, run)
