"""Follows growing event logs with Structured Streaming, and computes the tables of their runs at any time.

Each batch of the stream brings its rows to the driver, where `understudy.history.report.growing_logs` keeps what the
metrics need. A lake can be kept in addition: Spark's workers write each run into it again while it grows, and
once more at the end.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from understudy.history.lake.log_rows import FileRange, read_ranges
from understudy.history.reading.lines import LogRow
from understudy.history.reading.reader import find_files
from understudy.history.report.growing_logs import GrowingLogs
from understudy.history.report.replay import Replay
from understudy.history.storage.paths import StoragePath
from understudy.spark.failures import SparkFailed, spark_errors
from understudy.spark.log_files import last_newline
from understudy.spark.source import FORMAT, register
from understudy.spark.versions import CHECKPOINT_PACKAGE, HAS_READ_LIMITS

BATCH_BYTES = 16 * 1024 * 1024
"""Maximum size of the logs that one batch brings to the driver, if Spark has limits: about 50,000 records."""

_POLLING_DELAY_MS = 50
"""Time after which Spark looks for new lines again. Its default of 10 ms keeps a fifth of a core busy."""

_KEPT_BATCHES = "10"
"""Number of batches whose notes Spark keeps in the checkpoint."""

_LATE_WORKER = "Python worker failed to connect back"
"""Spark gives the Python process of a data source 10 s to start, which no setting changes; a busy machine takes longer
(`PythonWorkerFactory.createSimpleWorker`)."""

_MAX_RESTARTS = 5
"""Number of times that a stream is started again between two batches."""

_CHECKPOINT_FILES = f"org.apache.spark.sql.execution.streaming.{CHECKPOINT_PACKAGE}FileSystemBasedCheckpointFileManager"
"""Name of the class that writes a batch's notes to a local folder in 40 ms; Spark's default takes 150 ms."""


class LogStream:
    """Follows the event logs at or below `paths` while its block runs.

    Args:
        checkpoint: a folder where Spark notes what it has read. If it has notes, the stream continues after them.

    Raises:
        SparkFailed: the checkpoint cannot be used.
    """

    def __init__(self, spark: SparkSession, paths: Sequence[StoragePath], checkpoint: Path) -> None:
        self._session = spark
        self._paths = paths
        self._checkpoint = checkpoint
        self._logs = GrowingLogs(paths)
        self._lock = threading.Lock()
        self._has_new = threading.Event()
        self._last_new = time.monotonic()
        self.is_reading = False
        """Whether there were lines to read at the last `wait`."""
        self._is_first_batch = True
        self._restarts = 0
        self._query: StreamingQuery | None = None

    def __enter__(self) -> Self:
        register(self._session)
        self._session.conf.set("spark.sql.streaming.pollingDelay", f"{_POLLING_DELAY_MS}ms")
        self._session.conf.set("spark.sql.streaming.minBatchesToRetain", _KEPT_BATCHES)
        self._session.conf.set("spark.sql.streaming.checkpointFileManagerClass", _CHECKPOINT_FILES)
        self._start()
        return self

    def _start(self) -> None:
        with spark_errors("the event logs cannot be followed"):
            limit = {"maxBytesPerTrigger": BATCH_BYTES} if HAS_READ_LIMITS else {}
            self._query = (
                self._session.readStream.format(FORMAT)
                .options(**limit)
                .option("paths", json.dumps([str(path.absolute()) for path in self._paths]))
                .load()
                .select(*LogRow._fields)
                .writeStream.foreachBatch(self._add)
                .option("checkpointLocation", str(self._checkpoint.absolute()))
                .start()
            )
        self._last_new = time.monotonic()

    def __exit__(self, *_: object) -> None:
        if self._query is not None:
            self._query.stop()

    @property
    def lines(self) -> int:
        """The number of lines that were read."""
        return self._logs.lines

    @property
    def seconds_without_new(self) -> float:
        """The seconds since the last new line, or since the stream was started."""
        return time.monotonic() - self._last_new

    def wait(self, timeout_s: float) -> bool:
        """Wait for new lines since the last call, and return whether there are any.

        Raises:
            SparkFailed: the stream has ended, for example because a log was deleted. The message says why.
        """
        found = self._has_new.wait(timeout_s)
        self._has_new.clear()
        self._check()
        return found

    def replay(self, engine: str, *, whole: bool = False) -> Replay:
        """Compute the metrics of the lines that were read; see `GrowingLogs.replay`."""
        with self._lock:
            return self._logs.replay(engine, whole=whole)

    def finish(self, engine: str, *, whole: bool = False) -> Replay:
        """Stop the stream, read the remaining lines, and compute the metrics."""
        assert self._query is not None
        self._query.stop()
        with self._lock:
            self._catch_up()
            return self._logs.replay(engine, whole=whole, has_ended=True)

    def _add(self, batch: DataFrame, number: int) -> None:
        table = batch.toArrow()
        with self._lock:
            if self._is_first_batch and number > 0:
                # The stream continues after its checkpoint. The lines before are read here, and left out if they come.
                self._catch_up()
            self._is_first_batch = False
            self._restarts = 0
            before = self._logs.lines
            self._logs.add(_rows(table))
            if self._logs.lines > before:
                self._last_new = time.monotonic()
                self._has_new.set()

    def _catch_up(self) -> None:
        """Read the whole lines that were not read yet, without Spark."""
        files, _ = find_files(self._paths)
        for path in map(str, (file.absolute() for file in files)):
            begin = self._logs.position(path)
            end = last_newline(path, begin)
            for batch in read_ranges([FileRange(path, begin, end)], None, is_stream=True) if end > begin else ():
                self._logs.add(_rows(batch))

    def _check(self) -> None:
        assert self._query is not None
        error = self._query.exception()
        if error is not None and _LATE_WORKER in str(error) and self._restarts < _MAX_RESTARTS:
            # Lines of a batch that comes again are left out.
            self._restarts += 1
            self._start()
            return
        if error is not None:
            raise SparkFailed(f"the event logs can no longer be followed: {_cause(str(error))}")
        if not self._query.isActive:
            raise SparkFailed("the event logs can no longer be followed: the stream was stopped")
        self.is_reading = self._query.status["isDataAvailable"]
        if self.is_reading:
            # The first batch takes seconds, in which the logs are not idle.
            self._last_new = time.monotonic()


def _rows(found: pa.Table | pa.RecordBatch) -> Iterator[LogRow]:
    return map(LogRow._make, zip(*(found[name].to_pylist() for name in LogRow._fields), strict=True))


def _cause(message: str) -> str:
    """Return the line of a Python exception of the data source in a message of Spark."""
    lines = [line.strip() for line in message.splitlines() if "LogChanged: " in line or "BadSource: " in line]
    return lines[-1].split(": ", 1)[1] if lines else message.splitlines()[0]
