"""The functions of `understudy.spark` for a session that the caller has: each takes it first and returns DataFrames.

No setting of the session is changed, and nothing is stopped. The session may be of classic Spark or of Spark Connect,
from Spark 3.5 on. Executors need the package `understudy`, which `send_package` sends, and msgspec, pyarrow and numpy.
Paths lead to the same files in this process and on all executors.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from understudy.history.compare.comparison import Comparison
from understudy.history.compare.groups import QUANTITIES
from understudy.history.lake import ingest as ingesting
from understudy.history.lake.columns import struct_type
from understudy.history.lake.comments import column_comments
from understudy.history.reading.listing import LogListing
from understudy.history.report.runs import logs_in
from understudy.history.storage.paths import StoragePath, UrlPath, storage_path
from understudy.spark.compare_job import compare_tables, read_tables
from understudy.spark.ddl import ddl
from understudy.spark.ingest_job import SparkEngine
from understudy.spark.kernels.simulating import rows_of_outcomes
from understudy.spark.log_files import files_of
from understudy.spark.measured_tables import RunTables
from understudy.spark.package_archive import add_package, package_archive
from understudy.spark.seeds_job import outcomes
from understudy.spark.sessions import check_usable
from understudy.spark.settings import ROOT
from understudy.trials.hunt.seed_tasks import SeedOutcome

Paths: TypeAlias = str | StoragePath | Sequence[str | StoragePath]
"""Run folders, folders of runs, files, or patterns as in a shell; of this machine, or URLs such as `s3://BUCKET/runs`."""

INGESTED = (
    "run STRING COMMENT 'The id of the run; empty for a file that names none.', "
    "outcome STRING COMMENT 'added, replaced, unchanged, refused or skipped', "
    "reason STRING COMMENT 'Why the run was refused, the first evidence of missing records, or the file skipped.'"
)
"""Columns of the result of `ingest`."""

COMPARED = (
    "{by}quantity STRING COMMENT 'A quantity of `understudy compare`.', "
    "unit STRING COMMENT 'The unit of the numbers.', "
    "runs BIGINT COMMENT 'Runs with a value.', "
    "n BIGINT COMMENT 'Values.', "
    "p50 DOUBLE COMMENT 'Median, by nearest rank.', "
    "p50_low DOUBLE COMMENT 'Lower end of the interval of the median.', "
    "p50_high DOUBLE COMMENT 'Upper end of the interval of the median.', "
    "p90 DOUBLE, p99 DOUBLE, max DOUBLE, "
    "within DOUBLE COMMENT 'By how much each value may be wrong, because clocks of machines were aligned.', "
    "difference DOUBLE COMMENT 'Of the medians, from the baseline group.', "
    "corrected_p DOUBLE COMMENT 'p value of the difference, corrected for the number of tests.', "
    "verdict STRING COMMENT 'changed, noise, below clock error or too few runs; null without a baseline.'"
)
"""Columns of the result of `compare`; the settings by which runs are grouped come first."""


def replay(spark: SparkSession, paths: Paths) -> RunTables:
    """Measure the runs of some event logs; return their tables by name, for example `failovers` or `request_log`.

    docs/reference/tables.md defines the tables and columns. The results of all runs are kept on the disks of the
    executors until the mapping's `unpersist`, or the end of its block:

        with replay(spark, "runs/*") as tables:
            tables["failovers"].groupBy("cause").count().show()

    Raises:
        BadSource: there is no event log at or below one of the paths.
        SparkFailed: Spark cannot read the logs, its workers lack a package, or the session was stopped.
    """
    check_usable(spark)
    return RunTables(spark, logs_in(_listed(paths)))


def ingest(spark: SparkSession, paths: Paths, *, lake: str | StoragePath) -> DataFrame:
    """Bring the runs of some event logs into a lake, as `understudy ingest` does; return a row for each run.

    `INGESTED` has the columns.

    Raises:
        BadSource: there is no event log at or below one of the paths.
        LakeError: the folder is no lake, or another process is writing to it.
        OSError: the lake cannot be read or written.
        SparkFailed: a task failed again and again.
    """
    check_usable(spark)
    groups = ingesting.groups_in(_listed(paths))
    result = ingesting.ingest(groups, storage_path(lake), lambda size: SparkEngine(spark))
    rows = [(run, "added", result.incomplete.get(run, "")) for run in result.added]
    rows += [(run, "replaced", result.incomplete.get(run, "")) for run in result.replaced]
    rows += [(run, "unchanged", "") for run in result.unchanged]
    rows += [(refusal.run, "refused", refusal.why) for refusal in result.refused]
    rows += [("", "skipped", file) for file in result.skipped]
    return spark.createDataFrame(rows, INGESTED)


def compare(
    spark: SparkSession,
    tables: str | StoragePath,
    *,
    by: Sequence[str],
    baseline: Mapping[str, str] | None = None,
    incomplete: bool = False,
) -> DataFrame:
    """Compare groups of runs as `understudy compare` does; return a row for each group and quantity.

    Args:
        tables: a lake, or a folder that `understudy replay --dir` has written.
        by: the settings whose values make a group, for example `session_timeout_ms`.
        baseline: values of some of these settings; each group is compared with the group that has them.
        incomplete: also use runs with missing records.

    Raises:
        CannotCompare: a setting is unknown, no run has a failover, all of them have missing records, or `baseline`
            matches no run.
        LakeError: the lake is of a later format.
        SparkFailed: Spark cannot read the tables.
    """
    check_usable(spark)
    found = compare_tables(read_tables(spark, storage_path(tables)), by, dict(baseline or {}), incomplete=incomplete)
    columns = COMPARED.format(by="".join(f"`{name}` STRING, " for name in by))
    return spark.createDataFrame(_compared_rows(found), columns)


def _compared_rows(found: Comparison) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for group in found.groups:
        for quantity in QUANTITIES:
            values = group.distributions[quantity.name]
            change = group.changes.get(quantity.name)

            def scaled(value: float | None, scale: int = quantity.scale) -> float | None:
                return None if value is None else value / scale

            low, high = values.intervals.get(50) or (None, None)
            rows.append(
                (
                    *group.key,
                    quantity.name,
                    quantity.unit,
                    values.runs,
                    values.n,
                    *map(scaled, (values.quantiles[50], low, high)),
                    *(scaled(values.quantiles[percent]) for percent in (90, 99, 100)),
                    scaled(values.within),
                    *(
                        (None,) * 3
                        if change is None
                        else (scaled(change.difference), change.corrected_p, change.verdict)
                    ),
                )
            )
    return rows


def seeds(
    spark: SparkSession, numbers: Iterable[int], *, seconds: int = 60, logs: str | Path | None = None
) -> DataFrame:
    """Return the outcomes of seeds of the simulator, a row for each; they are simulated when the DataFrame is read.

    The columns are the fields of `SeedOutcome`. Reading it twice simulates twice, unless it is persisted.

    Args:
        seconds: simulated seconds of each seed.
        logs: a folder in which executors leave the event logs of each seed, as `seed-N`; None for none.
    """
    check_usable(spark)
    folder = None if logs is None else Path(logs)
    results = outcomes(spark, list(numbers), seconds, events=folder, keep_all=folder is not None)
    schema = pa.schema(list(struct_type(SeedOutcome)))
    return results.mapInArrow(rows_of_outcomes, ddl(schema, column_comments(SeedOutcome)))


def send_package(spark: SparkSession) -> None:
    """Send the package `understudy` to the executors of a session, for jobs that start from now on.

    Compiled packages, such as msgspec and pyarrow, have to be installed there. If this process has the package from the
    archive of `spark-submit --py-files`, the executors have it too, and nothing is sent.
    """
    check_usable(spark)
    if not ROOT.is_dir():
        return
    folder = Path(tempfile.mkdtemp(prefix="understudy-spark-"))
    # Classic Spark reads the file again for each new executor.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    add_package(spark, package_archive(folder))


def _listed(paths: Paths) -> LogListing:
    each = [paths] if isinstance(paths, str | Path | UrlPath) else paths
    return files_of(map(str, each), str(Path.cwd()))
