"""`Source` has event logs that are collected; `LocalSource` is a path of this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from understudy.foundation.eventlog.files import LogFile, log_file
from understudy.history.reading.reader import find_files
from understudy.history.report.runs import run_of

_PIECE: Final = 1 << 18


class NoEventLogs(Exception):
    """A source has no event logs. The message names the source, what was expected and what to do."""


class SourceFailed(Exception):
    """A source cannot be read. The message names the source and the reason."""


class SourceFile(NamedTuple):
    """An event-log file of a source."""

    file: LogFile
    """Its path is the path on the machine of the source."""
    bytes: int
    """Its size when it was listed; it may grow."""
    run: str
    """The run that its first readable line names; empty if there is none."""


class ByteRange(NamedTuple):
    """Some bytes of a file."""

    path: Path
    begin: int
    size: int


class Source(Protocol):
    """Has event logs that are collected: a path of some machine."""

    @property
    def name(self) -> str:
        """The source as the user has named it."""

    def files(self) -> list[SourceFile]:
        """List the event-log files of the source.

        Raises:
            NoEventLogs: there are none.
            SourceFailed: the source cannot be read.
        """

    def read(self, ranges: Sequence[ByteRange]) -> Iterator[bytes]:
        """Yield the bytes of all ranges, one range after the other, in pieces of any size.

        Raises:
            SourceFailed: there are fewer bytes, or they cannot be read.
        """


class LocalSource:
    """A path of this machine, which may be on a mounted share: a folder, with all folders below it, or one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        return str(self._path)

    def files(self) -> list[SourceFile]:
        found = find_files([self._path])
        if found.findings:
            raise NoEventLogs("; ".join(map(str, found.findings)))
        return [_source_file(path) for path in found.files if isinstance(path, Path)]

    def read(self, ranges: Sequence[ByteRange]) -> Iterator[bytes]:
        for path, begin, size in ranges:
            try:
                with path.open("rb") as stream:
                    stream.seek(begin)
                    while size:
                        piece = stream.read(min(size, _PIECE))
                        if not piece:
                            raise SourceFailed(f"{path} has become shorter while it was read; an event log only grows")
                        size -= len(piece)
                        yield piece
            except OSError as error:
                raise SourceFailed(f"{path}: {error.strerror}") from None


def read_whole(source: Source, ranges: Iterable[ByteRange]) -> list[bytes]:
    """Return the bytes of each range, which should be small."""
    wanted = list(ranges)
    data = b"".join(source.read(wanted))
    found = []
    for each in wanted:
        found.append(data[: each.size])
        data = data[each.size :]
    return found


def _source_file(path: Path) -> SourceFile:
    file = log_file(path)
    if file is None:
        raise NoEventLogs(f"{path} is not named like an event log, for example broker-1-0002-0001.jsonl")
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
    except OSError as error:
        raise SourceFailed(f"{path}: {error.strerror}") from None
    run, _ = run_of(path)
    return SourceFile(file, size, run)
