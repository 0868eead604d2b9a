"""Starts Spark in a thread, while the command still does other work."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from understudy.history.report.replay import Replay
from understudy.history.report.runs import find_logs
from understudy.spark.context import Progress, SparkSettings, no_progress
from understudy.spark.replay_job import SparkReplay, check_output


class SparkInBackground:
    """Runs Spark until its block ends. `start` returns at once, and `replay` waits until Spark has started."""

    def __init__(self, settings: SparkSettings) -> None:
        self._spark = SparkReplay(settings)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="understudy-spark")
        self._started: Future[None] | None = None

    def start(self) -> None:
        self._started = self._thread.submit(self._start)

    def replay(
        self,
        paths: Sequence[Path],
        *,
        output: Path | None = None,
        whole: bool = False,
        progress: Progress = no_progress,
    ) -> Replay:
        """Compute the metrics as `SparkReplay.replay`; start Spark if `start` has not, and list files meanwhile.

        Raises:
            SparkFailed: Java did not start, or Spark does not run, or `output` cannot be written.
            TablesExist: `output` holds tables already.
        """
        if output is not None:
            check_output(output)
        if self._started is None:
            self.start()
        assert self._started is not None
        progress("listing the event logs")
        logs = find_logs(paths)
        progress("waiting for Spark")
        self._started.result()
        return self._spark.replay_found(logs, output=output, whole=whole, progress=progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()
        self._spark.__exit__(kind, error, trace)

    def _start(self) -> None:
        self._spark.__enter__()
        self._spark.warm_up()
