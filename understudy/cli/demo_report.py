"""Computes the report at the end of the demo: in Spark, or in this process if Spark is not installed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Protocol

from understudy.cli.demo_output import DemoFailed
from understudy.clusters.java import JavaRuntime
from understudy.extras import is_installed
from understudy.history.reading.listing import LogListing
from understudy.history.report.replay import Replay, replay_files


class Reporter(Protocol):
    """Computes the metrics of runs."""

    def start(self) -> None:
        """Begin to start; return at once."""

    def replay(self, found: LogListing, *, progress: Callable[[str], None]) -> Replay:
        """Compute the metrics from event-log files."""


@contextlib.contextmanager
def reporter(java: JavaRuntime) -> Iterator[Reporter]:
    """Yield the `Reporter` of the demo, and end it.

    Raises:
        DemoFailed: Spark is installed and does not run.
    """
    if not is_installed("pyspark"):
        yield _InThisProcess()
        return
    from understudy.spark.failures import SparkFailed  # noqa: PLC0415  the extra `spark`
    from understudy.spark.replay_job import ReplayInBackground  # noqa: PLC0415  the extra `spark`
    from understudy.spark.settings import SparkSettings  # noqa: PLC0415  the extra `spark`

    try:
        with ReplayInBackground(SparkSettings.with_class_cache(java)) as spark:
            yield spark
    except SparkFailed as error:
        raise DemoFailed(str(error)) from None


class _InThisProcess:
    """Computes the same metrics without Spark."""

    def start(self) -> None:
        """Do nothing: nothing has to be started."""

    def replay(self, found: LogListing, *, progress: Callable[[str], None]) -> Replay:
        progress("reading the event logs; with kafka-understudy[spark], Spark does that")
        return replay_files(found)
