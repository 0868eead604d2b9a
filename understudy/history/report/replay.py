"""Computes the tables of runs from their event logs; `replay_in_python` is the engine that needs no Java.

A run is measured separately, from all of its files, by every engine and in every process.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple

import msgspec

from understudy.foundation.cluster.grouping import grouped
from understudy.history.metrics.metric_tables import PartitionNumbers, RunMetrics, Table
from understudy.history.metrics.metrics import measure_records
from understudy.history.metrics.row_tables import ROW_TABLES, rows
from understudy.history.reading.findings import LogFinding
from understudy.history.reading.listing import LogListing, list_files
from understudy.history.reading.missing import find_missing
from understudy.history.reading.reader import RunsReading, read_runs
from understudy.history.reading.run_records import RunRecords
from understudy.history.report.runs import FoundLogs, RunFiles, joined, logs_in
from understudy.history.storage.paths import StoragePath, storage_path

WORST_PARTITIONS = 5
"""Maximum number of partitions of a run that a page shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The metrics of all runs in some event logs: the result of every engine.

    Attributes:
        runs: the metrics of each run, sorted by its id.
        findings: damage to the logs, sorted by file and line.
        lines: the number of lines, readable or not.
        engine: the name and version of the engine that computed the metrics.
    """

    runs: tuple[RunMetrics, ...]
    findings: tuple[LogFinding, ...]
    lines: int
    engine: str


class Measured(msgspec.Struct, frozen=True):
    """The tables of the files of a run, and the damage to the files.

    Attributes:
        group: the files.
        runs: the tables of each run that the files have records of: one, unless logs are mixed or unreadable.
        findings: damage to the files.
        lines: the number of lines, readable or not.
    """

    group: RunFiles
    runs: tuple[RunMetrics, ...]
    findings: tuple[LogFinding, ...]
    lines: int


# ------------------------------------------------------------------ all runs


def replay_in_python(paths: Sequence[StoragePath]) -> Replay:
    """Compute the metrics of all runs in the logs at or below `paths`, in this process and its memory."""
    return replay_files(list_files(paths))


def replay_files(found: LogListing) -> Replay:
    """Compute the metrics of all runs in some event-log files, in this process and its memory."""
    logs = logs_in(found)
    return replay_of(measure_groups(logs.groups, lambda groups: list(map(measure_files, groups))), logs, "plain Python")


def replay_of(results: Iterable[Measured], logs: FoundLogs, engine: str) -> Replay:
    """Combine the results of all groups; findings name files as `logs` does."""
    results = list(results)
    damage = [finding for result in results for finding in result.findings]
    given = logs.listing.as_given({finding.file for finding in damage})
    found = [msgspec.structs.replace(finding, file=given[finding.file]) for finding in damage]
    return Replay(
        runs=tuple(sorted((metrics for result in results for metrics in result.runs), key=lambda run: run.run)),
        findings=tuple(sorted([*logs.findings, *found])),
        lines=sum(result.lines for result in results),
        engine=engine,
    )


class RunsOfFiles(NamedTuple):
    """Some files, and the ids of the runs that they have records of."""

    group: RunFiles
    runs: tuple[str, ...]


def measure_groups(
    groups: Sequence[RunFiles], measure: Callable[[Sequence[RunFiles]], list[Measured]]
) -> list[Measured]:
    """Measure groups of files; join groups that have records of the same run, and measure them again."""
    results = measure(groups)
    again = groups_to_join(RunsOfFiles(result.group, tuple(run.run for run in result.runs)) for result in results)
    return [*without(results, again), *measure(again)] if again else results


def groups_to_join(found: Iterable[RunsOfFiles]) -> list[RunFiles]:
    """Return joined groups for runs with records in several groups, because a file has records of several runs.

    The results of the groups that were joined are wrong; `without` leaves them out.
    """
    holders = grouped((run, files.group) for files in found for run in files.runs)
    parts: list[set[RunFiles]] = []
    for groups in holders.values():
        if len(groups) > 1:
            touching = [part for part in parts if part & set(groups)]
            parts = [part for part in parts if part not in touching]
            parts.append(set(groups).union(*touching))
    return [joined(sorted(part)) for part in parts]


def without(results: Iterable[Measured], replaced: Iterable[RunFiles]) -> list[Measured]:
    """Return the results except for groups that were joined into one of `replaced`."""
    files = {file for group in replaced for file in group.files}
    return [result for result in results if not files.intersection(result.group.files)]


# ------------------------------------------------------------------ one run


def measure_files(group: RunFiles) -> Measured:
    """Compute the tables of the run in some files."""
    measured, _ = read_and_measure(group)
    return measured


def read_and_measure(group: RunFiles) -> tuple[Measured, dict[str, RunRecords]]:
    """Compute the tables of the run in some files; return them, and the records of each run for `row_tables.rows`."""
    files = list(map(storage_path, group.files))
    with without_garbage_collection():
        try:
            return _measured(group, read_runs(files))
        except (msgspec.MsgspecError, OSError):  # a large payload that is damaged, or gone since
            return _measured(group, read_runs(files, keeps_large=True))


def _measured(group: RunFiles, reading: RunsReading) -> tuple[Measured, dict[str, RunRecords]]:
    runs = tuple(measure_records(run, records) for run, records in reading.runs.items())
    return Measured(group, runs, reading.findings, reading.lines), reading.runs


def row_table_rows(group: RunFiles) -> Iterator[tuple[str, str, list[Table]]]:
    """Yield, for each run in some files and each of `ROW_TABLES`, the table's name, the run and its rows."""
    with without_garbage_collection():
        _, records = read_and_measure(group)
        for run, found in records.items():
            missing = find_missing(found)
            for name in ROW_TABLES:
                yield name, run, list(rows(name, found, missing))


def for_page(result: Measured) -> Measured:
    """Return the result with no more partitions than a page shows; the totals still count all of them."""
    return msgspec.structs.replace(result, runs=tuple(map(run_for_page, result.runs)))


def run_for_page(metrics: RunMetrics) -> RunMetrics:
    """Return the tables of a run with no more partitions than a page shows."""
    return msgspec.structs.replace(metrics, partitions=worst_partitions(metrics.partitions))


def worst_partitions(rows: Iterable[PartitionNumbers], most: int = WORST_PARTITIONS) -> tuple[PartitionNumbers, ...]:
    """Return the partitions that were without a leader the longest, the worst first."""
    leaderless = (row for row in rows if row.leaderless_ms)
    return tuple(nsmallest(most, leaderless, key=lambda row: (-row.leaderless_ms, row.topic, row.partition)))


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Keep the garbage collector from searching millions of records that are in no cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
