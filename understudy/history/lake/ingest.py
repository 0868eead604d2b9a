"""Brings event logs into a lake: finds out which runs are new or have grown, has their parts written, and commits them.

Parts are written by an engine: this process for small inputs, or Spark's workers. After each round of tasks there is a
new version of the lake, so that a killed ingest loses no more than one round. Several processes may ingest into a lake
at the same time, also the same runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapreplace
from typing import Protocol, TypeAlias

from understudy.history.lake.errors import LakeError
from understudy.history.lake.lake import Lake
from understudy.history.lake.parts import schema_digest
from understudy.history.lake.pieces import NotInPieces
from understudy.history.lake.runs_to_parts import RefusedRun, WrittenRun, write_part
from understudy.history.lake.writer import LakeWriter, check_is_lake
from understudy.history.lake.written import RunEntry
from understudy.history.reading.file_marks import by_name, continues, same_content
from understudy.history.reading.listing import LogListing, list_files
from understudy.history.report.runs import LARGE_RUN_BYTES, RunFiles, joined, runs_in
from understudy.history.storage.paths import StoragePath, results_of, storage_path

IN_PROCESS_BYTES = 16 * 1024 * 1024
"""Maximum size of logs for which no Spark is started: some 50,000 records, which take less time than its start."""

# A task makes a part, and a part has a file for each of some sixty tables. 96 MiB of logs become 4 MiB of them, so that
# `LakeWriter.compact` need not copy what an ingest has just written.
_MIN_TASK_BYTES = 96 * 1024 * 1024
_MAX_TASK_BYTES = 256 * 1024 * 1024
_TASKS_PER_CORE = 4
_TASKS_PER_ROUND_AND_CORE = 8


class NothingToIngest(LakeError):
    """There is no event log at or below the given paths."""


class Engine(Protocol):
    """Writes parts."""

    @property
    def cores(self) -> int:
        """The number of tasks that run at a time."""

    def write(self, lake: StoragePath, tasks: Sequence[tuple[RunFiles, ...]]) -> Iterable[WrittenRun]:
        """Write one part for each task."""

    def write_large(self, lake: StoragePath, run: RunFiles) -> WrittenRun:
        """Write a part of one run whose logs are more than a task should have, in pieces.

        Raises:
            NotInPieces: this run cannot be written so; the message says why.
        """


class InProcess:
    """Writes parts in this process, one after the other."""

    cores = 1

    def write(self, lake: StoragePath, tasks: Sequence[tuple[RunFiles, ...]]) -> Iterator[WrittenRun]:
        return (write_part(lake, task) for task in tasks)

    def write_large(self, lake: StoragePath, run: RunFiles) -> WrittenRun:
        raise NotInPieces("only Spark divides a run")


OpenEngine: TypeAlias = Callable[[int], Engine]


@dataclass(slots=True)
class Ingested:
    """The result of an ingest.

    Attributes:
        added: runs that were not in the lake before.
        replaced: runs that have grown, or were written with other schemas.
        unchanged: runs that were in the lake already.
        refused: runs that are not in the lake, or not in the state that was given.
        incomplete: the first evidence that records are missing, by added or replaced run; complete runs are left out.
        skipped: files without a line that names a run: empty files, files with only a torn line, other files.
        records: the number of records of the added and replaced runs.
        version: the version of the lake.
    """

    added: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    refused: list[RefusedRun] = field(default_factory=list)
    incomplete: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    records: int = 0
    version: int = 0


def list_logs(paths: Sequence[StoragePath]) -> LogListing:
    """List the event-log files at or below `paths`.

    Raises:
        NothingToIngest: there are none, or a path does not exist.
    """
    listing = list_files(paths)
    missing = [finding for finding in listing.findings if finding.what]
    if missing or not listing.names:
        findings = missing or listing.findings
        why = ", ".join(f"{finding.file}{': ' * bool(finding.what)}{finding.what}" for finding in findings)
        raise NothingToIngest(f"there are no event-log files at or below {why}; expected *.jsonl in run folders")
    return listing


def size_of(listing: LogListing) -> int:
    """Return the size of all files in bytes; a file that is gone meanwhile counts as 0."""
    return sum(results_of(_size, listing.files(), is_stored=listing.is_stored))


def _size(file: str) -> int:
    try:
        return storage_path(file).stat().st_size
    except OSError:
        return 0


def groups_in(listing: LogListing) -> list[RunFiles]:
    """Return the runs of listed files. A path without files, or a file that names no run, is a group without a run.

    Raises:
        NothingToIngest: no line of any file names a run.
    """
    groups = runs_in(listing)
    if not any(group.run for group in groups):
        first, others = listing.paths()[0], listing.count - 1
        raise NothingToIngest(
            f"no line of {first}{f' or of {others} other files' * bool(others)} names a run; expected event logs, as a "
            "cluster, a simulated one or `understudy import-kafka` leaves them"
        )
    return [*groups, *(RunFiles("", (finding.file,), 0) for finding in listing.findings)]


def find_logs(paths: Sequence[StoragePath]) -> list[RunFiles]:
    """Return the runs of all event logs at or below `paths`. Raises as `list_logs` and `groups_in`."""
    return groups_in(list_logs(paths))


def ingest(
    groups: Sequence[RunFiles],
    lake: StoragePath,
    open_engine: OpenEngine = lambda size: InProcess(),
    progress: Callable[[str], object] = lambda step: None,
) -> Ingested:
    """Bring runs into a lake, which is created if the folder is missing or empty.

    Args:
        open_engine: returns an engine for logs of a number of bytes; called only if there is something to write.
        progress: called with the name of each step before the step begins.

    Raises:
        LakeError: the folder is no lake, is of another format, or cannot be changed.
        OSError: the lake cannot be read or written. Runs of finished rounds are in it; the same call continues.
    """
    check_is_lake(lake)
    writer = LakeWriter(lake)
    result = Ingested()
    wanted = _wanted(groups, writer.runs, result)
    if wanted:
        _write(writer, wanted, open_engine(sum(group.bytes for group in wanted)), result, progress)
        _remove_incomplete(writer, result)
        progress("merging small files")
        writer.compact()
        writer.vacuum_if_due()
    result.version = writer.version
    return result


def _write(
    writer: LakeWriter,
    wanted: Sequence[RunFiles],
    engine: Engine,
    result: Ingested,
    progress: Callable[[str], object],
) -> None:
    """Write and commit runs: each large one, then the others round by round."""
    rounds = _Rounds(writer, result)
    others = []
    for group in wanted:
        if group.bytes <= LARGE_RUN_BYTES:
            others.append(group)
            continue
        progress(f"writing run {group.run} into {writer.lake} in pieces, {group.bytes / 1e6:,.0f} MB")
        try:
            rounds.commit([engine.write_large(writer.lake, group)])
        except NotInPieces as why:
            progress(f"writing run {group.run} in one task, which needs memory for all its records: {why}")
            others.append(group)
    tasks = _tasks(others, engine.cores) if others else []
    size = engine.cores * _TASKS_PER_ROUND_AND_CORE
    done = len(wanted) - len(others)
    for begin in range(0, len(tasks), size):
        some = tasks[begin : begin + size]
        progress(f"writing {len(wanted)} runs into {writer.lake}, {done} done")
        rounds.commit(list(engine.write(writer.lake, some)))
        done += sum(map(len, some))


class _Rounds:
    """Commits the parts of each round, and notes the result."""

    def __init__(self, writer: LakeWriter, result: Ingested) -> None:
        self._writer = writer
        self._result = result
        self._known = set(writer.runs)

    def commit(self, written: Sequence[WrittenRun]) -> None:
        elsewhere = self._writer.commit(written)
        result = self._result
        for part in written:
            result.refused += part.refused
            for run, entry in part.runs.items():
                if run in elsewhere:
                    result.unchanged.append(run)
                    continue
                (result.replaced if run in self._known else result.added).append(run)
                result.records += entry.records
                if entry.missing:
                    result.incomplete[run] = entry.missing


def remove(runs: Sequence[str], lake: StoragePath) -> int:
    """Remove runs from a lake and delete their rows; return the version of the lake.

    Raises:
        NotALake: the folder is no lake; it is not changed.
        UnknownRun: one of them is not in the lake; none is removed.
        LakeError, OSError: as for `ingest`.
    """
    Lake(lake)
    writer = LakeWriter(lake)
    writer.remove(frozenset(runs))
    return writer.version


def _tasks(groups: Sequence[RunFiles], cores: int) -> list[tuple[RunFiles, ...]]:
    """Spread whole runs over tasks of about the same size, as many for each core, the largest tasks first.

    All cores get work, however little there is: logs of less than `_MIN_TASK_BYTES` for each core make one task a core.
    """
    total = sum(group.bytes for group in groups)
    task_bytes = min(max(total // (cores * _TASKS_PER_CORE), _MIN_TASK_BYTES), _MAX_TASK_BYTES)
    count = min(cores * max(1, round(total / (cores * task_bytes))), len(groups))
    tasks: list[list[RunFiles]] = [[] for _ in range(count)]
    sizes = [(0, number) for number in range(count)]
    for group in sorted(groups, key=lambda group: (-group.bytes, group)):
        size, smallest = sizes[0]
        tasks[smallest].append(group)
        heapreplace(sizes, (size + group.bytes, smallest))
    return [tuple(tasks[number]) for _, number in sorted(sizes, key=lambda size: (-size[0], size[1]))]


def _remove_incomplete(writer: LakeWriter, result: Ingested) -> None:
    """Remove runs that also have records in a refused file."""
    for refusal in tuple(result.refused):
        for run in refusal.others:
            if run in writer.runs:
                writer.remove({run})
                result.added = [each for each in result.added if each != run]
                result.replaced = [each for each in result.replaced if each != run]
                result.incomplete.pop(run, None)
                result.refused.append(RefusedRun(run, f"other records of it are in the logs of run {refusal.run!r}"))


# ------------------------------------------------------------------ which runs


def _wanted(groups: Iterable[RunFiles], runs: Mapping[str, RunEntry], result: Ingested) -> list[RunFiles]:
    """Return the runs to write; note the others as unchanged or refused."""
    digest = schema_digest()
    wanted = []
    for group in groups:
        entry = runs.get(group.run)
        try:
            why = _conflict(group)
            if why is None and entry is not None:
                group, why = _with_known_files(group, entry)
            if not group.run:
                result.skipped.append(group.files[0])
            elif why is not None:
                result.refused.append(RefusedRun(group.run, why))
            elif entry is not None and entry.schema == digest and _is_unchanged(group, entry):
                result.unchanged.append(group.run)
            else:
                wanted.append(group)
        except OSError as error:
            result.refused.append(RefusedRun(group.run, f"{error.filename} cannot be read: {error.strerror}"))
    return wanted


def _conflict(group: RunFiles) -> str | None:
    """Return why the files of a group cannot be one run; None if they can."""
    for same in by_name(group.files).values():
        if len(same) > 1 and not same_content(same):
            return f"run id {group.run!r} is used by different runs: {same[0]} and {same[1]} differ"
    return None


def _with_known_files(group: RunFiles, entry: RunEntry) -> tuple[RunFiles, str | None]:
    """Return the group with its known files that were not given, and the reason of a refusal; None if there is none."""
    given = by_name(group.files)
    missing = []
    for known in entry.files:
        name = storage_path(known.path).name
        file = given[name][0] if name in given else known.path
        if name not in given:
            if not storage_path(file).exists():
                gone = f"{file}, which is in the lake, was not given and is gone"
                return group, f"{gone}; give all files of run {group.run!r}, or remove it from the lake first"
            missing.append(file)
        if not continues(file, known):
            return group, (
                f"run id {group.run!r} is used by different runs: {file} does not continue the one of this name in the "
                "lake; remove the run from the lake first, or use another lake"
            )
    if missing:
        size = sum(storage_path(path).stat().st_size for path in missing)
        group = joined([group, RunFiles(group.run, tuple(missing), size)])
    return group, None


def _is_unchanged(group: RunFiles, entry: RunEntry) -> bool:
    """Return whether all files, which continue known ones, are known and have not grown."""
    known = {storage_path(mark.path).name: mark.bytes for mark in entry.files}
    return all(known.get(storage_path(file).name) == storage_path(file).stat().st_size for file in group.files)
