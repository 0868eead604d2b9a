"""Tells sessions of classic Spark and of Spark Connect apart."""

from __future__ import annotations

from types import ModuleType

from pyspark.sql import SparkSession, functions


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session is one of a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def functions_for(spark: SparkSession) -> ModuleType:
    """Return the module with the functions for a session. `pyspark.sql.functions` is for one kind in each process."""
    if not is_connect(spark):
        return functions
    from pyspark.sql.connect import functions as remote  # noqa: PLC0415  it needs the extra `connect`

    return remote
