"""`surveyed` finds out what a log file holds before it is imported: its form, and the lines of each container in it.

A container that runs a broker names it in its lines, as `[Controller id=1]` does. The kinds of lines follow from their
loggers, so the same file gives the same records under any name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from understudy.history.kafka_logs.pattern import LinePattern
from understudy.history.kafka_logs.wrapping import FORMS, Form, LogError, WrappedLine, numbered_lines, unwrapped_lines

LEADING_LINES: Final = 1_000
"""Number of lines at the beginning of a file that may belong to an entry of the file before it, or to the start script
of a container. Lines with the name of a container are not counted."""

_BROKER_ID = re.compile(
    r"\[(?:Controller id=|Broker id=|KafkaServer id=|ControllerEventThread controllerId=|"
    r"PartitionStateMachine controllerId=|ReplicaStateMachine controllerId=|RequestSendThread controllerId=|"
    r"ReplicaManager broker=|MetadataCache brokerId=|GroupCoordinator |KafkaApi-|RaftManager (?:nodeId|id)=|"
    r"Controller (?=\d+\])|QuorumController id=|SharedServer id=|ControllerServer id=|BrokerServer id=|"
    r"KafkaRaftServer nodeId=)(?P<id>\d+)"
)


class EntryKind(Enum):
    """The three kinds of log files of a broker, in the order in which entries of the same millisecond are taken."""

    CONTROLLER = "controller.log"
    STATE_CHANGE = "state-change.log"
    SERVER = "server.log"

    @classmethod
    def of(cls, logger: str) -> EntryKind:
        """Return the file into which Kafka's `config/log4j.properties` puts the entries of a logger."""
        if logger == "state.change.logger":
            return cls.STATE_CHANGE
        of_controller = ("kafka.controller.", "org.apache.kafka.controller.")
        return cls.CONTROLLER if logger.startswith(of_controller) else cls.SERVER


@dataclass(slots=True)
class LogPart:
    """The lines of one container in a file, or all lines of a file without names.

    Attributes:
        name: the container or pod; empty if the form has no names.
        broker: the broker that the lines name; None if they name none.
        kinds: the kinds of log files that its entries would be in.
        first_ms: the earliest time of an entry; `last_ms`: the latest one.
        lines: the number of lines.
    """

    file: Path
    form: Form
    name: str
    broker: int | None = None
    kinds: set[EntryKind] = field(default_factory=set)
    first_ms: int | None = None
    last_ms: int = 0
    lines: int = 0

    def __str__(self) -> str:
        return f"{self.file}, {self.name}" if self.name else str(self.file)


@dataclass(slots=True)
class Survey:
    """What a file holds.

    Attributes:
        parts: the lines of each container, in the order of their first lines.
        strays: the number of lines that have no name or time in a file whose lines have them.
        first_stray: the number of the first of them.
    """

    form: Form
    parts: list[LogPart]
    strays: int = 0
    first_stray: int = 0


def surveyed(file: Path, pattern: LinePattern) -> Survey | None:
    """Read a file once; return what it holds, None if it is empty.

    Raises:
        LogError: the file cannot be read, has no line of this pattern in any form, or has lines of two forms.
    """
    form = _form_of(file, pattern)
    if form is None:
        return None
    parts: dict[str, LogPart] = {}
    survey = Survey(form, [])
    for line in unwrapped_lines(file, form, {}, is_last=True):
        if line.name is not None:
            part = parts.get(line.name)
            if part is None:
                part = parts[line.name] = LogPart(file, form, line.name)
            part.lines += 1
            if _adds_entry(part, line, pattern):
                continue
        else:
            survey.strays += 1
            survey.first_stray = survey.first_stray or line.number
        _check_form(file, form, line, pattern)
    survey.parts += parts.values()
    return survey


def _form_of(file: Path, pattern: LinePattern) -> Form | None:
    """Return the form of the first line that is an entry; None if the file is empty. Raises LogError."""
    first: tuple[int, str] | None = None
    without_name = 0
    for number, text in numbered_lines(file):
        is_named = False
        for form in FORMS:
            piece = form.unwrap(text)
            if piece is not None:
                if pattern.read(piece.text) is not None:
                    return form
                is_named = is_named or form.has_names
        without_name += not is_named
        if first is None and text.strip():
            first = number, text
        if without_name >= LEADING_LINES:
            break
    if first is None:
        return None
    titles = ", ".join(form.title for form in reversed(FORMS))
    raise LogError(
        f"{file}:{first[0]}: no line has the pattern {pattern.conversion!r}, as this one: {first[1][:120]!r}; expected "
        f"a log that log4j has written with it, or another --pattern, in one of the forms: {titles}"
    )


def _adds_entry(part: LogPart, line: WrappedLine, pattern: LinePattern) -> bool:
    """Return whether a line begins an entry, and note what it says about its container."""
    entry = pattern.read(line.text)
    if entry is None:
        return False
    part.first_ms = entry.ms if part.first_ms is None else min(part.first_ms, entry.ms)
    part.last_ms = max(part.last_ms, entry.ms)
    if entry.logger:
        part.kinds.add(EntryKind.of(entry.logger))
    if part.broker is None and (match := _BROKER_ID.match(entry.message)) is not None:
        part.broker = int(match["id"])
    return True


def _check_form(file: Path, form: Form, line: WrappedLine, pattern: LinePattern) -> None:
    """Raise LogError if a line that is no entry in the form of its file is one in another form."""
    for other in FORMS:
        if other is form:
            continue
        piece = other.unwrap(line.text)
        if piece is not None and pattern.read(piece.text) is not None:
            raise LogError(
                f"{file}:{line.number}: a line in the form of {other.title}, in a file that begins in the form of "
                f"{form.title}; give lines of different forms in files of their own"
            )
