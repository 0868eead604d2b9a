"""`Completeness`: which records of a run are missing, and how its clocks are aligned, as `run.json` has it.

The verdict needs all records. So the verdict on a finished run is computed from the records that were read, and the
verdict on a live run at its end, from its logs, which are read once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from understudy.foundation.eventlog.records import Envelope
from understudy.foundation.times import micros
from understudy.history.reading.clocks import ONE_CLOCK, Incarnation, RunClocks
from understudy.history.reading.missing import MissingRecords, find_missing
from understudy.history.reading.reader import find_files, read_runs
from understudy.history.reading.run_builder import run_records_of
from understudy.history.reading.run_records import RunRecords, SequenceDamage


class Completeness(NamedTuple):
    """The verdict on the records of one run."""

    missing: tuple[MissingRecords, ...]
    clocks: RunClocks
    incarnations: tuple[Incarnation, ...]
    """Sorted."""

    first_us: int
    """The time of the run's first record, as the page has it."""

    def facts(self) -> dict[str, Any]:
        """Return the values of `run.json`, with the times that the records of the page have."""
        return {
            "missing": [
                {**row._asdict(), "from_us": self.first_us + row.from_us, "until_us": self.first_us + row.until_us}
                for row in self.missing
            ],
            "clocks": [
                {
                    "machine": clock.machine,
                    "boot": clock.boot,
                    "evidence": clock.evidence,
                    "incarnations": [each for each in self.incarnations if self.clocks.number(each) == number],
                    "points": [(each.clock_us + each.offset_us, each.within_us) for each in clock.points],
                }
                for number, clock in enumerate(self.clocks.clocks)
            ],
        }


def of_records(
    records: Sequence[Envelope], sequences: Iterable[SequenceDamage] | None = None, clocks: RunClocks = ONE_CLOCK
) -> Completeness:
    """Return the verdict on a run.

    Args:
        records: all its records, in the time of the run.
        sequences: the damage that their reader has found, as for `run_records_of`.
        clocks: the clocks by which their times were aligned.
    """
    first_us = min((micros(record.mono_ms) for record in records), default=0)
    return _of_run(run_records_of(records, sequences, clocks), clocks, first_us)


def of_folder(folder: Path, run: str, first_us: int) -> Completeness:
    """Return the verdict on the records of a run whose logs are in a folder. It reads all of them.

    Args:
        first_us: the time of the run's first record, as the page has it.
    """
    files, _ = find_files([folder])
    found = read_runs(files).runs.get(run)
    return of_records(()) if found is None else _of_run(found, ONE_CLOCK, first_us)


def _of_run(run: RunRecords, clocks: RunClocks, first_us: int) -> Completeness:
    return Completeness(find_missing(run), clocks, tuple(sorted(run.signs.incarnations)), first_us)
