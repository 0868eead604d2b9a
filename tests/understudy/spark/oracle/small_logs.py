"""Sessions of Spark with settings for few rows."""

from __future__ import annotations

from pyspark.sql import SparkSession

_SETTINGS = {
    # With few rows, compiled expressions, adaptive plans, a second partition and the job that each broadcast needs
    # take more time than they save.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # A Spark job that lists the files takes longer than listing them here.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    "spark.sql.ansi.enabled": "true",
}


def session_for_small_logs(spark: SparkSession) -> SparkSession:
    """Return a new session of the same Spark, with plans that take little time for few rows."""
    session = spark.newSession()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session
