"""Names the flaws that an event log can have; `LogFinding` has the place of a flaw."""

from __future__ import annotations

from typing import Final

import msgspec

TORN_LINE: Final = "torn line"
"""The last line of a file is not a whole record: its process was killed, or the disk was full."""
NOT_A_RECORD: Final = "not a record"
"""A line before the last is not a whole record, or its `data` does not fit its type."""
LINE_TOO_LONG: Final = "line too long"
UNKNOWN_VERSION: Final = "unknown version"
UNKNOWN_TYPE: Final = "unknown type"
EMPTY_FILE: Final = "empty file"
UNREADABLE_FILE: Final = "unreadable file"
NO_FILES: Final = "no event-log files"
GAP: Final = "gap"
"""`count` sequence numbers are missing before this line. A missing end cannot be noticed."""
REPEAT: Final = "repeat"
"""A sequence number occurs again. Only the first record with that number is used, in order of file and line."""
OUT_OF_ORDER: Final = "lines out of order"
"""A line follows one of its incarnation, in the same file, that has a higher sequence number: nothing writes files like
this, and a tool that sorts lines may. All records are used, in the order of their numbers."""
CLOCK_WENT_BACK: Final = "clock went back"
"""A record's monotonic clock is earlier than the clock of the record before it in its incarnation."""
WALL_CLOCK_DIFFERS: Final = "wall clock differs"
"""The wall clock of an incarnation differs from the other wall clocks of the run, by the alignment of their monotonic
clocks. No record is damaged."""
CLOCKS_CONTRADICT: Final = "clocks contradict"
"""By the records of two machines, a message would have been received before it was sent, whatever the distance of their
clocks. The records that contradict others do not count for their alignment."""
NOT_DAMAGE: Final = frozenset({WALL_CLOCK_DIFFERS, CLOCKS_CONTRADICT})
"""Findings about clocks: the files are whole."""


class LogFinding(msgspec.Struct, frozen=True, order=True):
    """One kind of damage to one file of an event log: a single finding stands for all its occurrences in the file."""

    file: str
    """The path of the file, or of something else at the given place."""
    line: int
    """The first damaged line, from 1; 0 if the finding is about the whole file."""
    kind: str
    """One of the constants of this module, for example `TORN_LINE`."""
    what: str
    """What the kind applies to: a record type, a version, an incarnation; may be empty."""
    count: int = 1
    """The number of occurrences."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        times = f", {self.count} of them" if self.count > 1 else ""
        return f"{self.kind}{': ' if self.what else ''}{self.what} ({where}{times})"


class LogFindings:
    """Collects findings. Findings of one file, kind and subject become one."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], LogFinding] = {}

    def note(self, finding: LogFinding) -> None:
        key = (finding.file, finding.kind, finding.what)
        if known := self._found.get(key):
            line, count = min(known.line, finding.line), known.count + finding.count
            finding = msgspec.structs.replace(finding, line=line, count=count)
        self._found[key] = finding

    def sorted(self) -> tuple[LogFinding, ...]:
        """Return all findings by file and line."""
        return tuple(sorted(self._found.values()))
