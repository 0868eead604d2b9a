"""The data source `understudy`, built on the Python Data Source API of Spark 4.

Workers decode the lines and return Arrow record batches. Many small files share a task, and a large file is split at
the ends of lines. A line that is damaged is a row with its `flaws`; none is left out. Its columns are as they were
written: `mono_ms` compares between records of one machine and boot only, and docs/guides/spark.md has the query that
brings several machines to one clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from understudy.history.lake.log_rows import BadSource, FileRange, log_row_schema, read_ranges
from understudy.spark.ddl import ddl
from understudy.spark.log_files import SourceSettings, find, refuse_empty, split
from understudy.spark.source import FORMAT
from understudy.spark.stream_readers import UnlimitedStreamReader
from understudy.spark.versions import HAS_READ_LIMITS, READ_LIMITS_SINCE, this_spark


class EventLogSource(DataSource):
    """The format `understudy`.

    Options: `types` (record types, separated by commas; each gets a column of its own with its payload, and records of
    other types are left out), `partitionBytes`, and for streams `maxBytesPerTrigger`.
    """

    relative_to = "."

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ddl(log_row_schema(self._settings().types))

    def reader(self, schema: StructType) -> DataSourceReader:
        return EventLogReader(self._settings())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream.

        Raises:
            BadSource: a limit is given, and this Spark has none.
        """
        settings = self._settings()
        if HAS_READ_LIMITS:
            from understudy.spark.limited_stream import LimitedStreamReader  # noqa: PLC0415  Spark may lack its base

            return LimitedStreamReader(settings)
        if settings.max_bytes_per_trigger is not None:
            raise BadSource(
                f"option maxBytesPerTrigger needs Spark {READ_LIMITS_SINCE} or newer, and this is {this_spark()}; "
                "leave it out, and each batch reads all that there is"
            )
        return UnlimitedStreamReader(settings)

    def _settings(self) -> SourceSettings:
        return SourceSettings.of(self.options, self.relative_to)


class EventLogReader(DataSourceReader):
    """Reads event logs as they are now."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        """List the files.

        Raises:
            BadSource: there is no event log at or below one of the paths.
        """
        found, empty = find(self._settings.paths)
        refuse_empty(empty)
        ranges = (FileRange(str(file), 0, file.stat().st_size) for file in found.paths())
        return [InputPartition(task) for task in split(ranges, self._settings.partition_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_ranges(partition.value, self._settings.types, is_stream=False)
