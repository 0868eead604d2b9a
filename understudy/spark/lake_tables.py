"""Gives Spark the tables of a lake as DataFrames."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from understudy.lake.lake import Lake
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
