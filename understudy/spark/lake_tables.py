"""Gives Spark the tables of a lake as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from understudy.history.lake.columns import ENVELOPE_FIELDS, INGEST
from understudy.history.lake.lake import Lake
from understudy.history.lake.layout import RECORDS
from understudy.history.lake.parts import folder_of, schema_of
from understudy.history.lake.written import TableFile
from understudy.history.storage.paths import StoragePath, UrlPath, spark_url
from understudy.spark.ddl import ddl
from understudy.spark.failures import spark_errors

_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CANNOT_READ = (
    "Spark cannot read the files of {}; it needs Hadoop's connector for this store on its class path, for S3 "
    "`--packages org.apache.hadoop:hadoop-aws:VERSION`; without one, `understudy.lake.Lake` reads its tables as Arrow"
)


def read_lake(
    spark: SparkSession, lake: StoragePath | str, name: str, *, incomplete: bool = False, version: int | None = None
) -> DataFrame:
    """Return a table of metrics, for example `failovers`, or of a record type, for example `RequestSent`.

    The DataFrame reads one version of the lake: with Delta Lake if the session has it, else the files of the table.
    These have to be on a path that every worker sees, or in a store
    for which Spark has a connector, such as hadoop-aws for S3.

    Args:
        incomplete: also read runs with missing records; otherwise they are left out, with a warning. `missing` and
            `findings` always have the rows of all runs.
        version: as for `Lake`; by default the version that is the newest now.

    Raises:
        LakeError: the folder is no lake, has no such table, or records of all its runs are missing.
        SparkFailed: Spark has no connector for the lake's store.
    """
    opened = Lake(lake, version)
    schema = opened.schema(name)
    folder = opened.folder(name)
    left_out = opened.left_out(name, incomplete=incomplete)
    if has_delta(spark) and (number := opened.table_version(folder)) is not None:
        rows = _by_delta(spark, opened, folder, number, schema)
    else:
        rows = _by_files(spark, opened.path, opened.files(*folder.split("/")), schema)
    return _without(_counted(rows, opened).drop(INGEST.name), left_out)


def has_delta(spark: SparkSession) -> bool:
    """Return whether a session has Delta Lake (delta-spark), by its extensions."""
    return _DELTA_EXTENSION in (spark.conf.get("spark.sql.extensions", "") or "")


def read_records(
    spark: SparkSession, lake: StoragePath | str, *, incomplete: bool = False, version: int | None = None
) -> DataFrame:
    """Return the records of all types: the columns that they share, and `type`.

    The DataFrame reads one version of the lake, as `read_lake` does.

    Args:
        incomplete, version: as for `read_lake`.

    Raises:
        LakeError: the folder is no lake, or records of all its runs are missing.
    """
    opened = Lake(lake, version)
    files = [path for name in opened.record_types for path in opened.files(RECORDS, name)]
    left_out = opened.left_out(RECORDS, incomplete=incomplete)
    rows = _records_by_files(spark, opened.path, files)
    return _without(_counted(rows, opened).drop(INGEST.name), left_out)


def read_files(
    spark: SparkSession, lake: StoragePath, files: Mapping[str, Sequence[TableFile]], name: str
) -> DataFrame:
    """Return the rows of a table in files that have been written for a lake, but not committed.

    Args:
        files: the files by folder, as in `Part`.
        name: a table, or `records` for the records of all types as `read_records` returns them.

    Raises:
        SparkFailed: Spark has no connector for the lake's store.
    """
    if name == RECORDS:
        paths = [lake / folder / file.name for folder, own in files.items() for file in own]
        return _records_by_files(spark, lake, paths).drop(INGEST.name)
    folder = folder_of(name)
    paths = [lake / folder / file.name for file in files.get(folder, ())]
    return _by_files(spark, lake, paths, schema_of(folder)).drop(INGEST.name)


def _records_by_files(spark: SparkSession, lake: StoragePath, files: Sequence[StoragePath]) -> DataFrame:
    """Return what the records in files of several types share, with `type` and `ingest`."""
    schema = pa.schema(ENVELOPE_FIELDS)
    if not files:
        return spark.createDataFrame([], f"{ddl(schema.append(INGEST))}, `type` STRING")
    # A file has the records of one type, in the folder of its name.
    return _by_files(spark, lake, files, schema, "element_at(split(_metadata.file_path, '/'), -2) AS type")


def _by_delta(spark: SparkSession, lake: Lake, folder: str, version: int, schema: pa.Schema) -> DataFrame:
    """Return a version of a table as Delta Lake reads it, which skips files by their statistics."""
    with _store_errors(spark, lake.path):
        rows = spark.read.format("delta").option("versionAsOf", version).load(spark_url(lake.path / folder))
    # Rows of an older version may lack columns, and fields of columns.
    return rows.to(spark.createDataFrame([], ddl(schema.append(INGEST))).schema)


def _by_files(
    spark: SparkSession, lake: StoragePath, files: Sequence[StoragePath], schema: pa.Schema, *more: str
) -> DataFrame:
    """Return the rows of files, with `ingest` and more columns, as any Spark reads them."""
    columns = ddl(schema.append(INGEST))
    if not files:
        return spark.createDataFrame([], columns)
    with _store_errors(spark, lake):
        return spark.read.schema(columns).parquet(*map(spark_url, files)).selectExpr("*", *more)


def _store_errors(spark: SparkSession, lake: StoragePath) -> AbstractContextManager[None]:
    return spark_errors(_CANNOT_READ.format(lake), spark) if isinstance(lake, UrlPath) else nullcontext()


def _counted(rows: DataFrame, lake: Lake) -> DataFrame:
    """Return the rows that count."""
    if not lake.uncounted:
        return rows
    others = rows.sparkSession.createDataFrame(sorted(lake.uncounted), "run STRING, ingest STRING")
    return rows.join(others.hint("broadcast"), ["run", INGEST.name], "left_anti")


def _without(rows: DataFrame, runs: frozenset[str]) -> DataFrame:
    """Return the rows of other runs."""
    if not runs:
        return rows
    left_out = rows.sparkSession.createDataFrame([(run,) for run in sorted(runs)], "run STRING")
    return rows.join(left_out.hint("broadcast"), "run", "left_anti")
