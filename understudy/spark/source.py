"""Lets Spark read event logs: `spark.read.format("understudy").load("runs/*")`, and `readStream` for growing logs."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from understudy.spark.versions import require_data_sources

FORMAT = "understudy"
"""Name of the format in `spark.read.format`."""


def register(spark: SparkSession) -> None:
    """Make the format `understudy` known to `spark`.

    Relative paths start at the current folder of this moment, because the processes that list the files have another.

    Raises:
        SparkTooOld: this Spark has no data sources in Python.
    """
    require_data_sources()
    from understudy.spark.event_log_source import EventLogSource  # noqa: PLC0415  Spark 3.5 lacks its base class

    folder = str(Path.cwd())

    class RegisteredSource(EventLogSource):
        """The data source with the folder at which relative paths start."""

        relative_to = folder

    spark.dataSource.register(RegisteredSource)
