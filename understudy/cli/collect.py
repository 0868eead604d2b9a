"""`understudy collect`: bring the event logs of one run together from several machines, and report missing records.

A second collection copies only new bytes. The exit code is 0 if no records are missing, 3 if some are, 2 if the
sources cannot be one run in the folder, 1 if a source or the folder failed; the same command then continues.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from understudy.cli.activity import Activity
from understudy.cli.arguments import BadInput, Failed, reported_as
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.times import fixed
from understudy.history.collecting.collect import Collection, FileCopy, NotOneRun, copy_files, plan
from understudy.history.collecting.sources import LocalSource, NoEventLogs, Source, SourceFailed
from understudy.history.collecting.ssh import ssh_source
from understudy.history.lake.layout import is_lake
from understudy.history.reading.clocks import MachineClock, RunClocks
from understudy.history.reading.findings import LogFinding
from understudy.history.reading.missing import MissingRecords, find_missing
from understudy.history.reading.reader import find_files, read_runs
from understudy.history.writing import counted

RECORDS_ARE_MISSING: Final = 3
"""The exit code if the run is copied and incomplete, as `understudy check` has it."""
SHOWN_FINDINGS: Final = 5
"""Number of findings that are printed; `understudy replay` lists all."""
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://.*")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="a broker's log directory, a folder of event logs, a file, or a run folder; or [user@]host:PATH by ssh",
    )
    parser.add_argument(
        "-o", "--dir", type=Path, required=True, metavar="DIR", help="the folder of the run, new or of an earlier copy"
    )
    parser.add_argument("--run", metavar="ID", dest="wanted", help="the run, if the sources have several")
    parser.add_argument("--dry-run", action="store_true", help="show what would be copied")


@reported_as(BadInput, NoEventLogs, NotOneRun)
@reported_as(Failed, SourceFailed, hint="; the same command continues")
def run(options: argparse.Namespace) -> int:
    """Copy the logs and print the verdict. Raises `BadInput` or `Failed`."""
    folder: Path = options.dir
    if is_lake(folder):
        raise BadInput(f"-o {folder} is a lake; give the folder of a run, which may be new")
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"-o {folder} is no folder; give the folder of a run, which may be new")
    sources = list(map(source, dict.fromkeys(options.sources)))
    with Activity(sys.stderr, plain_lines=False) as activity:
        activity.step(f"listing the event logs of {counted(len(sources), 'source')}")
        collection = plan(sources, folder, options.wanted)
        if not options.dry_run:
            with reported_as(Failed, OSError, about=f"-o {folder}:", hint="; the same command continues"):
                copy_files(collection, activity.step)
    print("\n".join(describe(collection, is_dry=options.dry_run)))
    if options.dry_run:
        return 0
    reading = read_runs(find_files([folder]).files)
    records = reading.runs.get(collection.run)
    if records is None:
        raise BadInput(f"run {collection.run!r} has no record in {folder}")
    missing = find_missing(records)
    print("\n".join(describe_verdict(missing, records.clocks, reading.findings)))
    print(f"next: understudy replay {shlex.quote(str(folder))}")
    return RECORDS_ARE_MISSING if missing else 0


def source(text: str) -> Source:
    """Return what a SOURCE of the command line names. Raises `BadInput`."""
    if (remote := ssh_source(text)) is not None:
        return remote
    if url := _URL.fullmatch(text):
        raise BadInput(
            f"{text}: event logs are not collected from {url[1]}: URLs; give a local path, which may be a mounted "
            "share, or [user@]host:PATH"
        )
    return LocalSource(Path(text))


def describe(collection: Collection, *, is_dry: bool = False) -> list[str]:
    """Return the lines about the files: a table of the nodes, and what was left out."""
    by_node = grouped((copy.file.node, copy) for copy in collection.copies)
    rows = [("node", "incarnations", "files", "bytes", "to copy" if is_dry else "copied", "kept")]
    rows += [(node, _incarnations(copies), *_sizes(copies)) for node, copies in by_node.items()]
    rows.append(("all", "", *_sizes(collection.copies)))
    sides = "<<>>>>"
    widths = [max(len(row[column]) for row in rows) for column in range(len(sides))]
    table = (
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)) for row in rows
    )
    lines = [f"run {collection.run} in {collection.folder}", "", *(row.rstrip() for row in table), ""]
    for other, files in collection.left_out.items():
        what = f"run {other!r}" if other else "no run: no line can be read"
        lines.append(f"left out: {counted(files, 'file')} of {what}")
    return lines


def describe_verdict(
    missing: Iterable[MissingRecords], clocks: RunClocks, findings: Iterable[LogFinding]
) -> Iterator[str]:
    """Yield the lines about the records: damage, clocks, and which records are missing."""
    damage = list(findings)
    yield from map(str, damage[:SHOWN_FINDINGS])
    if len(damage) > SHOWN_FINDINGS:
        yield f"and {len(damage) - SHOWN_FINDINGS} more findings"
    if clocks.is_one:
        yield "one clock: times of all nodes can be compared"
    else:
        yield f"{len(clocks.clocks)} clocks; times of one are exact, others are within:"
        yield from (f"  {_clock(clock)}" for clock in clocks.clocks)
    lines = list(map(str, missing))
    yield from lines or ["complete: no record shows that others are missing"]


def _clock(clock: MachineClock) -> str:
    boot = f"boot {clock.boot}" if clock.boot else "boot not known"
    name = f"{clock.machine or 'machine not known'}, {boot}"
    if clock.evidence == "reference":
        return f"{name}: the reference"
    best, worst = (pick(point.within_us for point in clock.points) / 1000 for pick in (min, max))
    within = f"{fixed(best)} to {fixed(worst)}" if best < worst else fixed(worst)
    return f"{name}: ± {within} ms, by {clock.evidence}"


def _incarnations(copies: Iterable[FileCopy]) -> str:
    """Return numbers and ranges, for example `1-3, 5`."""
    ranges: list[list[int]] = []
    for number in sorted({copy.file.incarnation for copy in copies}):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)


def _sizes(copies: Iterable[FileCopy]) -> tuple[str, str, str, str]:
    found = list(copies)
    return (
        f"{len(found):,}",
        f"{sum(copy.bytes for copy in found):,}",
        f"{sum(copy.new for copy in found):,}",
        f"{sum(copy.kept for copy in found):,}",
    )
