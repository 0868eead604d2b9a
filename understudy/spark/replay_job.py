"""Computes the metrics of many runs in Spark: each task has whole runs, and measures them with
`understudy.history.report`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from pyspark import RDD, SparkContext, StorageLevel
from pyspark.sql import SparkSession

from understudy.history.metrics.metric_tables import TABLES
from understudy.history.metrics.row_tables import ROW_TABLES
from understudy.history.reading.reader import FoundFiles
from understudy.history.report.replay import Measured, Replay, groups_to_join, measure_groups, replay_of
from understudy.history.report.runs import FoundLogs, RunFiles, logs_in, pack
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
from understudy.spark.background import SparkInBackground
from understudy.spark.context import Progress, SparkSettings, no_progress, spark_errors

Work: TypeAlias = Callable[[Iterable[RunFiles]], Iterator[bytes]]


class TablesExist(Exception):
    """The output folder holds tables already. The message names the folder and what to do."""


class SparkReplay:
    """Computes tables in Spark; `replay` may be called any number of times.

    Args:
        engine: the name of the engine, for the page.
    """

    def __init__(self, context: SparkContext, engine: str) -> None:
        self._context = context
        self._engine = engine

    def warm_up(self) -> None:
        """Run an empty job, so that the workers have been started when the first real one comes."""
        with spark_errors("Spark does not run"):
            self._context.parallelize([()], 1).flatMap(measure_task_for_page).collect()

    def replay(
        self, logs: FoundLogs, *, output: Path | None = None, whole: bool = False, progress: Progress = no_progress
    ) -> Replay:
        """Compute the metrics of all runs in some logs.

        Args:
            output: a folder for the tables as Parquet. Each table is a folder in it, and its first column is `run`.
            whole: return the rows of all partitions; by default only those that a page shows.
            progress: called with the name of each step before the step begins.

        Raises:
            SparkFailed: `output` cannot be written.
            TablesExist: `output` holds tables already.
        """
        if output is not None:
            check_output(output)
        groups = logs.groups
        megabytes = sum(group.bytes for group in groups) / 1e6
        progress(f"computing the tables of {len(groups):,} runs in {len(logs.files):,} files, {megabytes:,.1f} MB")
        if output is None:
            results = self._measure(groups, measure_task if whole else measure_task_for_page)
        else:
            results = self._measure_and_write(groups, output, whole=whole, progress=progress)
        return replay_of(results, logs, self._engine)

    def _measure(self, groups: Sequence[RunFiles], work: Work) -> list[Measured]:
        def measure(groups: Sequence[RunFiles]) -> list[Measured]:
            return [decoded(result) for result in self._distributed(groups).flatMap(work).collect()]

        with spark_errors("the event logs cannot be read in Spark"):
            return measure_groups(groups, measure)

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
        # Arrow is only imported if tables are written: without it a command starts a tenth of a second earlier.
        from understudy.history.lake.columns import table_schema  # noqa: PLC0415
        from understudy.spark.ddl import ddl  # noqa: PLC0415

        progress(f"writing the tables to {output}")
        session = SparkSession(self._context)
        with spark_errors(f"the tables cannot be written to {output}"):
            again = [result.group for result in results]
            all_rows = self._distributed(again).flatMap(row_table_rows_of_files).persist(StorageLevel.DISK_ONLY)
            tables = {name: kept.flatMap(rows_of(name)) for name in TABLES}
            tables |= {name: all_rows.flatMap(rows_named(name)) for name in ROW_TABLES}
            for name, rows in tables.items():
                found = session.read.schema(ddl(table_schema(name))).json(rows)
                found.write.parquet(str((output / name).absolute()))
        return results

    def _distributed(self, groups: Sequence[RunFiles]) -> RDD[tuple[RunFiles, ...]]:
        tasks = pack(groups)
        return self._context.parallelize(tasks, max(1, len(tasks)))


class ReplayInBackground(SparkInBackground[SparkReplay]):
    """Runs Spark until its block ends; `replay` waits until it has started."""

    def __init__(self, settings: SparkSettings) -> None:
        super().__init__(settings, lambda context: SparkReplay(context, settings.engine))

    def replay(
        self,
        found: FoundFiles,
        *,
        output: Path | None = None,
        whole: bool = False,
        progress: Progress = no_progress,
    ) -> Replay:
        """Compute the metrics of all runs in some event-log files; see `SparkReplay.replay`.

        Spark is started if `start` has not, and the files are grouped by run meanwhile.

        Raises:
            SparkFailed: Java did not start, or Spark does not run, or `output` cannot be written.
            TablesExist: `output` holds tables already.
        """
        if output is not None:
            check_output(output)
        self.start()
        progress("looking for the runs of the event logs")
        logs = logs_in(found)
        return self.wait(progress).replay(logs, output=output, whole=whole, progress=progress)


def check_output(output: Path) -> None:
    """Raise `TablesExist` if a folder holds tables already."""
    existing = [name for name in (*TABLES, *ROW_TABLES) if (output / name).exists()]
    if existing:
        raise TablesExist(f"{output} holds tables already ({', '.join(existing)}); give another folder, or remove them")


def _unchanged(result: bytes) -> bytes:
    return result
