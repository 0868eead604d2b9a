"""Gives Spark the tables of a lake as DataFrames."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions

from understudy.history.lake.columns import ENVELOPE_FIELDS
from understudy.history.lake.lake import Lake
from understudy.history.lake.parts import RECORDS
from understudy.spark.ddl import ddl


def read_lake(spark: SparkSession, lake: Path | str, name: str) -> DataFrame:
    """Return a table of metrics, for example `failovers`, or of a record type, for example `RequestSent`.

    The DataFrame reads the version of the lake that is the newest now. Its files have to be on a path that every
    worker sees.

    Raises:
        LakeError: the folder is no lake, or has no such table.
    """
    opened = Lake(lake)
    schema = ddl(opened.schema(name))
    files = [str(path) for path in opened.files(*opened.folder(name).split("/"))]
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*files)


def read_records(spark: SparkSession, lake: Path | str) -> DataFrame:
    """Return the records of all types: the columns that they share, and `type`.

    The DataFrame reads the version of the lake that is the newest now, as `read_lake` does.

    Raises:
        LakeError: the folder is no lake.
    """
    opened = Lake(lake)
    schema = ddl(pa.schema(ENVELOPE_FIELDS))
    files = [str(path) for name in opened.record_types for path in opened.files(RECORDS, name)]
    if not files:
        return spark.createDataFrame([], f"{schema}, `type` STRING")
    # A file has the records of one type, in the folder of its name.
    folder = functions.element_at(functions.split(functions.col("_metadata.file_path"), "/"), -2)
    return spark.read.schema(schema).parquet(*files).withColumn("type", folder)
