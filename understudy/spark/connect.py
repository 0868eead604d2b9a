"""Opens a session of a Spark Connect server for one command."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from understudy.extras import is_installed
from understudy.spark.failures import SparkFailed, spark_errors
from understudy.spark.job_watch import handling_progress
from understudy.spark.package_archive import add_package, package_archive
from understudy.spark.settings import CONNECT, Progress, SparkSettings
from understudy.spark.versions import check_server_version, check_spark_version

if TYPE_CHECKING:
    from pyspark.sql.connect.shell.progress import StageInfo

DEFAULT_PORT = 15002
_ANSWER_TIMEOUT_S = 10.0


@contextlib.contextmanager
def connect_session(settings: SparkSettings, progress: Progress) -> Iterator[SparkSession]:
    """Run a session of the server at `settings.master` while the block runs.

    The packages of this program are sent to the server, which gives them to its executors.

    Raises:
        SparkFailed: this environment lacks the packages for Spark Connect, or the server does not answer or has
            another version of Spark.
    """
    check_spark_version()
    if not is_installed("grpc"):
        raise SparkFailed("Spark Connect needs further packages: pip install 'kafka-understudy[connect]'")
    _check_that_a_server_listens(settings.master)
    progress(f"connecting to {settings.redacted_master}")
    failure = f"the Spark Connect server at {settings.master} cannot be used"
    # The client's own class: `pyspark.sql.SparkSession` would make the whole process one of Spark Connect.
    from pyspark.sql.connect.session import SparkSession as Remote  # noqa: PLC0415  the extra `connect`

    with spark_errors(failure):
        session = cast("SparkSession", Remote.builder.remote(settings.master).create())
    try:
        with spark_errors(failure), tempfile.TemporaryDirectory(prefix="understudy-spark-") as folder:
            check_server_version(session.version)
            add_package(session, package_archive(Path(folder)))
        with _executors_watched(session, settings):
            yield session
    finally:
        with contextlib.suppress(PySparkException):
            session.stop()


@contextlib.contextmanager
def _executors_watched(session: SparkSession, settings: SparkSettings) -> Iterator[None]:
    """Interrupt a job of which no task has run for too long, while the block runs; Spark would wait for ever."""
    waiting_since: dict[str, float] = {}
    interrupted: list[str] = []

    def handle(stages: Iterable[StageInfo], inflight_tasks: int, operation_id: str, done: bool) -> None:
        if done or inflight_tasks or all(stage.num_tasks == stage.num_completed_tasks for stage in stages):
            waiting_since.pop(operation_id, None)
        elif time.monotonic() - waiting_since.setdefault(operation_id, time.monotonic()) > settings.executor_timeout_s:
            interrupted.append(operation_id)
            session.interruptOperation(operation_id)

    with handling_progress(session, handle):
        try:
            yield
        except SparkFailed:
            if not interrupted:
                raise
            raise SparkFailed(
                f"{settings.master} has run no task for {settings.executor_timeout_s:g} s: its executors may be gone "
                "or busy; see the page of its Spark"
            ) from None


def _check_that_a_server_listens(url: str) -> None:
    """Raise `SparkFailed` if no server listens; Spark itself tries for ten minutes."""
    try:
        address = urlsplit(url)
        host, port = address.hostname, address.port or DEFAULT_PORT
        if not host:
            raise ValueError("there is no host")
        with socket.create_connection((host, port), timeout=_ANSWER_TIMEOUT_S):
            return
    except (OSError, ValueError) as error:
        raise SparkFailed(
            f"no Spark Connect server listens at {url}: {error}; expected {CONNECT}HOST:PORT/;OPTIONS as Spark takes it"
        ) from None
