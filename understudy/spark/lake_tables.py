"""Gives Spark the tables of a lake as DataFrames."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from understudy.history.lake.columns import ENVELOPE_FIELDS
from understudy.history.lake.lake import Lake
from understudy.history.lake.parts import RECORDS
from understudy.spark.ddl import ddl


def read_lake(spark: SparkSession, lake: Path | str, name: str, *, incomplete: bool = False) -> DataFrame:
    """Return a table of metrics, for example `failovers`, or of a record type, for example `RequestSent`.

    The DataFrame reads the version of the lake that is the newest now. Its files have to be on a path that every
    worker sees.

    Args:
        incomplete: also read runs with missing records; otherwise they are left out, with a warning. `missing` and
            `findings` always have the rows of all runs.

    Raises:
        LakeError: the folder is no lake, has no such table, or records of all its runs are missing.
    """
    opened = Lake(lake)
    schema = ddl(opened.schema(name))
    files = [str(path) for path in opened.files(*opened.folder(name).split("/"))]
    left_out = opened.left_out(name, incomplete=incomplete)
    if not files:
        return spark.createDataFrame([], schema)
    return _without(spark.read.schema(schema).parquet(*files), left_out)


def read_records(spark: SparkSession, lake: Path | str, *, incomplete: bool = False) -> DataFrame:
    """Return the records of all types: the columns that they share, and `type`.

    The DataFrame reads the version of the lake that is the newest now, as `read_lake` does.

    Args:
        incomplete: as for `read_lake`.

    Raises:
        LakeError: the folder is no lake, or records of all its runs are missing.
    """
    opened = Lake(lake)
    schema = ddl(pa.schema(ENVELOPE_FIELDS))
    files = [str(path) for name in opened.record_types for path in opened.files(RECORDS, name)]
    left_out = opened.left_out(RECORDS, incomplete=incomplete)
    if not files:
        return spark.createDataFrame([], f"{schema}, `type` STRING")
    # A file has the records of one type, in the folder of its name.
    folder = "element_at(split(_metadata.file_path, '/'), -2) AS type"
    return _without(spark.read.schema(schema).parquet(*files).selectExpr("*", folder), left_out)


def _without(rows: DataFrame, runs: frozenset[str]) -> DataFrame:
    """Return the rows of other runs."""
    if not runs:
        return rows
    left_out = rows.sparkSession.createDataFrame([(run,) for run in sorted(runs)], "run STRING")
    return rows.join(left_out.hint("broadcast"), "run", "left_anti")
