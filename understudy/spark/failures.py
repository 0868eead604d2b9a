"""Turns exceptions of Spark into one kind with one line, and keeps secrets out of it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from understudy.spark.worker_packages import NEEDED, lacking_packages

_MAX_CAUSES = 20
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(\w+)|understudy\.extras\.MissingExtra: ")
_PACKAGES_NEEDED = (
    "understudy.spark.send_package(spark) sends understudy to the workers; the others have to be installed for the "
    "Python of the workers, which PYSPARK_PYTHON chooses"
)
_PASSWORD_IN_URL = re.compile(r"://[^/@\s]+@")
_SECRET_OPTION = re.compile(r"((?:token|password|secret)[\w.]*=)[^;&\s'\"]+", re.IGNORECASE)


def redacted(text: str) -> str:
    """Return text without the secrets that a master's URL may have: passwords before its host, and tokens."""
    return _SECRET_OPTION.sub(r"\1…", _PASSWORD_IN_URL.sub("://…@", text))


class SparkFailed(Exception):
    """Spark's Java did not start, or Spark raised an exception.

    The message has the end of Java's output, or what Spark was doing and a line about the first cause.
    """

    def __init__(self, message: str) -> None:
        super().__init__(redacted(message))


@contextlib.contextmanager
def spark_errors(failure: str, spark: SparkSession | None = None) -> Iterator[None]:
    """Raise exceptions of Spark as `SparkFailed`. Their text is in Java, so it is read before the context ends.

    Args:
        spark: the session, whose workers are asked if a package is missing there.
    """
    try:
        yield
    except Py4JJavaError as error:
        reason = _reason(_first_cause(error.java_exception).toString())
    except (Py4JError, PySparkException) as error:
        reason = _reason(str(error))
    else:
        return
    raise SparkFailed(f"{failure}: {reason}{_missing_packages(reason, spark)}") from None


def _missing_packages(reason: str, spark: SparkSession | None) -> str:
    """Return which worker lacks which package, if the reason is that one is missing."""
    missing = _NO_MODULE.search(reason)
    if spark is None or missing is None:
        return ""
    try:
        workers = lacking_packages(spark, {*NEEDED, *filter(None, missing.groups())})
    except (Py4JError, PySparkException):
        workers = []
    return f". {'; '.join(workers) or 'A worker lacks it'}. {_PACKAGES_NEEDED}"


def _first_cause(exception: Any) -> Any:
    """Return the Java exception that led to this one."""
    for _ in range(_MAX_CAUSES):
        cause = exception.getCause()
        if cause is None:
            break
        exception = cause
    return exception


def _reason(text: str) -> str:
    """Return the line that says what went wrong: the first, or the exception after a worker's last traceback."""
    _, traceback, after = text.rpartition("Traceback (most recent call last):\n")
    lines = [line for line in after.splitlines() if not line.startswith(" ")] if traceback else text.splitlines()
    return lines[0] if lines else text
