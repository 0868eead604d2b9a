"""Writes the parts of a lake in Spark: each task has whole runs, and its worker writes their Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from pyspark import SparkContext

from understudy.lake.runs_to_parts import Written, write_part
from understudy.replay.runs import RunFiles
from understudy.spark.context import spark_errors


class SparkEngine:
    """Has Spark's workers write the parts. Logs and lake have to be on paths that every worker sees.

    Attributes:
        cores: how many tasks run at a time.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self.cores = max(1, context.defaultParallelism)

    def write(self, lake: Path, tasks: Sequence[tuple[RunFiles, ...]]) -> Iterator[Written]:
        """Write one part for each task.

        Raises:
            SparkFailed: a task failed again and again, for example because the disk is full.
        """
        distributed = self._context.parallelize(tasks, len(tasks))
        with spark_errors(f"the event logs cannot be written into {lake}"):
            results = distributed.mapPartitions(_Task(str(lake))).collect()
        return (msgspec.json.decode(result, type=Written) for result in results)


class _Task:
    """What a worker runs."""

    def __init__(self, lake: str) -> None:
        self._lake = lake

    def __call__(self, tasks: Iterable[tuple[RunFiles, ...]]) -> Iterator[bytes]:
        return (msgspec.json.encode(write_part(Path(self._lake), groups)) for groups in tasks)
