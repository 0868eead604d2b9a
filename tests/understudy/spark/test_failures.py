"""Messages about an exception of Spark: one line with its first cause. No Spark is started."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.protocol import Py4JJavaError

from understudy.clusters.java import OLDEST_JAVA, JavaRuntime
from understudy.spark import failures
from understudy.spark.classic import registered
from understudy.spark.failures import SparkFailed, redacted, spark_errors
from understudy.spark.running import spark_running
from understudy.spark.settings import SparkSettings
from understudy.spark.worker_packages import NEEDED


class JavaException:
    """An exception in Java, as Py4J shows it."""

    _target_id = "o1"

    def __init__(self, text: str, cause: JavaException | None = None) -> None:
        self._text = text
        self._cause = cause

    def toString(self) -> str:  # its name in Java
        return self._text

    def getCause(self) -> JavaException | None:  # its name in Java
        return self._cause


WORKER = """org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python \
worker: Traceback (most recent call last):
  File "worker.py", line 4327, in invoke_udf
    run_process()
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "parts.py", line 163, in close
    stream.flush()
    ^^^^^^^^^^^^^^
OSError: [Errno 28] No space left on device
 SQLSTATE: 38000"""


@pytest.mark.parametrize(
    ("exception", "reason"),
    [
        (
            JavaException("org.apache.spark.SparkException: Could not parse"),
            "org.apache.spark.SparkException: Could not parse",
        ),
        (JavaException("Job aborted\nDriver stacktrace:"), "Job aborted"),
        (
            JavaException("Task failed while writing rows", JavaException("FSError", JavaException("No space left"))),
            "No space left",
        ),
        (JavaException(WORKER), "OSError: [Errno 28] No space left on device"),
        (JavaException("Job aborted", JavaException(WORKER)), "OSError: [Errno 28] No space left on device"),
        (JavaException(""), ""),
    ],
)
def test_the_first_cause_is_named_in_one_line(exception: JavaException, reason: str) -> None:
    with pytest.raises(SparkFailed, match=f"^it failed: {re.escape(reason)}$"), spark_errors("it failed"):
        raise Py4JJavaError("An error occurred while calling o1", exception)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("spark://ada:s3cret@master:7077", "spark://…@master:7077"),
        ("sc://host/;token=abc;user_id=ada", "sc://host/;token=…;user_id=ada"),
        ("k8s://https://t0k3n@host?access_token_value=abc&x=1", "k8s://https://…@host?access_token_value=…&x=1"),
        ("bad 'spark.authenticate.secret=abc'", "bad 'spark.authenticate.secret=…'"),
        ("spark://one:7077,two:7077", "spark://one:7077,two:7077"),
        ("local[*]", "local[*]"),
    ],
)
def test_secrets_of_a_master_are_not_shown(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_neither_a_page_nor_an_error_names_the_secret_of_a_master() -> None:
    java = JavaRuntime(home=Path("/nowhere"), version=OLDEST_JAVA, why="for a test")
    settings = SparkSettings(java=java, master="spark://ada:s3cret@127.0.0.1:1")
    assert settings.engine.endswith("spark://…@127.0.0.1:1")
    with pytest.raises(SparkFailed) as raised, spark_running(settings):
        pass
    assert "s3cret" not in str(raised.value)
    assert "no Spark master listens at spark://…@127.0.0.1:1" in str(raised.value)


def test_a_master_that_does_not_register_a_program_is_named_with_the_version_here() -> None:
    stopped = JavaException("java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\nIt was")
    named = re.escape(pyspark.__version__)
    message = rf"^spark://…@host:7077 listens, but has not .* than the {named} here\. .*=VERSION"
    with (
        pytest.raises(SparkFailed, match=message),
        registered("spark://ada:s3cret@host:7077"),
        spark_errors("it failed"),
    ):
        raise Py4JJavaError("An error occurred while calling o1", stopped)
    for master, exception in (("yarn", stopped), ("spark://host:7077", JavaException("Could not parse"))):
        with pytest.raises(SparkFailed, match=r"^it failed: "), registered(master), spark_errors("it failed"):
            raise Py4JJavaError("An error occurred while calling o1", exception)


@pytest.mark.parametrize(
    ("exception", "more"),
    [
        ("ModuleNotFoundError: No module named 'structlog.stdlib'", {"structlog"}),
        ("understudy.extras.MissingExtra: NumPy is needed, which is not installed", set()),
    ],
)
def test_workers_are_asked_for_the_package_that_is_missing(
    exception: str, more: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(spark: object, needed: Iterable[str]) -> list[str]:
        assert set(needed) == {*NEEDED, *more}
        return ["host lacks it"]

    monkeypatch.setattr(failures, "lacking_packages", lacking)
    session: Any = object()
    message = f"^it failed: {re.escape(exception)}. host lacks it. understudy.spark.send_package"
    with pytest.raises(SparkFailed, match=message), spark_errors("it failed", session):
        raise Py4JJavaError("An error occurred while calling o1", JavaException(exception))
