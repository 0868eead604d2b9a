"""Keeps a lake beside growing event logs: from time to time their runs are written into it, as by `understudy ingest`.

Each version of the lake has whole runs as their logs were at one moment, with the tables of that moment. So a process
that is killed and started again loses and doubles nothing, whatever it had written.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Self

from pyspark.sql import SparkSession

from understudy.history.lake.errors import LakeError
from understudy.history.lake.ingest import Ingested, NothingToIngest, find_logs, ingest
from understudy.history.storage.paths import StoragePath
from understudy.spark.failures import SparkFailed
from understudy.spark.ingest_job import SparkEngine

INTERVAL_S = 5.0
"""Minimum time for which the sink rests after a write."""

_REST = 2.0
"""Minimum length of a rest, as a multiple of the write before it: writing a run as a whole takes longer as it grows."""


class LakeSink:
    """Writes the runs at or below `paths` into a lake while its block runs. Spark's workers write, a thread waits.

    Attributes:
        ingested: the result of the last write; None before the first one.
        problem: the reason why the last write failed; empty if it did not. The next one may succeed.
    """

    def __init__(self, spark: SparkSession, paths: Sequence[StoragePath], lake: StoragePath) -> None:
        self._spark = spark
        self._paths = paths
        self._lake = lake
        self.ingested: Ingested | None = None
        self.problem = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write_again_and_again, name="understudy-sink", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def finish(self) -> Ingested | None:
        """Write the runs for the last time; return the result, or None if there is no log.

        Raises:
            LakeError, OSError, SparkFailed: the lake cannot be written.
        """
        self._stop()
        with contextlib.suppress(NothingToIngest):
            self._write(SparkEngine(self._spark))
        return self.ingested

    def _stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _write_again_and_again(self) -> None:
        growing = SparkEngine(self._spark, they_grow=True)
        rest = INTERVAL_S
        while not self._over.wait(rest):
            began = time.monotonic()
            try:
                self._write(growing)
                self.problem = ""
            except NothingToIngest:
                self.problem = ""
            except (LakeError, SparkFailed) as error:
                self.problem = str(error)
            except OSError as error:
                self.problem = f"the lake {self._lake} cannot be written: {error.strerror or error}"
            rest = max(INTERVAL_S, _REST * (time.monotonic() - began))

    def _write(self, engine: SparkEngine) -> None:
        self.ingested = ingest(find_logs(self._paths), self._lake, lambda size: engine)
