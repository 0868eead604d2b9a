"""The options of the data source of event logs, and the files that they name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.foundation.eventlog.records import FORMER_TYPE_NAMES, PAYLOAD_BY_TYPE
from understudy.history.lake.log_rows import BadSource, FileRange
from understudy.history.reading.lines import rest_of_line
from understudy.history.reading.listing import LogListing, list_files
from understudy.history.storage.paths import StoragePath, UnknownScheme, is_url, storage_path

PARTITION_BYTES = 16 * 1024 * 1024
"""Default of the option `partitionBytes`: the size of the logs that one task reads."""

_BLOCK_BYTES = 64 * 1024
_OPTIONS = ("path", "paths", "types", "partitionBytes", "maxBytesPerTrigger")


class LogChanged(Exception):
    """A file that a stream has read is gone or has become shorter. The message names the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """The values of the options.

    Attributes:
        paths: absolute paths or URLs, which may hold patterns as in a shell.
        types: the record types to decode; None for all records with their `data` as text.
        max_bytes_per_trigger: the size of the logs that one batch of a stream reads; None for no limit.
    """

    paths: tuple[str, ...]
    types: tuple[str, ...] | None
    partition_bytes: int
    max_bytes_per_trigger: int | None

    @classmethod
    def of(cls, options: Mapping[str, str], relative_to: str) -> SourceSettings:
        """Return the values of the options of a read.

        Args:
            relative_to: the folder at which relative paths start.

        Raises:
            BadSource: an option is unknown, has no such value, or no path is given.
        """
        known = {name.lower() for name in _OPTIONS}
        for option in options:
            if option.lower() not in known:
                raise BadSource(f"option {option!r} is not known; expected {', '.join(_OPTIONS[2:])}")
        return cls(
            paths=tuple(_location(path, relative_to) for path in _paths(options)),
            types=_types(options),
            partition_bytes=_number(options, "partitionBytes") or PARTITION_BYTES,
            max_bytes_per_trigger=_number(options, "maxBytesPerTrigger"),
        )


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


def _location(path: str, relative_to: str) -> str:
    """Return an absolute path of this machine, or a URL.

    Raises:
        BadSource: the path has a scheme that is not read.
    """
    try:
        found = storage_path(path)
    except UnknownScheme as error:
        raise BadSource(
            f"{error}. Mount the storage, or copy the logs to a folder that every worker sees; or run `understudy "
            "ingest` where the logs are, and read the Parquet files of the lake from any storage"
        ) from None
    return str(Path(relative_to) / found.expanduser() if isinstance(found, Path) else found)


def files_of(paths: Iterable[str], relative_to: str) -> LogListing:
    """Return the event-log files at or below paths and patterns.

    Raises:
        BadSource: there is none at or below one of them, or one is not a path of this machine.
    """
    files, empty = find(_location(path, relative_to) for path in paths)
    refuse_empty(empty)
    return files


def refuse_empty(paths: Sequence[str]) -> None:
    """Raise `BadSource` if there are paths without event logs."""
    if paths:
        raise BadSource(
            f"there are no event-log files at or below {', '.join(paths)}; expected files such as "
            "broker-1-0001-0001.jsonl"
        )


def find(patterns: Iterable[str]) -> tuple[LogListing, list[str]]:
    """Return the event-log files at or below all paths, without findings, and the paths without any file."""
    found = [(pattern, list_files(_matching(pattern))) for pattern in patterns]
    everything = LogListing.merged(listing for _, listing in found)
    return LogListing(everything.names), [pattern for pattern, listing in found if not listing.names]


def _matching(pattern: str) -> Iterable[StoragePath]:
    """Return the paths that match an absolute pattern as in a shell, or the path of this name."""
    if is_url(pattern):
        return (storage_path(pattern),)  # `list_files` expands it
    if Path(pattern).exists():
        return (Path(pattern),)
    anchor = Path(pattern).anchor
    return Path(anchor).glob(pattern.removeprefix(anchor))


# ------------------------------------------------------------------ parts of files


def split(ranges: Iterable[FileRange], partition_bytes: int) -> list[tuple[FileRange, ...]]:
    """Return the ranges of tasks of about `partition_bytes`: small ranges together, large ones in pieces."""
    partitions: list[tuple[FileRange, ...]] = []
    gathered: list[FileRange] = []
    size = 0
    for whole in ranges:
        for begin in range(whole.begin, max(whole.end, whole.begin + 1), partition_bytes):
            piece = FileRange(whole.file, begin, min(begin + partition_bytes, whole.end))
            if gathered and size + piece.end - piece.begin > partition_bytes:
                partitions.append(tuple(gathered))
                gathered, size = [], 0
            gathered.append(piece)
            size += piece.end - piece.begin
    if gathered:
        partitions.append(tuple(gathered))
    return partitions


def checked_size(file: str, position: int) -> int:
    """Return the size of a file that has been read up to `position`; raise `LogChanged` if it is shorter or gone."""
    try:
        size = storage_path(file).stat().st_size
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
    with storage_path(file).open("rb") as stream:
        end = stream.seek(0, 2)
        while end > begin:
            block = max(end - _BLOCK_BYTES, begin)
            stream.seek(block)
            found = stream.read(end - block).rfind(b"\n")
            if found >= 0:
                return block + found + 1
            end = block
    return begin


def end_of_line(file: str, position: int) -> int:
    """Return the end of the line that holds the byte before `position`."""
    with storage_path(file).open("rb") as stream:
        return stream.seek(position - 1) + rest_of_line(stream)
