"""Finds the runs of event-log files, and packs whole runs into tasks: a run is the unit of work of every engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from understudy.foundation.cluster.grouping import grouped
from understudy.history.reading.file_marks import by_name, continues, mark
from understudy.history.reading.findings import LogFinding
from understudy.history.reading.lines import MAX_LINE_BYTES, decode_header
from understudy.history.reading.reader import FoundFiles, find_files

TASK_BYTES = 16 * 1024 * 1024
"""Size of the tasks into which runs are packed, some 50,000 records: a task then outlasts its start in Spark."""

DIFFERENT_RUNS = "different runs with one id"
"""Two files of a run have the same name and different content, so that the numbers of the run mix several runs."""

_SEARCHED_BYTES = 1024 * 1024
"""Number of bytes at the beginning of a file that are searched for a line with a run."""


class RunFiles(msgspec.Struct, frozen=True, order=True):
    """The event-log files that belong to one run, by their first readable lines."""

    run: str
    """The id of the run; empty if no line names one, and there is then a single file."""
    files: tuple[str, ...]
    """Absolute paths, sorted."""
    bytes: int
    """The size of all files."""


class FoundLogs(NamedTuple):
    """The event logs at or below some paths."""

    files: tuple[Path, ...]
    findings: tuple[LogFinding, ...]
    """Paths without event logs, and logs of different runs with the same id."""
    groups: list[RunFiles]


def find_logs(paths: Iterable[Path]) -> FoundLogs:
    """Find the event-log files at or below `paths`, and group them by run."""
    return logs_in(find_files(paths))


def logs_in(found: FoundFiles) -> FoundLogs:
    """Group event-log files by run."""
    files, findings = found
    groups = find_runs(files)
    names = {str(file.absolute()): str(file) for file in files}
    conflicts = [
        LogFinding(names[file], 0, DIFFERENT_RUNS, group.run) for group in groups for file in conflicting_files(group)
    ]
    return FoundLogs(files, (*findings, *conflicts), groups)


def find_runs(files: Iterable[Path]) -> list[RunFiles]:
    """Group files by run, sorted by run. Only the beginning of each file is read.

    A file that cannot be read, or whose first mebibyte has no record, is a separate group.
    """
    each = [RunFiles(run, (str(file.absolute()),), size) for file in files for run, size in [run_of(file)]]
    by_run = grouped((found.run, found) for found in each if found.run)
    return sorted([*map(joined, by_run.values()), *(found for found in each if not found.run)])


def conflicting_files(group: RunFiles) -> tuple[str, ...]:
    """Return two files of a group that cannot be copies of each other though they have the same name; empty if none.

    The name has the node, the incarnation and the number of the file. A copy may have been made before the run ended,
    so that it is the beginning of the other. Only the beginning and the end of the common part are compared.
    """
    for first, *others in by_name(group.files).values():
        for file in others:
            if not _is_copy(first, file):
                return first, file
    return ()


def _is_copy(first: str, second: str) -> bool:
    try:
        shorter, longer = sorted((first, second), key=lambda file: Path(file).stat().st_size)
        return continues(longer, mark(shorter))
    except OSError:
        return True  # its readers report it


def joined(groups: Sequence[RunFiles]) -> RunFiles:
    """Return one group with the files of all."""
    paths = {path for group in groups for path in group.files}
    return RunFiles(min(group.run for group in groups), tuple(sorted(paths)), sum(group.bytes for group in groups))


def pack(groups: Iterable[RunFiles], task_bytes: int = TASK_BYTES) -> list[tuple[RunFiles, ...]]:
    """Pack whole runs into tasks of about `task_bytes`, the largest first; a larger run is a separate task."""
    tasks: list[tuple[RunFiles, ...]] = []
    task: list[RunFiles] = []
    size = 0
    for group in sorted(groups, key=lambda group: (-group.bytes, group)):
        if task and size + group.bytes > task_bytes:
            tasks.append(tuple(task))
            task, size = [], 0
        task.append(group)
        size += group.bytes
    return [*tasks, tuple(task)] if task else tasks


def run_of(file: Path) -> tuple[str, int]:
    """Return the run that the first readable line of a file names, and the size of the file.

    Without such a line in the first mebibyte the run is empty; a file that cannot be read also has the size 0.
    """
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(0)
            while size > 0 and stream.tell() < min(size, _SEARCHED_BYTES):
                with suppress(msgspec.MsgspecError):
                    if run := decode_header(stream.readline(MAX_LINE_BYTES)).run:
                        return run, size
    except OSError:
        return "", 0
    return "", size
