"""Lets Spark read event logs: `spark.read.format("understudy").load("runs/*")`, and `readStream` for growing logs.

Built on the Python Data Source API of Spark 4. Workers decode the lines and return Arrow record batches. Many small
files share a task, and a large file is split at the ends of lines. A line that is damaged is a row with its `flaws`;
none is left out. Its columns are as they were written: `mono_ms` compares between records of one machine and boot only,
and docs/guides/spark.md has the query that brings several machines to one clock.

A stream's offset is, for each file, the position after the last newline that was read. A restarted stream therefore
continues with the next line of each file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from understudy.foundation.eventlog.records import FORMER_TYPE_NAMES, PAYLOAD_BY_TYPE
from understudy.history.lake.log_rows import BadSource, FileRange, log_row_schema, read_ranges
from understudy.history.reading.lines import rest_of_line
from understudy.history.reading.reader import find_files
from understudy.spark.ddl import ddl

FORMAT = "understudy"
"""Name of the format in `spark.read.format`."""

PARTITION_BYTES = 16 * 1024 * 1024
"""Default of the option `partitionBytes`: the size of the logs that one task reads."""

_BLOCK_BYTES = 64 * 1024
_OPTIONS = ("path", "paths", "types", "partitionBytes", "maxBytesPerTrigger")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//[^/]*)?(/.*)?")


class LogChanged(Exception):
    """A file that a stream has read is gone or has become shorter. The message names the file."""


def register(spark: SparkSession) -> None:
    """Make the format `understudy` known to `spark`.

    Relative paths start at the current folder of this moment, because the processes that list the files have another.
    """
    folder = str(Path.cwd())

    class RegisteredSource(EventLogSource):
        """The data source with the folder at which relative paths start."""

        relative_to = folder

    spark.dataSource.register(RegisteredSource)


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
        return EventLogStreamReader(self._settings())

    def _settings(self) -> SourceSettings:
        known = {name.lower() for name in _OPTIONS}
        for option in self.options:
            if option.lower() not in known:
                raise BadSource(f"option {option!r} is not known; expected {', '.join(_OPTIONS[2:])}")
        return SourceSettings(
            paths=tuple(_local_path(path, self.relative_to) for path in _paths(self.options)),
            types=_types(self.options),
            partition_bytes=_number(self.options, "partitionBytes") or PARTITION_BYTES,
            max_bytes_per_trigger=_number(self.options, "maxBytesPerTrigger"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """The values of the options.

    Attributes:
        paths: absolute paths, which may hold patterns as in a shell.
        types: the record types to decode; None for all records with their `data` as text.
        max_bytes_per_trigger: the size of the logs that one batch of a stream reads; None for no limit.
    """

    paths: tuple[str, ...]
    types: tuple[str, ...] | None
    partition_bytes: int
    max_bytes_per_trigger: int | None


# ------------------------------------------------------------------ options and paths


def _types(options: Mapping[str, str]) -> tuple[str, ...] | None:
    if "types" not in options:
        return None
    given = [name.strip() for name in options["types"].split(",")]
    names = tuple(dict.fromkeys(FORMER_TYPE_NAMES.get(name, name) for name in given))
    for name in names:
        if name not in PAYLOAD_BY_TYPE:
            raise BadSource(f"record type {name!r} is not known; expected some of {', '.join(sorted(PAYLOAD_BY_TYPE))}")
    return names


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise BadSource(f"option {name} is {text!r}; expected a number of bytes from 1")
    return int(text)


def _paths(options: Mapping[str, str]) -> list[str]:
    if "path" in options:
        return [options["path"]]
    paths: list[str] = json.loads(options.get("paths", "[]"))
    if not paths:
        raise BadSource("no path is given; expected for example .load('runs/*')")
    return paths


def _local_path(path: str, relative_to: str) -> str:
    """Return a path of this machine, absolute.

    Raises:
        BadSource: the path has a scheme other than `file`.
    """
    match = _SCHEME.fullmatch(path)
    if match is None:
        return str(Path(relative_to) / Path(path).expanduser())
    if match[1].lower() != "file" or match[2] not in (None, "//", "//localhost") or not match[3]:
        raise BadSource(
            f"{path} cannot be read: event logs are read from local and shared folders only, not through "
            f"{match[1]}:. Mount the storage, or copy the logs to a folder that every worker sees; or run `understudy "
            "ingest` where the logs are, and read the Parquet files of the lake from any storage"
        )
    return match[3]


def _find(patterns: Iterable[str]) -> tuple[list[Path], list[str]]:
    """Return the event-log files at or below all paths, and the paths without any."""
    files: set[Path] = set()
    empty = []
    for pattern in patterns:
        exists = Path(pattern).exists()
        found, _ = find_files([Path(pattern)] if exists else _matching(pattern))
        files.update(found)
        if not found:
            empty.append(pattern)
    return sorted(files), empty


def _matching(pattern: str) -> list[Path]:
    """Return the paths that match an absolute pattern as in a shell."""
    anchor = Path(pattern).anchor
    return sorted(Path(anchor).glob(pattern.removeprefix(anchor)))


# ------------------------------------------------------------------ partitions


def split(ranges: Iterable[FileRange], partition_bytes: int) -> list[InputPartition]:
    """Return tasks of about `partition_bytes`: small ranges together, large ones in pieces. Each has its ranges."""
    partitions: list[InputPartition] = []
    gathered: list[FileRange] = []
    size = 0
    for whole in ranges:
        for begin in range(whole.begin, max(whole.end, whole.begin + 1), partition_bytes):
            piece = FileRange(whole.file, begin, min(begin + partition_bytes, whole.end))
            if gathered and size + piece.end - piece.begin > partition_bytes:
                partitions.append(InputPartition(tuple(gathered)))
                gathered, size = [], 0
            gathered.append(piece)
            size += piece.end - piece.begin
    if gathered:
        partitions.append(InputPartition(tuple(gathered)))
    return partitions


class EventLogReader(DataSourceReader):
    """Reads event logs as they are now."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        """List the files.

        Raises:
            BadSource: there is no event log at or below one of the paths.
        """
        files, empty = _find(self._settings.paths)
        if empty:
            raise BadSource(
                f"there are no event-log files at or below {', '.join(empty)}; expected files such as "
                "broker-1-0001-0001.jsonl"
            )
        ranges = (FileRange(str(file), 0, file.stat().st_size) for file in files)
        return split(ranges, self._settings.partition_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_ranges(partition.value, self._settings.types, is_stream=False)


class EventLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads growing event logs. An offset maps each file to the position after the last newline that was read."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._last: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, int]:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._settings.max_bytes_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxBytes(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._available({})

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return how far whole lines go in each file, within the limit.

        Raises:
            LogChanged: a file of `start` is gone or has become shorter.
        """
        available = self._available(start)
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
                end = _end_of_line(file, begin + left)
            if end > 0:
                chosen[file] = end
            left -= end - begin
        return chosen

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Plan one batch.

        Raises:
            LogChanged: a file is gone or has become shorter.
        """
        ranges = []
        for file, stop in sorted(end.items()):
            _checked_size(file, stop)
            if stop > start.get(file, 0):
                ranges.append(FileRange(file, start.get(file, 0), stop))
        return split(ranges, self._settings.partition_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_ranges(partition.value, self._settings.types, is_stream=True)

    def _available(self, start: Mapping[str, int]) -> dict[str, int]:
        sizes = {file: _checked_size(file, position) for file, position in start.items()}
        files, _ = _find(self._settings.paths)
        ends = dict(start)
        for file in map(str, files):
            begin = start.get(file, 0)
            # Most files do not grow any more.
            if sizes.get(file) != begin and (end := last_newline(file, begin)) > 0:
                ends[file] = end
        return dict(sorted(ends.items()))


def _checked_size(file: str, position: int) -> int:
    """Return the size of a file that has been read up to `position`; raise `LogChanged` if it is shorter or gone."""
    try:
        size = Path(file).stat().st_size
    except FileNotFoundError:
        raise LogChanged(
            f"{file} is gone, and the stream has read {position} bytes of it; bring it back, or start the stream with "
            "a new checkpoint"
        ) from None
    if size < position:
        raise LogChanged(
            f"{file} has become shorter: the stream has read {position} bytes of it, and it has {size}; event logs "
            "only grow, so start the stream with a new checkpoint"
        )
    return size


def last_newline(file: str, begin: int) -> int:
    """Return the position after the last newline at or after `begin`, or `begin` without one."""
    with Path(file).open("rb") as stream:
        end = stream.seek(0, 2)
        while end > begin:
            block = max(end - _BLOCK_BYTES, begin)
            stream.seek(block)
            found = stream.read(end - block).rfind(b"\n")
            if found >= 0:
                return block + found + 1
            end = block
    return begin


def _end_of_line(file: str, position: int) -> int:
    """Return the end of the line that holds the byte before `position`."""
    with Path(file).open("rb") as stream:
        return stream.seek(position - 1) + rest_of_line(stream)
