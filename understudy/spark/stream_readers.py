"""Reads growing event logs as a stream.

A stream's offset is, for each file, the position after the last newline that was read. A restarted stream therefore
continues with the next line of each file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from understudy.history.lake.log_rows import FileRange, read_ranges
from understudy.spark.log_files import SourceSettings, checked_size, find, last_newline, split


class EventLogStreamReader(DataSourceStreamReader):
    """The base of the stream readers for all versions of Spark."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings

    def initialOffset(self) -> dict[str, int]:
        return {}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Plan one batch.

        Raises:
            LogChanged: a file is gone or has become shorter.
        """
        ranges = []
        for file in sorted(start | end):
            begin, stop = start.get(file, 0), end.get(file, 0)
            checked_size(file, max(begin, stop))
            if stop > begin:
                ranges.append(FileRange(file, begin, stop))
        return [InputPartition(task) for task in split(ranges, self._settings.partition_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_ranges(partition.value, self._settings.types, is_stream=True)

    def available(self, start: Mapping[str, int]) -> dict[str, int]:
        """Return how far whole lines go in each file.

        Args:
            start: the positions up to which files have been read.

        Raises:
            LogChanged: a file of `start` is gone or has become shorter.
        """
        sizes = {file: checked_size(file, position) for file, position in start.items()}
        found, _ = find(self._settings.paths)
        ends = dict(start)
        for file in map(str, found.paths()):
            begin = start.get(file, 0)
            # Most files do not grow any more.
            if sizes.get(file) != begin and (end := last_newline(file, begin)) > 0:
                ends[file] = end
        return dict(sorted(ends.items()))


class UnlimitedStreamReader(EventLogStreamReader):
    """Reads all that there is in each batch, for a Spark without limits."""

    def __init__(self, settings: SourceSettings) -> None:
        super().__init__(settings)
        self._last: dict[str, int] = {}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # Spark 4.0 and 4.1 call it without arguments
        """Return how far whole lines go in each file.

        Raises:
            LogChanged: a file that this reader has found before is gone or has become shorter.
        """
        self._last = self.available(self._last)
        return self._last
