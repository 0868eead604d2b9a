"""Opens a Spark session for an analyst, with the Java from pip and the data source registered."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyspark.sql import SparkSession

from understudy.spark.running import spark_running
from understudy.spark.settings import LOCAL_MASTER, SparkSettings
from understudy.spark.source import register
from understudy.spark.versions import HAS_DATA_SOURCES

SESSION_MEMORY = "1g"
"""Heap size of a session's Java, in which the queries of an analyst run."""


@contextlib.contextmanager
def spark_session(*, master: str = LOCAL_MASTER, memory: str = SESSION_MEMORY) -> Iterator[SparkSession]:
    """Run a Spark session while the block runs.

    From Spark 4.0 on, `spark.read.format("understudy")` reads event logs in it.

    Args:
        master: the master of Spark, as in the option --master of spark-submit.
        memory: the heap of the driver's Java, as in `-Xmx`.

    Raises:
        JavaNotFound: there is no Java.
        SparkFailed: Java did not start, or Spark does not run with `master`.
    """
    with spark_running(SparkSettings.chosen(master=master, memory=memory, has_mllib=True)) as session:
        if HAS_DATA_SOURCES:
            register(session)
        yield session
