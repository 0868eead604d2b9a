"""Reads growing event logs as a stream whose batches have a limit, which Spark has since 4.2."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from understudy.spark.log_files import SourceSettings, end_of_line
from understudy.spark.stream_readers import EventLogStreamReader


class LimitedStreamReader(EventLogStreamReader, SupportsTriggerAvailableNow):
    """Reads up to `maxBytesPerTrigger` in each batch."""

    def __init__(self, settings: SourceSettings) -> None:
        super().__init__(settings)
        self._last: dict[str, int] | None = None

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._settings.max_bytes_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxBytes(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self.available({})

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return how far whole lines go in each file, within the limit.

        Raises:
            LogChanged: a file of `start` is gone or has become shorter.
        """
        available = self.available(start)
        if self._last is not None:
            available = {file: end for file, end in self._last.items() if end > start.get(file, 0)}
            available = dict(sorted((start | available).items()))
        if not isinstance(limit, ReadMaxBytes):
            return available
        left = limit.max_bytes
        chosen = {}
        for file, end in available.items():
            begin = start.get(file, 0)
            if end > begin and left <= 0:
                end = begin
            elif end - begin > left:
                end = end_of_line(file, begin + left)
            if end > 0:
                chosen[file] = end
            left -= end - begin
        return chosen
