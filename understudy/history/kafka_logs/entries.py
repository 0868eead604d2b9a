"""Reads the entries of a broker's log files, one after another, in the order of their times.

Files are streamed: memory holds one entry of each kind of log of each broker. An entry is a line with the lines that
belong to it, such as a stack trace.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

from understudy.foundation.times import duration
from understudy.history.kafka_logs.pattern import LinePattern
from understudy.history.kafka_logs.survey import EntryKind, LogPart, Survey, surveyed
from understudy.history.kafka_logs.wrapping import LogError, WrappedLine, unwrapped_lines

MAX_REST_LINES: Final = 50
"""Maximum number of lines of a stack trace that are kept. The others are only counted."""

CLOCK_TOLERANCE_MS: Final = 1_000
"""Maximum time by which an entry may be earlier than the entry before it. Threads take the time of an entry before they
wait for the file, so lines may be slightly out of order."""

_CONTROLLER_ID = re.compile(
    r"\[(?:Controller|Broker|KafkaServer|QuorumController|ControllerServer|BrokerServer) id=(?P<id>\d+)[] ]"
)
_DOCKER_FILE = re.compile(r"[0-9a-f]+-json\.log(\.\d+)?(\.gz)?")


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
    """Files of one broker that follow one another: all files of one kind, or those that have lines of several kinds.

    Attributes:
        parts: the lines of the broker in each file, the oldest first.
        lines: the number of lines that have been read.
        out_of_order: the number of entries that got the time of the entry before, at most `CLOCK_TOLERANCE_MS` later.
        loose: the number of lines at the beginning of a file that belong to an entry of a file that was not given.
    """

    broker: int
    parts: tuple[LogPart, ...]
    lines: int = 0
    out_of_order: int = 0
    loose: Counter[Path] = field(default_factory=Counter)

    @property
    def kinds(self) -> tuple[EntryKind, ...]:
        """The kinds of log files that the entries would be in, in their order."""
        found = set[EntryKind]().union(*(part.kinds for part in self.parts))
        return tuple(kind for kind in EntryKind if kind in found)

    def entries(self, pattern: LinePattern) -> Iterator[Entry]:
        """Yield the entries of all files.

        Raises:
            LogError: a file cannot be read, has lines of another broker, or begins before the end of the file before
                it.
        """
        last = 0
        begun: dict[str, WrappedLine] = {}
        for part, following in zip(self.parts, (*self.parts[1:], None), strict=True):
            is_last = following is None or following.form is not part.form
            for entry in self._part_entries(
                part, unwrapped_lines(part.file, part.form, begun, is_last=is_last), pattern, last
            ):
                last = entry.ms
                yield entry

    def _part_entries(
        self, part: LogPart, lines: Iterator[WrappedLine], pattern: LinePattern, last: int
    ) -> Iterator[Entry]:
        entry: Entry | None = None
        rest: list[str] = []
        for number, name, text in lines:
            if name != part.name:
                continue
            self.lines += 1
            line = pattern.read(text)
            if line is not None:
                if entry is not None:
                    yield _complete(entry, rest, pattern)
                ms = line.ms if line.ms >= last - CLOCK_TOLERANCE_MS else line.later_ms
                if ms < last:
                    self._check_clock(part, number, last - ms)
                last = max(last, ms)
                entry = Entry(last, part.file, number, line.level, line.logger, line.message)
                rest = []
                self._check_broker(entry)
            elif entry is None:
                self.loose[part.file] += 1
            elif len(rest) < MAX_REST_LINES:
                rest.append(text)
        if entry is not None:
            yield _complete(entry, rest, pattern)

    def _check_clock(self, part: LogPart, line: int, back_ms: int) -> None:
        if back_ms > CLOCK_TOLERANCE_MS:
            name = f" in the lines of {part.name}" if part.name else ""
            raise LogError(
                f"{part.file}:{line}: the clock goes back by {duration(back_ms)}{name}; expected files of one "
                f"broker {self.broker} that do not overlap, and the zone of their times (--timezone)"
            )
        self.out_of_order += 1

    def _check_broker(self, entry: Entry) -> None:
        match = _CONTROLLER_ID.match(entry.message)
        if match is not None and int(match["id"]) != self.broker:
            raise LogError(
                f"{entry.file}:{entry.line}: a line of broker {match['id']} in a log of broker {self.broker}; expected "
                "the files of each broker by themselves, for example --broker 1=DIR, or lines with the names of their "
                "containers, as docker compose logs and kubectl logs --prefix print them"
            )


class FoundLogs(NamedTuple):
    """The sources that log files hold, and the files and containers that hold none.

    Attributes:
        empty: the files without a line.
        surveys: what each of the other files holds.
        without_broker: the containers whose lines name no broker, in a file that has a broker.
    """

    sources: tuple[LogSource, ...]
    empty: tuple[Path, ...]
    surveys: tuple[Survey, ...]
    without_broker: tuple[LogPart, ...]


def log_sources(files: Sequence[tuple[int | None, Path]], pattern: LinePattern) -> FoundLogs:
    """Group files, or the lines of each container in them, by broker and kind, ordered by their first time.

    Args:
        files: the broker (None if it is not known) and the path of each file.

    Raises:
        LogError: a file cannot be read, has no line of this pattern in any form or lines of two forms, or names no
            broker and none is given; or two files have the same lines of a broker.
    """
    surveys = []
    empty = []
    parts: list[tuple[int, LogPart]] = []
    without_broker: list[LogPart] = []
    for broker, file in files:
        survey = surveyed(file, pattern)
        if survey is None:
            empty.append(file)
            continue
        surveys.append(survey)
        owned = _owned_parts(broker, survey)
        parts += owned
        owned_names = {part.name for _, part in owned}
        without_broker += (part for part in survey.parts if part.name not in owned_names)
    return FoundLogs(_grouped_by_kind(parts), tuple(empty), tuple(surveys), tuple(without_broker))


def _owned_parts(broker: int | None, survey: Survey) -> list[tuple[int, LogPart]]:
    """Return the lines of each broker in a file. Raises LogError."""
    dated = [part for part in survey.parts if part.first_ms is not None]
    named = [(part.broker, part) for part in dated if part.broker is not None]
    if broker is not None:
        if len(dated) == 1 and (dated[0].broker is None or not dated[0].name):
            return [(broker, dated[0])]
        for other, part in named:
            if other != broker:
                raise LogError(f"{part}: lines of broker {other} in a log of broker {broker}; name the file with --log")
    if not named:
        raise LogError(
            f"{survey.parts[0].file}: its lines do not name their broker, as [Controller id=1] does; give the folder "
            "of the broker's logs with --broker ID=DIR"
        )
    return named


def _grouped_by_kind(parts: Sequence[tuple[int, LogPart]]) -> tuple[LogSource, ...]:
    """Return a source of each broker and kind, and one of each broker's files of several kinds. Raises LogError."""
    kinds = list(EntryKind)
    found: dict[tuple[int, int], list[LogPart]] = {}
    for broker, part in parts:
        rank = kinds.index(next(iter(part.kinds))) if len(part.kinds) == 1 else len(kinds)
        found.setdefault((broker, rank), []).append(part)
    sources = tuple(
        LogSource(broker, tuple(sorted(one, key=lambda part: (part.first_ms, part.file, part.name))))
        for (broker, _), one in sorted(found.items(), key=lambda item: item[0])
    )
    for one, other in combinations(sources, 2):
        if one.broker == other.broker and set(one.kinds) & set(other.kinds):
            _check_apart(one, other)
    return sources


def _check_apart(one: LogSource, other: LogSource) -> None:
    """Raise LogError if files of the same broker have lines of the same kind and time."""
    for first in one.parts:
        for second in other.parts:
            shared = sorted(kind.value for kind in first.kinds & second.kinds)
            start_ms, end_ms = max(first.first_ms or 0, second.first_ms or 0), min(first.last_ms, second.last_ms)
            if shared and end_ms - start_ms > CLOCK_TOLERANCE_MS:
                raise LogError(
                    f"{first} and {second} both have lines of {shared[0]} of broker {one.broker}, and the same "
                    f"{duration(end_ms - start_ms)}; give one of them"
                )


def files_of_broker(folder: Path) -> list[Path]:
    """Return the log files in `folder` with the names that Kafka or Docker give them, rotated and compressed ones too.

    Raises:
        LogError: the folder cannot be listed, or has none.
    """
    try:
        names = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise LogError(f"{folder}: {error.strerror}; expected a folder with the logs of one broker") from None
    found = [path for path in names if _DOCKER_FILE.fullmatch(path.name) or _is_named(path.name)]
    if not found:
        raise LogError(f"{folder} holds none of {', '.join(kind.value for kind in EntryKind)}, ID-json.log")
    return found


def _is_named(name: str) -> bool:
    """Return whether a file has a name of Kafka's, also rotated: `controller.log.2024-05-01-13`, `….gz`."""
    return any(
        re.fullmatch(rf"{re.escape(kind.value)}([.-][0-9][0-9A-Za-z.-]*)?(\.gz)?", name) is not None
        for kind in EntryKind
    )


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
