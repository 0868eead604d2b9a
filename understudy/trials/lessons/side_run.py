"""`SideRun`: the run of one side of a lesson, read from the files in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from understudy.foundation.eventlog.records import Envelope
from understudy.history.reading.missing import NOT_ENDED, find_missing
from understudy.history.reading.reader import read
from understudy.history.reading.run_builder import run_records_of
from understudy.trials.lessons.sweeping import SweepRow

SIMULATED: Final = "simulated"
PROCESSES: Final = "processes"
RECORDED: Final = "recorded"
"""The worlds in which a side is run."""

FACTS: Final = "facts.json"
"""Name of the file with the numbers of a side's clients or of its sweep, as one JSON object."""
TABLE: Final = "failovers.json"
"""Name of the file with the table of a sweep: one row for each run."""


class LessonNotShown(Exception):
    """A run did not show what its lesson is about: for example a fault was not injected, or records are missing."""


class SideRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a side.

    Attributes:
        world: `simulated`, `processes`, or `recorded` for a run that is never simulated.
        folder: the folder with its event logs.
        facts: numbers that are not in its records.
        table: of a sweep: its runs, shortest outage first.
        measured_by: of a sweep that was run now: the program that computed the table.
    """

    title: str
    world: str
    folder: Path
    records: tuple[Envelope, ...]
    facts: Mapping[str, float]
    table: tuple[SweepRow, ...] = ()
    measured_by: str = ""


def read_side(title: str, world: str, folder: Path) -> SideRun:
    """Read the files of a run in its folder.

    Raises:
        LessonNotShown: records of the run are missing, so that numbers of the lesson would be wrong.
        OSError: a file cannot be read.
        msgspec.MsgspecError: a file is damaged.
    """
    table = folder / TABLE
    reading = read([folder])
    for missing in find_missing(run_records_of(reading.records, reading.sequences)):
        if missing.kind != NOT_ENDED:
            raise LessonNotShown(f"{title}: {missing}")
    return SideRun(
        title=title,
        world=world,
        folder=folder,
        records=reading.records,
        facts=msgspec.json.decode((folder / FACTS).read_bytes(), type=dict[str, float]),
        table=msgspec.json.decode(table.read_bytes(), type=tuple[SweepRow, ...]) if table.exists() else (),
    )
