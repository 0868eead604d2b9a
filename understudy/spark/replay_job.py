"""Computes the metrics of many runs in Spark: each task has whole runs, and measures them with
`understudy.history.report`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

from pyspark import RDD, SparkContext, StorageLevel
from pyspark.sql import SparkSession

from understudy.history.metrics.metric_tables import TABLES
from understudy.history.metrics.row_tables import ROW_TABLES
from understudy.history.report.replay import Measured, Replay, groups_to_join, replay_of, without
from understudy.history.report.runs import FoundLogs, RunFiles, find_logs, pack
from understudy.history.report.spark_tasks import (
    decoded,
    holds_none_of,
    measure_task,
    measure_task_for_page,
    row_table_rows_of_files,
    rows_named,
    rows_of,
    shortened_for_page,
)
from understudy.spark.context import Progress, SparkSettings, no_progress, spark_context, spark_errors
from understudy.spark.table_schema import table_schema

Work: TypeAlias = Callable[[Iterable[RunFiles]], Iterator[bytes]]


class TablesExist(Exception):
    """The output folder holds tables already. The message names the folder and what to do."""


class SparkReplay:
    """Runs Spark while its block runs; `replay` may be called any number of times.

    Args:
        progress: called with the name of each step of the start before it begins.

    Raises:
        SparkFailed: Java did not start, or Spark does not run with the `master` of the settings.
    """

    def __init__(self, settings: SparkSettings, *, progress: Progress = no_progress) -> None:
        self._settings = settings
        self._progress = progress
        self._stack = contextlib.ExitStack()
        self._context: SparkContext | None = None

    def __enter__(self) -> SparkReplay:
        self._context = self._stack.enter_context(spark_context(self._settings, self._progress))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context = None
        # If the cluster gave no executor, this raises an exception that says so.
        self._stack.__exit__(kind, error, trace)

    @property
    def session(self) -> SparkSession:
        """A session for DataFrames and SQL in this context."""
        return SparkSession(self._running())

    def warm_up(self) -> None:
        """Run an empty job, so that the workers have been started when the first real one comes."""
        with spark_errors("Spark does not run"):
            self._running().parallelize([()], 1).flatMap(measure_task_for_page).collect()

    def replay(
        self,
        paths: Sequence[Path],
        *,
        output: Path | None = None,
        whole: bool = False,
        progress: Progress = no_progress,
    ) -> Replay:
        """Compute the metrics of all runs in the logs at or below `paths`.

        Args:
            output: a folder for the tables as Parquet. Each table is a folder in it, and its first column is `run`.
            whole: return the rows of all partitions; by default only those that a page shows.
            progress: called with the name of each step before the step begins.

        Raises:
            SparkFailed: `output` cannot be written.
            TablesExist: `output` holds tables already.
        """
        progress("listing the event logs")
        return self.replay_found(find_logs(paths), output=output, whole=whole, progress=progress)

    def replay_found(
        self, logs: FoundLogs, *, output: Path | None = None, whole: bool = False, progress: Progress = no_progress
    ) -> Replay:
        """Compute the metrics of all runs in logs that have been found; see `replay`."""
        if output is not None:
            check_output(output)
        groups = logs.groups
        megabytes = sum(group.bytes for group in groups) / 1e6
        progress(f"computing the tables of {len(groups):,} runs in {len(logs.files):,} files, {megabytes:,.1f} MB")
        if output is None:
            results = self._measure(groups, measure_task if whole else measure_task_for_page)
        else:
            results = self._measure_and_write(groups, output, whole=whole, progress=progress)
        return replay_of(results, logs, self._settings.engine)

    def _running(self) -> SparkContext:
        assert self._context is not None, "Spark is not running"
        return self._context

    def _measure(self, groups: Sequence[RunFiles], work: Work) -> list[Measured]:
        with spark_errors("the event logs cannot be read in Spark"):
            results = [decoded(result) for result in self._distributed(groups).flatMap(work).collect()]
            again = groups_to_join(results)
            if again:
                results = without(results, again)
                results += [decoded(result) for result in self._distributed(again).flatMap(work).collect()]
        return results

    def _measure_and_write(
        self, groups: Sequence[RunFiles], output: Path, *, whole: bool, progress: Progress
    ) -> list[Measured]:
        """Measure and keep the results on the workers; write their rows from there."""
        shortened = _unchanged if whole else shortened_for_page
        kept = self._distributed(groups).flatMap(measure_task).persist(StorageLevel.DISK_ONLY)
        with spark_errors("the event logs cannot be read in Spark"):
            results = [decoded(result) for result in kept.map(shortened).collect()]
            again = groups_to_join(results)
            if again:
                files = frozenset(file for group in again for file in group.files)
                joined = self._distributed(again).flatMap(measure_task).persist(StorageLevel.DISK_ONLY)
                kept = kept.filter(holds_none_of(files)).union(joined)
                results = [decoded(result) for result in kept.map(shortened).collect()]
        progress(f"writing the tables to {output}")
        session = self.session
        with spark_errors(f"the tables cannot be written to {output}"):
            for name, table in TABLES.items():
                rows = session.read.schema(table_schema(table)).json(kept.flatMap(rows_of(name)))
                rows.write.parquet(str((output / name).absolute()))
            again = [result.group for result in results]
            all_rows = self._distributed(again).flatMap(row_table_rows_of_files).persist(StorageLevel.DISK_ONLY)
            for name, table in ROW_TABLES.items():
                rows = session.read.schema(table_schema(table)).json(all_rows.flatMap(rows_named(name)))
                rows.write.parquet(str((output / name).absolute()))
        return results

    def _distributed(self, groups: Sequence[RunFiles]) -> RDD[tuple[RunFiles, ...]]:
        tasks = pack(groups)
        return self._running().parallelize(tasks, max(1, len(tasks)))


def check_output(output: Path) -> None:
    """Raise `TablesExist` if a folder holds tables already."""
    existing = [name for name in (*TABLES, *ROW_TABLES) if (output / name).exists()]
    if existing:
        raise TablesExist(f"{output} holds tables already ({', '.join(existing)}); give another folder, or remove them")


def _unchanged(result: bytes) -> bytes:
    return result
