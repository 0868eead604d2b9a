"""What tests do on a Spark that is older than the newest: skip what it lacks, by name, and pass over what it leaves."""

from __future__ import annotations

import pytest

from understudy.clusters.java import JavaNotFound, choose_java
from understudy.spark.failures import SparkFailed
from understudy.spark.versions import (
    DATA_SOURCES_SINCE,
    HAS_DATA_SOURCES,
    HAS_PROGRESS_HANDLERS,
    HAS_READ_LIMITS,
    READ_LIMITS_SINCE,
    check_versions,
    this_spark,
)


def _why_not_on_the_java_from_pip() -> str:
    try:
        check_versions(choose_java(environment={}))
    except (JavaNotFound, SparkFailed) as reason:
        return str(reason)
    return ""


NO_DATA_SOURCES = f"{this_spark()}: data sources in Python are there since {DATA_SOURCES_SINCE}"
needs_data_sources = pytest.mark.skipif(not HAS_DATA_SOURCES, reason=NO_DATA_SOURCES)
needs_read_limits = pytest.mark.skipif(
    not HAS_READ_LIMITS, reason=f"{this_spark()}: the batches of a stream have limits since {READ_LIMITS_SINCE}"
)
needs_progress_handlers = pytest.mark.skipif(
    not HAS_PROGRESS_HANDLERS, reason=f"{this_spark()}: clients of Spark Connect are shown progress since 4.0"
)

FINDS_DAMAGE_BY_SQL = HAS_DATA_SOURCES
"""Whether this Spark runs `tests.understudy.spark.oracle.sql_findings`. Before 4.0 it has no function that validates
UTF-8, and does not find the columns of a view that is joined with another one of the same checkpoint."""

needs_the_java_from_pip = pytest.mark.skipif(
    bool(_why_not_on_the_java_from_pip()), reason=_why_not_on_the_java_from_pip()
)

passes_over_warnings = pytest.mark.filterwarnings(
    # Before 4.2 `collect` leaves the socket through which it has read its rows to the garbage collector.
    "ignore:unclosed <socket.*raddr=:ResourceWarning",
    # Before 4.0 the client of Spark Connect leaves the archive that it has sent to the garbage collector.
    "ignore:unclosed file <_io.BufferedReader name='.*/understudy.zip'>:ResourceWarning",
    # Before 4.0 PySpark compares versions with distutils.
    "ignore:distutils Version classes are deprecated:DeprecationWarning",
)
