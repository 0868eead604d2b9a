"""Starts classic Spark for one command: Java by `gateway`, then a SparkContext and its session, and ends them."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from understudy.clusters.java import JavaRuntime
from understudy.spark.failures import SparkFailed, spark_errors
from understudy.spark.gateway import Gateway, gateway, jvm_flags
from understudy.spark.package_archive import add_package, package_archive
from understudy.spark.settings import ROOT, STANDALONE, Progress, SparkSettings
from understudy.spark.versions import check_versions

_EXECUTORS_COUNTED_EVERY_S = 1.0
_CONNECT_TIMEOUT_S = 10.0
_STOPPED = "stopped SparkContext"
"""A part of the message of the exception when Spark has stopped while it starts."""


@contextlib.contextmanager
def classic_session(settings: SparkSettings, java: JavaRuntime, progress: Progress) -> Iterator[SparkSession]:
    """Run a session of Spark in a Java of its own while the block runs.

    Raises:
        SparkFailed: Spark is too old, or Java too new for it; Java did not start, or Spark does not run with the
            `master` of the settings.
    """
    check_versions(java)
    if settings.master.startswith(STANDALONE):
        _check_that_a_master_listens(settings.master)
    flags = [*jvm_flags(java, memory=settings.memory), *settings.flags]
    progress("starting Java for Spark")
    # `mapInArrow` imports pandas, for which there is time while Java starts.
    _in_background(import_module, "pandas")
    home = Path(pyspark.__file__).parent
    with gateway(
        java,
        home,
        flags,
        loopback=settings.is_local,
        has_mllib=settings.has_mllib,
        stop_timeout_s=settings.stop_timeout_s,
    ) as running:
        progress("starting Spark")
        context: SparkContext | None = None
        try:
            failure = f"Spark does not run with master {settings.master}"
            with _environment(_variables(running)), registered(settings.master), spark_errors(failure):
                SparkContext._ensure_initialized()
                _in_background(_load_classes_of_sql)
                context = SparkContext(master=settings.master, appName="understudy", conf=_configuration(settings))
                session = SparkSession(context)
                if not settings.is_local:
                    add_package(session, package_archive(running.folder))
            with contextlib.nullcontext() if settings.is_local else _executors_watched(context, settings):
                yield session
        finally:
            if context is not None:
                _stop(context)
            connection, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
            if connection is not None:
                connection.shutdown()


def _in_background(work: Callable[..., object], *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, name=f"understudy-{work.__name__}", daemon=True).start()


def _load_classes_of_sql() -> None:
    """Let Java load a part of the classes of Spark SQL, on another core, while the SparkContext starts.

    They are loaded without this as well, later. So a Spark in which they have other names starts a second slower.
    """
    with contextlib.suppress(Py4JError, OSError, AttributeError, TypeError):
        java = SparkContext._jvm
        assert java is not None
        loader = java.java.lang.Thread.currentThread().getContextClassLoader()
        _, analyzer = (
            java.java.lang.Class.forName(f"org.apache.spark.sql.catalyst.{name}$", True, loader)
            .getField("MODULE$")
            .get(None)
            for name in ("parser.CatalystSqlParser", "analysis.SimpleAnalyzer")
        )
        analyzer.execute(java.org.apache.spark.sql.catalyst.plans.logical.OneRowRelation())


def _stop(context: SparkContext) -> None:
    """Stop Spark. Its server for accumulators, which nothing uses here, ends later: it looks once a second."""
    server, context._accumulatorServer = context._accumulatorServer, None  # type: ignore[assignment]  # it is optional
    with contextlib.suppress(Py4JError, OSError):
        context.stop()
    # If Java has gone, the first call has only let go of Java, and this one lets the process have another context.
    context.stop()
    if server is not None:
        server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]  # Java has gone
        _in_background(server.shutdown)


def _check_that_a_master_listens(master: str) -> None:
    """Raise `SparkFailed` if no host of the URL listens; Spark itself tries for a minute, and does not report this."""
    failures = []
    for address in master.removeprefix(STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S):
                return
        except (OSError, ValueError, OverflowError) as error:
            failures.append(f"{STANDALONE}{address}: {error}")
    raise SparkFailed(f"no Spark master listens at {master} ({'; '.join(failures)}); start one, or use local[*]")


@contextlib.contextmanager
def registered(master: str) -> Iterator[None]:
    """Name the likely cause if a master does not register this program while the block starts Spark.

    A master cannot read the messages of another version of Spark, and does not answer them. Spark asks three times,
    with 20 s for each; then it stops, and its exception only says that it has stopped.

    Raises:
        SparkFailed: the master has not registered this program, or the block has raised this.
    """
    try:
        yield
    except SparkFailed as error:
        if not master.startswith(STANDALONE) or _STOPPED not in str(error):
            raise
        raise SparkFailed(
            f"{master} listens, but has not registered this program within a minute: probably it has another version "
            f"of Spark than the {pyspark.__version__} here. The master's page and log name its version; install the "
            "same one: pip install 'pyspark==VERSION'"
        ) from None


@contextlib.contextmanager
def _executors_watched(context: SparkContext, settings: SparkSettings) -> Iterator[None]:
    """Cancel all jobs when there has been no executor for too long, while the block runs; Spark would wait for ever."""
    over, was_cancelled = threading.Event(), threading.Event()

    def watch() -> None:
        seen = time.monotonic()
        # Java may be killed meanwhile, which the thread of the job reports.
        with contextlib.suppress(Py4JError, OSError):
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
    # Over TCP each task of a Python worker waits 40 ms for a delayed acknowledgement. Spark 4.1 has introduced this.
    configuration.set("spark.python.unix.domain.socket.enabled", "true")
    if settings.is_local:
        # Nothing outside this machine connects, and the machine's own name may not resolve.
        configuration.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
        configuration.set("spark.executorEnv.PYTHONPATH", str(ROOT))
    return configuration


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
