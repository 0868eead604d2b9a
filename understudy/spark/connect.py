"""Opens a session of a Spark Connect server for one command."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from understudy.extras import is_installed
from understudy.spark.failures import SparkFailed, spark_errors
from understudy.spark.package_archive import add_package, package_archive
from understudy.spark.settings import CONNECT, Progress, SparkSettings

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
    if not is_installed("grpc"):
        raise SparkFailed("Spark Connect needs further packages: pip install 'kafka-understudy[connect]'")
    _check_that_a_server_listens(settings.master)
    progress(f"connecting to {settings.redacted_master}")
    with spark_errors(f"the Spark Connect server at {settings.master} cannot be used"):
        # The client's own class: `pyspark.sql.SparkSession` would make the whole process one of Spark Connect.
        from pyspark.sql.connect.session import SparkSession as Remote  # noqa: PLC0415  the extra `connect`

        session = cast("SparkSession", Remote.builder.remote(settings.master).create())
        try:
            with tempfile.TemporaryDirectory(prefix="understudy-spark-") as folder:
                add_package(session, package_archive(Path(folder)))
            yield session
        finally:
            with contextlib.suppress(Exception):
                session.stop()


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
