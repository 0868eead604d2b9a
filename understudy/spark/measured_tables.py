"""Computes the tables of runs in Spark, and gives them as DataFrames that read the results kept on the executors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from understudy.history.lake.columns import FINDINGS, RUN_TABLES, run_table
from understudy.history.report.replay import RunsOfFiles, groups_to_join
from understudy.history.report.runs import FoundLogs, RunFiles, pack
from understudy.spark.ddl import table_ddl
from understudy.spark.distribution import contents, distribute
from understudy.spark.failures import spark_errors
from understudy.spark.job_watch import shown
from understudy.spark.kernels.measuring import MEASURED, OTHER_RUN, NumberedRun, numbered_task, rows_of_table, tabulate
from understudy.spark.settings import Progress, no_progress

_FAILURE = "the event logs cannot be read in Spark"


class RunTables(Mapping[str, DataFrame]):
    """The tables of some runs, by name, as in `RUN_TABLES`, each with `run` as its first column.

    All runs are measured when it is made, and the results are kept on the disks of the executors until `unpersist`,
    which the end of its block calls. A DataFrame reads them; a lost executor's results are computed again.

    Args:
        whole: keep the partitions that a page does not show for `measured`.
        progress: called with a line about the runs that have been measured.

    Raises:
        SparkFailed: a log cannot be read.
    """

    def __init__(
        self, spark: SparkSession, logs: FoundLogs, *, whole: bool = False, progress: Progress = no_progress
    ) -> None:
        self._spark = spark
        self._whole = whole
        self._findings = logs.findings
        self._kept: list[DataFrame] = []
        groups = logs.groups
        with spark_errors(_FAILURE, self._spark):
            tasks = pack(groups)
            self._results = self._tabulated(groups, tasks, 0)
            with shown(spark, "measuring runs", list(map(len, tasks)), progress):
                others = self._results.where(f"kind = '{OTHER_RUN}'").select("number", "content").collect()
            if others:
                self._join(groups, [(row["number"], bytes(row["content"]).decode()) for row in others])

    def __getitem__(self, name: str) -> DataFrame:
        """Return a table. Raises KeyError if there is none of this name."""
        if name not in RUN_TABLES:
            raise KeyError(f"there is no table {name!r}; there are {', '.join(RUN_TABLES)}")
        found = self._results.where(f"kind = '{name}'").select("content")
        table = found.mapInArrow(rows_of_table, table_ddl(name))
        if name == FINDINGS and self._findings:
            table = table.unionByName(self._found_by_listing())
        return table

    def __iter__(self) -> Iterator[str]:
        return iter(RUN_TABLES)

    def __len__(self) -> int:
        return len(RUN_TABLES)

    def measured(self) -> list[bytes]:
        """Return the encoded `Measured` of each run, for a page."""
        with spark_errors(_FAILURE, self._spark):
            return contents(self._results.where(f"kind = '{MEASURED}'"))

    def unpersist(self) -> None:
        """Delete the results on the executors. A table that is read later computes them again."""
        for results in self._kept:
            results.unpersist()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unpersist()

    def _tabulated(self, groups: Sequence[RunFiles], tasks: Sequence[Sequence[int]], first: int) -> DataFrame:
        """Return the results of the groups in `tasks`, which are numbered from `first` in the order of `groups`."""
        encoded = [numbered_task(NumberedRun(first + number, groups[number]) for number in task) for task in tasks]
        results = distribute(self._spark, encoded, partial(tabulate, whole=self._whole))
        self._kept.append(results.persist(StorageLevel.DISK_ONLY))
        return self._kept[-1]

    def _join(self, groups: Sequence[RunFiles], others: Sequence[tuple[int, str]]) -> None:
        """Measure runs again whose records are in the files of several groups."""
        runs = {number: [group.run] if group.run else [] for number, group in enumerate(groups)}
        for number, run in others:
            runs[number].append(run)
        again = sorted(groups_to_join(RunsOfFiles(groups[number], tuple(found)) for number, found in runs.items()))
        if again:
            files = {file for group in again for file in group.files}
            replaced = [number for number, group in enumerate(groups) if not files.isdisjoint(group.files)]
            kept = self._results.where(f"number NOT IN ({', '.join(map(str, replaced))})")
            self._results = kept.unionByName(self._tabulated(again, pack(again), len(groups)))

    def _found_by_listing(self) -> DataFrame:
        """Return the findings about paths and files of several runs, which belong to no run."""
        rows = run_table(FINDINGS, [("", finding) for finding in self._findings], {}).to_pylist()
        return self._spark.createDataFrame([tuple(row.values()) for row in rows], table_ddl(FINDINGS))
