"""Runs a Spark session for one command: its own classic Spark, or a session of a Spark Connect server."""

from __future__ import annotations

from contextlib import AbstractContextManager

from pyspark.sql import SparkSession

from understudy.spark.classic import classic_session
from understudy.spark.connect import connect_session
from understudy.spark.settings import Progress, SparkSettings, no_progress


def spark_running(settings: SparkSettings, progress: Progress = no_progress) -> AbstractContextManager[SparkSession]:
    """Run a session while the block runs.

    Raises:
        SparkFailed: Spark is too old, or Java too new for it; Java did not start; Spark does not run with the `master`
            of the settings, or its server does not answer.
    """
    if settings.java is None:
        return connect_session(settings, progress)
    return classic_session(settings, settings.java, progress)
