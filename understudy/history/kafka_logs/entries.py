"""Reads the entries of a broker's log files, one after another, in the order of their times.

Files are streamed: memory holds one entry of each kind of log of each broker. An entry is a line with the lines that
belong to it, such as a stack trace.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

from understudy.history.kafka_logs.pattern import LinePattern

MAX_LINE_BYTES: Final = 32 * 1024 * 1024
"""Length after which the rest of a line is not read. A controller of 200,000 partitions writes lines of about 8 MB."""

MAX_REST_LINES: Final = 50
"""Maximum number of lines of a stack trace that are kept. The others are only counted."""

LEADING_LINES: Final = 1_000
"""Number of lines at the beginning of a file that may belong to an entry of the file before it."""

SEARCHED_LINES: Final = 50_000
"""Number of lines of a file that are searched for the id of its broker."""

CLOCK_TOLERANCE_MS: Final = 1_000
"""Maximum time by which an entry may be earlier than the entry before it. Threads take the time of an entry before they
wait for the file, so lines may be slightly out of order."""

_BROKER_ID = re.compile(
    r"\[(?:Controller id=|Broker id=|KafkaServer id=|ControllerEventThread controllerId=|"
    r"PartitionStateMachine controllerId=|ReplicaStateMachine controllerId=|RequestSendThread controllerId=|"
    r"ReplicaManager broker=|MetadataCache brokerId=|GroupCoordinator |KafkaApi-)(?P<id>\d+)"
)
_CONTROLLER_ID = re.compile(r"\[(?:Controller|Broker|KafkaServer) id=(?P<id>\d+)[] ]")


class LogError(Exception):
    """A log file cannot be imported. The message names the file, the line and the expected input."""


class EntryKind(Enum):
    """The three kinds of log files of a broker, in the order in which entries of the same millisecond are taken."""

    CONTROLLER = "controller.log"
    STATE_CHANGE = "state-change.log"
    SERVER = "server.log"


class Entry(NamedTuple):
    """One entry of a log."""

    ms: int
    """Milliseconds since 1970-01-01 UTC; never less than the time of the entry before in its source."""
    file: Path
    line: int
    """The number of its first line in the file, from 1."""
    level: str
    logger: str
    message: str
    rest: tuple[str, ...] = ()
    """The first lines that follow the message, mostly a stack trace."""


@dataclass(slots=True)
class LogSource:
    """All files of one kind of one broker, the oldest first.

    Attributes:
        lines: the number of lines that have been read.
        out_of_order: the number of entries that got the time of the entry before, at most `CLOCK_TOLERANCE_MS` later.
        loose: the number of lines at the beginning of a file that belong to an entry of a file that was not given.
    """

    broker: int
    kind: EntryKind
    files: tuple[Path, ...]
    lines: int = 0
    out_of_order: int = 0
    loose: Counter[Path] = field(default_factory=Counter)

    def entries(self, pattern: LinePattern) -> Iterator[Entry]:
        """Yield the entries of all files.

        Raises:
            LogError: a file cannot be read, has no line of this pattern, has lines of another broker, or begins before
                the end of the file before it.
        """
        last = 0
        for file in self.files:
            for entry in self._file_entries(file, pattern, last):
                last = entry.ms
                yield entry

    def _file_entries(self, file: Path, pattern: LinePattern, last: int) -> Iterator[Entry]:
        entry: Entry | None = None
        rest: list[str] = []
        for number, text in _numbered_lines(file):
            self.lines += 1
            line = pattern.read(text)
            if line is not None:
                if entry is not None:
                    yield _complete(entry, rest, pattern)
                ms = line.ms if line.ms >= last - CLOCK_TOLERANCE_MS else line.later_ms
                if ms < last:
                    self._check_clock(file, number, last - ms)
                last = max(last, ms)
                entry = Entry(last, file, number, line.level, line.logger, line.message)
                rest = []
                self._check_broker(entry)
            elif entry is not None:
                if len(rest) < MAX_REST_LINES:
                    rest.append(text)
            else:
                self.loose[file] += 1
                if self.loose[file] >= LEADING_LINES:
                    raise _not_a_log(file, text, pattern)
        if entry is not None:
            yield _complete(entry, rest, pattern)
        elif self.loose[file]:
            raise _not_a_log(file, text, pattern)

    def _check_clock(self, file: Path, line: int, back_ms: int) -> None:
        if back_ms > CLOCK_TOLERANCE_MS:
            raise LogError(
                f"{file}:{line}: the clock goes back by {back_ms / 1000:,.3f} s; expected files of one broker that do "
                "not overlap, and the zone of their times (--timezone)"
            )
        self.out_of_order += 1

    def _check_broker(self, entry: Entry) -> None:
        match = _CONTROLLER_ID.match(entry.message)
        if match is not None and int(match["id"]) != self.broker:
            raise LogError(
                f"{entry.file}:{entry.line}: a line of broker {match['id']} in a log of broker {self.broker}; expected "
                "the files of each broker by themselves, for example --broker 1=DIR"
            )


def log_sources(
    files: Sequence[tuple[int | None, EntryKind, Path]], pattern: LinePattern
) -> tuple[tuple[LogSource, ...], tuple[Path, ...]]:
    """Group files by broker and kind, ordered by their first time; return also the files without an entry.

    Args:
        files: the broker (None if it is not known), the kind and the path of each file.

    Raises:
        LogError: a file cannot be read or has no line of this pattern, or names no broker and none is given.
    """
    found: dict[tuple[int, EntryKind], list[tuple[int, Path]]] = {}
    empty: list[Path] = []
    for broker, kind, file in files:
        first = _first_ms(file, pattern)
        if first is None:
            empty.append(file)
            continue
        owner = _broker_id(file, pattern) if broker is None else broker
        found.setdefault((owner, kind), []).append((first, file))
    order = list(EntryKind)
    return tuple(
        LogSource(broker, kind, tuple(file for _, file in sorted(dated)))
        for (broker, kind), dated in sorted(found.items(), key=lambda item: (item[0][0], order.index(item[0][1])))
    ), tuple(empty)


def files_of_broker(folder: Path) -> list[tuple[EntryKind, Path]]:
    """Return the log files in `folder` with the names that Kafka gives them, rotated and compressed ones included.

    Raises:
        LogError: the folder cannot be listed, or has none.
    """
    try:
        names = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise LogError(f"{folder}: {error.strerror}; expected a folder with the logs of one broker") from None
    found = [(kind, path) for path in names for kind in EntryKind if _is_named(path.name, kind)]
    if not found:
        raise LogError(f"{folder} holds none of {', '.join(kind.value for kind in EntryKind)}")
    return found


def _is_named(name: str, kind: EntryKind) -> bool:
    """Return whether a file has the name of `kind`, also rotated: `controller.log.2024-05-01-13`, `….gz`."""
    return re.fullmatch(rf"{re.escape(kind.value)}([.-][0-9][0-9A-Za-z.-]*)?(\.gz)?", name) is not None


def _complete(entry: Entry, rest: list[str], pattern: LinePattern) -> Entry:
    """Return the entry with the lines that follow it; a message of several lines is joined."""
    if not rest:
        return entry
    if entry.logger == "":
        for number, text in enumerate(rest):
            end = pattern.read_end(text)
            if end is not None and end[1]:
                message = "\n".join([entry.message, *rest[:number], end[0]])
                return entry._replace(message=message, logger=end[1], rest=tuple(rest[number + 1 :]))
    return entry._replace(rest=tuple(rest))


def _first_ms(file: Path, pattern: LinePattern) -> int | None:
    """Return the time of the first entry; None if the file is empty. Raises LogError."""
    text = ""
    for number, text in _numbered_lines(file):
        if (line := pattern.read(text)) is not None:
            return line.ms
        if number >= LEADING_LINES:
            break
    if text == "":
        return None
    raise _not_a_log(file, text, pattern)


def _broker_id(file: Path, pattern: LinePattern) -> int:
    """Return the id of the broker that wrote the file, which its lines name. Raises LogError."""
    for number, text in _numbered_lines(file):
        if number > SEARCHED_LINES:
            break
        if (line := pattern.read(text)) is not None and (match := _BROKER_ID.match(line.message)):
            return int(match["id"])
    raise LogError(
        f"{file}: its first {SEARCHED_LINES:,} lines do not name their broker, as [Controller id=1] does; "
        "give the folder of the broker's logs with --broker ID=DIR"
    )


def _not_a_log(file: Path, text: str, pattern: LinePattern) -> LogError:
    return LogError(
        f"{file}:1: no line has the pattern {pattern.conversion!r}; expected a log that log4j has written with it, or "
        f"another --pattern. A line: {text[:120]!r}"
    )


def _numbered_lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines without their ends, numbered from 1. Raises LogError if the file cannot be read."""
    try:
        with _opened(file) as stream:
            number = 0
            while line := stream.readline(MAX_LINE_BYTES):
                number += 1
                rest = line
                while not rest.endswith(b"\n") and (rest := stream.readline(MAX_LINE_BYTES)):
                    pass
                yield number, line.rstrip(b"\r\n").decode("utf-8", "replace")
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise LogError(f"{file}: it cannot be read: {reason}") from None


def _opened(file: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(file, "rb")) if file.suffix == ".gz" else file.open("rb")
