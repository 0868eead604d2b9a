"""Turns exceptions of Spark into one kind with one line, and keeps secrets out of it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

_MAX_CAUSES = 20
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
def spark_errors(failure: str) -> Iterator[None]:
    """Raise exceptions of Spark as `SparkFailed`. Their text is in Java, so it is read before the context ends."""
    try:
        yield
    except Py4JJavaError as error:
        raise SparkFailed(f"{failure}: {_reason(_first_cause(error.java_exception).toString())}") from None
    except (Py4JError, PySparkException) as error:
        raise SparkFailed(f"{failure}: {_reason(str(error))}") from None


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
