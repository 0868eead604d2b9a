"""What computes the report at the end of the demo: Spark, or this process if Spark is not installed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from understudy.cli.demo_output import DemoFailed
from understudy.extras import is_installed

if TYPE_CHECKING:
    from understudy.clusters.java import JavaRuntime
    from understudy.history.report.result import Replay


class Reporter(Protocol):
    """Computes the metrics of runs."""

    def start(self) -> None:
        """Begin to start; return at once."""

    def replay(self, paths: Sequence[Path], *, progress: Callable[[str], None]) -> Replay:
        """Compute the metrics from the event logs in these folders."""


@contextlib.contextmanager
def reporter(java: JavaRuntime) -> Iterator[Reporter]:
    """Yield what computes the report, and end it.

    Raises:
        DemoFailed: Spark is installed and does not run.
    """
    if not is_installed("pyspark"):
        yield _InThisProcess()
        return
    from understudy.spark.background import SparkInBackground
    from understudy.spark.context import SparkFailed, SparkSettings
    from understudy.spark.gateway import GatewayFailed

    try:
        with SparkInBackground(SparkSettings.with_class_cache(java)) as spark:
            yield spark
    except (GatewayFailed, SparkFailed) as error:
        raise DemoFailed(str(error)) from None


class _InThisProcess:
    """Computes the same metrics without Spark."""

    def start(self) -> None:
        """Do nothing: nothing has to be started."""

    def replay(self, paths: Sequence[Path], *, progress: Callable[[str], None]) -> Replay:
        from understudy.history.report.result import replay_in_python

        progress("reading the event logs; with kafka-understudy[spark], Spark does that")
        return replay_in_python(paths)
