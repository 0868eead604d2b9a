"""Computes the metrics of many runs in Spark, for a page: each task has whole runs, and a kernel measures them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from understudy.history.lake.columns import FINDINGS
from understudy.history.metrics.metric_tables import TABLES
from understudy.history.metrics.row_tables import ROW_TABLES
from understudy.history.reading.listing import LogListing
from understudy.history.report.replay import Measured, Replay, measure_groups, replay_of
from understudy.history.report.runs import LARGE_RUN_BYTES, FoundLogs, RunFiles, logs_in, pack
from understudy.history.storage.paths import StoragePath, spark_url
from understudy.history.writing import counted
from understudy.spark.background import SparkInBackground
from understudy.spark.distribution import contents, distribute
from understudy.spark.failures import spark_errors
from understudy.spark.job_watch import described, shown
from understudy.spark.kernels import measuring
from understudy.spark.kernels.results import Kernel
from understudy.spark.measured_tables import RunTables
from understudy.spark.settings import Progress, SparkSettings, no_progress


class TablesExist(Exception):
    """The output folder holds tables already. The message names the folder and what to do."""


class SparkReplay:
    """Computes tables in Spark; `replay` may be called any number of times.

    Args:
        engine: the name of the engine, for the page.
    """

    def __init__(self, spark: SparkSession, engine: str) -> None:
        self._spark = spark
        self._engine = engine

    def warm_up(self) -> None:
        """Run an empty job, so that the workers have been started when the first real one comes."""
        with spark_errors("Spark does not run", self._spark):
            distribute(self._spark, [], measuring.measure_for_page).collect()

    def replay(
        self,
        logs: FoundLogs,
        *,
        output: StoragePath | None = None,
        whole: bool = False,
        progress: Progress = no_progress,
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
        runs, files = counted(len(groups), "run"), counted(logs.listing.count, "file")
        progress(f"computing the tables of {runs} in {files}, {groups.bytes / 1e6:,.1f} MB")
        for run, size in groups.larger_than(LARGE_RUN_BYTES):
            progress(
                f"run {run} has {size / 1e6:,.0f} MB of logs, and a task needs memory for all its records; `understudy "
                "ingest` divides it"
            )
        if output is None:
            kernel = measuring.measure if whole else measuring.measure_for_page
            with spark_errors("the event logs cannot be read in Spark", self._spark):
                results = measure_groups(groups, lambda some: self._measured(some, kernel, progress))
        else:
            with RunTables(self._spark, logs, whole=whole, progress=progress) as tables:
                results = list(map(measuring.decoded, tables.measured()))
                progress(f"writing the tables to {output}")
                _write(self._spark, tables, output)
        return replay_of(results, logs, self._engine)

    def _measured(self, groups: Sequence[RunFiles], kernel: Kernel, progress: Progress) -> list[Measured]:
        tasks = pack(groups)
        encoded = [measuring.encoded_task([groups[number] for number in task]) for task in tasks]
        results = distribute(self._spark, encoded, kernel)
        with shown(self._spark, "measuring runs", list(map(len, tasks)), progress):
            return list(map(measuring.decoded, contents(results)))


def _write(spark: SparkSession, tables: RunTables, output: StoragePath) -> None:
    with spark_errors(f"the tables cannot be written to {output}", spark):
        for name, table in tables.items():
            if name == FINDINGS:
                continue
            with described(spark, f"Understudy: writing the table {name}"):
                table.write.parquet(spark_url(output / name))


class ReplayInBackground(SparkInBackground[SparkReplay]):
    """Runs Spark until its block ends; `replay` waits until it has started."""

    def __init__(self, settings: SparkSettings) -> None:
        super().__init__(settings, lambda spark: SparkReplay(spark, settings.engine))

    def replay(
        self,
        found: LogListing,
        *,
        output: StoragePath | None = None,
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


def check_output(output: StoragePath) -> None:
    """Raise `TablesExist` if a folder holds tables already."""
    existing = [name for name in (*TABLES, *ROW_TABLES) if (output / name).exists()]
    if existing:
        raise TablesExist(f"{output} holds tables already ({', '.join(existing)}); give another folder, or remove them")
