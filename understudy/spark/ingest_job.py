"""Writes the parts of a lake in Spark: each task has whole runs, and its worker writes their Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
from pyspark import SparkContext

from understudy.history.lake.runs_to_parts import WrittenRun, write_part
from understudy.history.report.runs import RunFiles
from understudy.spark.context import spark_errors


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
            results = distributed.mapPartitions(partial(_written, str(lake))).collect()
        return (msgspec.json.decode(result, type=WrittenRun) for result in results)


def _written(lake: str, tasks: Iterable[tuple[RunFiles, ...]]) -> Iterator[bytes]:
    """Write a part for each task, in a worker."""
    return (msgspec.json.encode(write_part(Path(lake), groups)) for groups in tasks)


def _nothing(tasks: Iterable[tuple[()]]) -> Iterator[bytes]:
    """Write no part. A worker that runs this function has loaded all modules that writing a part needs."""
    return iter(())
