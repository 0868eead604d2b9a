"""Starts Spark for one command: Java by `gateway`, then a SparkContext, and ends both."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException

from understudy.clusters.java import JavaRuntime
from understudy.spark import class_cache
from understudy.spark.gateway import STOP_TIMEOUT_S, Gateway, gateway, jvm_flags
from understudy.spark.gateway import SparkFailed as SparkFailed
from understudy.spark.gateway import redacted as redacted
from understudy.spark.versions import check_versions, this_spark

LOCAL_MASTER = "local[*]"

DRIVER_MEMORY = "512m"
"""Heap size of the driver's Java, which only passes bytes on: the work is done by Python workers."""

EXECUTOR_TIMEOUT_S = 120.0
_EXECUTORS_COUNTED_EVERY_S = 1.0

_STANDALONE = "spark://"
_MAX_CAUSES = 20
_CONNECT_TIMEOUT_S = 10.0

Progress: TypeAlias = Callable[[str], None]

_ROOT = Path(__file__).resolve().parents[2]


def no_progress(step: str) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """The settings with which Spark is started.

    Attributes:
        master: the master of Spark, as in the option --master of spark-submit.
        memory: the heap of the driver's Java, as in `-Xmx`.
        flags: further flags of Java.
        stop_timeout_s: how long Java may take to end before it is killed.
        executor_timeout_s: how long a cluster may leave this program without an executor before it gives up.
    """

    java: JavaRuntime
    master: str = LOCAL_MASTER
    memory: str = DRIVER_MEMORY
    flags: tuple[str, ...] = ()
    stop_timeout_s: float = STOP_TIMEOUT_S
    executor_timeout_s: float = EXECUTOR_TIMEOUT_S

    @classmethod
    def with_class_cache(
        cls, java: JavaRuntime, *, master: str = LOCAL_MASTER, memory: str | None = None
    ) -> SparkSettings:
        """Return settings that use the cache of classes, if there is one."""
        return cls(java=java, master=master, memory=memory or DRIVER_MEMORY, flags=class_cache.flags(java))

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    @property
    def engine(self) -> str:
        """The versions of Spark and Java, and the master."""
        version = "" if self.java.version is None else f" {self.java.version}"
        return f"{this_spark()} on Java{version}, {redacted(self.master)}"


@contextlib.contextmanager
def spark_context(settings: SparkSettings, progress: Progress = no_progress) -> Iterator[SparkContext]:
    """Run a SparkContext while the block runs.

    Raises:
        SparkFailed: Spark is too old, or Java too new for it; Java did not start, or Spark does not run with the
            `master` of the settings.
    """
    check_versions(settings.java)
    if settings.master.startswith(_STANDALONE):
        _check_that_a_master_listens(settings.master)
    flags = [*jvm_flags(settings.java, memory=settings.memory), *settings.flags]
    progress("starting Java for Spark")
    home = Path(pyspark.__file__).parent
    with gateway(
        settings.java, home, flags, loopback=settings.is_local, stop_timeout_s=settings.stop_timeout_s
    ) as running:
        progress("starting Spark")
        context: SparkContext | None = None
        try:
            with _environment(_variables(running)), spark_errors(f"Spark does not run with master {settings.master}"):
                context = SparkContext(master=settings.master, appName="understudy", conf=_configuration(settings))
                if not settings.is_local:
                    context.addPyFile(str(_archive(running.folder)))
            if settings.is_local:
                yield context
            else:
                with _executors_watched(context, settings):
                    yield context
        finally:
            if context is not None:
                context.stop()
            connection, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
            if connection is not None:
                connection.shutdown()


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


def _check_that_a_master_listens(master: str) -> None:
    """Raise `SparkFailed` if no host of the URL listens; Spark itself tries for a minute, and does not report this."""
    failures = []
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S):
                return
        except (OSError, ValueError, OverflowError) as error:
            failures.append(f"{_STANDALONE}{address}: {error}")
    raise SparkFailed(f"no Spark master listens at {master} ({'; '.join(failures)}); start one, or use local[*]")


@contextlib.contextmanager
def _executors_watched(context: SparkContext, settings: SparkSettings) -> Iterator[None]:
    """Cancel all jobs when there has been no executor for too long, while the block runs; Spark would wait for ever."""
    over, was_cancelled = threading.Event(), threading.Event()

    def watch() -> None:
        seen = time.monotonic()
        while not over.wait(_EXECUTORS_COUNTED_EVERY_S):
            # The driver itself is also in this map.
            if context._jsc.sc().getExecutorMemoryStatus().size() > 1:
                seen = time.monotonic()
            elif time.monotonic() - seen > settings.executor_timeout_s:
                was_cancelled.set()
                context.cancelAllJobs()

    thread = threading.Thread(target=watch, name="understudy-executors", daemon=True)
    thread.start()
    try:
        yield
    except SparkFailed:
        if not was_cancelled.is_set():
            raise
        raise SparkFailed(
            f"{settings.master} has given no executor for {settings.executor_timeout_s:g} s: its workers may be gone, "
            "full, or unable to start Java; see the master's page and the logs of the workers"
        ) from None
    finally:
        over.set()
        thread.join()


def _variables(running: Gateway) -> dict[str, str]:
    """Return the variables by which PySpark finds its gateway, and the Python of the workers."""
    return {
        "PYSPARK_GATEWAY_PORT": str(running.port),
        "PYSPARK_GATEWAY_SECRET": running.secret,
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
    }


def _configuration(settings: SparkSettings) -> SparkConf:
    configuration = SparkConf(loadDefaults=False)
    configuration.set("spark.ui.enabled", "false").set("spark.log.level", "ERROR")
    configuration.set("spark.sql.session.timeZone", "UTC")
    if settings.is_local:
        # Nothing outside this machine connects, and the machine's own name may not resolve.
        configuration.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
        configuration.set("spark.executorEnv.PYTHONPATH", str(_ROOT))
    return configuration


def _archive(folder: Path) -> Path:
    """Write the package of this program into an archive, which executors on other machines import."""
    archive = folder / "understudy.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        # In a checkout some folders of the package are links, which `rglob` does not follow.
        for parent, _, names in os.walk(_ROOT / "understudy", followlinks=True):
            for name in names:
                if name.endswith(".py"):
                    file = Path(parent, name)
                    written.write(file, file.relative_to(_ROOT))
    return archive


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables while the block runs."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
