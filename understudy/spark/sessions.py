"""Tells sessions of classic Spark and of Spark Connect apart."""

from __future__ import annotations

from types import ModuleType

from pyspark.sql import SparkSession, functions

from understudy.spark.failures import SparkFailed
from understudy.spark.versions import check_spark_version


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session is one of a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def check_usable(spark: SparkSession) -> None:
    """Check a session of a caller.

    Raises:
        SparkFailed: it was stopped.
        SparkTooOld: this Spark is older than 3.5.
    """
    check_spark_version()
    stopped = spark.client.is_closed if is_connect(spark) else spark.sparkContext._jsc is None
    if stopped:
        raise SparkFailed("the session of Spark was stopped; open another with SparkSession.builder.getOrCreate()")


def functions_for(spark: SparkSession) -> ModuleType:
    """Return the module with the functions for a session. `pyspark.sql.functions` is for one kind in each process."""
    if not is_connect(spark):
        return functions
    from pyspark.sql.connect import functions as remote  # noqa: PLC0415  it needs the extra `connect`

    return remote
