"""Finds the runs of event-log files, and packs whole runs into tasks.

A run is the unit of work of every engine, except that `ingest` with Spark divides a run larger than `LARGE_RUN_BYTES`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, overload

import msgspec

from understudy.history.reading.file_marks import by_name, continues, mark
from understudy.history.reading.findings import LogFinding
from understudy.history.reading.lines import MAX_LINE_BYTES, decode_header
from understudy.history.reading.listing import LogListing, absolute, list_files
from understudy.history.storage.paths import StoragePath, UrlPath, is_url, results_of, storage_path

TASK_BYTES = 16 * 1024 * 1024
"""Size of the tasks into which runs are packed, some 50,000 records: a task then outlasts its start in Spark."""

LARGE_RUN_BYTES = 1_000_000_000
"""Size of the logs of a run above which a task is too small for it. `ingest` with Spark divides such a run."""

DIFFERENT_RUNS = "different runs with one id"
"""Two files of a run have the same name and different content, so that the numbers of the run mix several runs."""

_FIRST_BYTES = 4096
"""Number of bytes that are read of a file at first: most first lines are shorter."""

_SEARCHED_BYTES = 1024 * 1024
"""Number of bytes at the beginning of a file that are searched for a line with a run."""


class RunFiles(msgspec.Struct, frozen=True, order=True):
    """The event-log files that belong to one run, by their first readable lines."""

    run: str
    """The id of the run; empty if no line names one, and there is then a single file."""
    files: tuple[str, ...]
    """Absolute paths or URLs, sorted."""
    bytes: int
    """The size of all files."""


class _Run:
    """The files of a run by folder, as in `LogListing.names`, with absolute folders."""

    __slots__ = ("bytes", "folders", "run")

    def __init__(self, run: str) -> None:
        self.run = run
        self.bytes = 0
        self.folders: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def files(self) -> tuple[str, ...]:
        return tuple(sorted({folder + name for folder, names in self.folders for name in names}))


class FoundRuns(Sequence[RunFiles]):
    """The runs of some files, sorted. It keeps the names of files by folder, and makes each `RunFiles` on access."""

    def __init__(self, runs: Sequence[_Run]) -> None:
        self._runs = sorted(runs, key=lambda found: (found.run, () if found.run else found.files()))

    @overload
    def __getitem__(self, number: int) -> RunFiles: ...
    @overload
    def __getitem__(self, number: slice) -> list[RunFiles]: ...
    def __getitem__(self, number: int | slice) -> RunFiles | list[RunFiles]:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        found = self._runs[number]
        return RunFiles(found.run, found.files(), found.bytes)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(found.bytes for found in self._runs)

    def larger_than(self, size: int) -> list[tuple[str, int]]:
        """Return the id of each run whose logs exceed a size, and their size."""
        return [(found.run, found.bytes) for found in self._runs if found.run and found.bytes > size]

    def conflicts(self) -> list[tuple[str, str]]:
        """Return the run and the path of each file that is in conflict with another; see `conflicting_files`."""
        several = [number for number, found in enumerate(self._runs) if len(found.folders) > 1]
        return [(self[number].run, file) for number in several for file in conflicting_files(self[number])]


class FoundLogs(NamedTuple):
    """The event logs at or below some paths."""

    listing: LogListing
    findings: tuple[LogFinding, ...]
    """Paths without event logs, and logs of different runs with the same id."""
    groups: FoundRuns


def find_logs(paths: Iterable[StoragePath]) -> FoundLogs:
    """Find the event-log files at or below `paths`, and group them by run."""
    return logs_in(list_files(paths))


def logs_in(listing: LogListing) -> FoundLogs:
    """Group event-log files by run."""
    groups = runs_in(listing)
    conflicts = groups.conflicts()
    given = listing.as_given([file for _, file in conflicts])
    found = [LogFinding(given[file], 0, DIFFERENT_RUNS, run) for run, file in conflicts]
    return FoundLogs(listing, (*listing.findings, *found), groups)


def find_runs(files: Iterable[StoragePath]) -> list[RunFiles]:
    """Group files by run, sorted by run. Only the beginning of each file is read.

    A file that cannot be read, or whose first mebibyte has no record, is a separate group.
    """
    return list(runs_in(LogListing.of(files)))


def runs_in(listing: LogListing) -> FoundRuns:
    """Group listed files as `find_runs` does."""
    named: dict[str, _Run] = {}
    others: list[_Run] = []
    beginnings = _runs_of_files(listing)
    for folder, names in listing.names.items():
        own: dict[_Run, list[str]] = {}
        for name in names:
            run, size = next(beginnings)
            found = named.setdefault(run, _Run(run)) if run else _Run(run)
            found.bytes += size
            own.setdefault(found, []).append(name)
            if not run:
                others.append(found)
        start = absolute(folder)
        for found, files in own.items():
            found.folders += ((start, names if len(files) == len(names) else tuple(files)),)
    return FoundRuns([*named.values(), *others])


def _runs_of_files(listing: LogListing) -> Iterator[tuple[str, int]]:
    """Yield the run and the size of each file of a listing."""
    return results_of(run_of, listing.files(), is_stored=listing.is_stored)


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
        shorter, longer = sorted((first, second), key=lambda file: storage_path(file).stat().st_size)
        return continues(longer, mark(shorter))
    except OSError:
        return True  # its readers report it


def joined(groups: Sequence[RunFiles]) -> RunFiles:
    """Return one group with the files of all."""
    paths = {path for group in groups for path in group.files}
    return RunFiles(min(group.run for group in groups), tuple(sorted(paths)), sum(group.bytes for group in groups))


def pack(groups: Sequence[RunFiles], task_bytes: int = TASK_BYTES) -> list[list[int]]:
    """Pack whole runs into tasks of about `task_bytes`, the largest first; a larger run is a separate task.

    Args:
        groups: sorted; runs of the same size stay in this order.

    Returns:
        the numbers of the runs of each task, as in `groups`.
    """
    sizes = [group.bytes for group in groups]
    tasks: list[list[int]] = []
    left = 0
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        if not tasks or sizes[number] > left:
            tasks.append([])
            left = task_bytes
        tasks[-1].append(number)
        left -= sizes[number]
    return tasks


def run_of(file: str | StoragePath) -> tuple[str, int]:
    """Return the run that the first readable line of a file names, and the size of the file.

    Without such a line in the first mebibyte the run is empty; a file that cannot be read also has the size 0.
    """
    path = storage_path(file) if isinstance(file, str) and is_url(file) else file
    try:
        size, beginning = _beginning(path)
        line, newline, _ = beginning.partition(b"\n")
        if newline or len(beginning) == size:
            with suppress(msgspec.MsgspecError):
                if run := decode_header(line).run:
                    return run, size
        return _searched(storage_path(file))
    except OSError:
        return "", 0


def _beginning(file: str | StoragePath) -> tuple[int, bytes]:
    """Return the size and the first bytes of a file, by the fewest calls of the system: there may be many files."""
    if isinstance(file, UrlPath):
        return file.size_and_beginning(_FIRST_BYTES)
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return os.fstat(descriptor).st_size, os.read(descriptor, _FIRST_BYTES)
    finally:
        os.close(descriptor)


def _searched(file: StoragePath) -> tuple[str, int]:
    """Do the same as `run_of` for a file whose first line is long or damaged. Raises OSError."""
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(0)
        while size > 0 and stream.tell() < min(size, _SEARCHED_BYTES):
            with suppress(msgspec.MsgspecError):
                if run := decode_header(stream.readline(MAX_LINE_BYTES)).run:
                    return run, size
    return "", size
