"""Observes the runs in folders of event logs; the only module of a comparison that computes tables."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from os.path import commonpath
from pathlib import Path
from typing import NamedTuple

from understudy.history.compare.groups import CannotCompare, Observation, observe
from understudy.history.reading.findings import LogFinding
from understudy.history.report.replay import Measured, for_page, measure_files, measure_groups
from understudy.history.report.runs import DIFFERENT_RUNS, RunFiles, find_logs
from understudy.history.storage.paths import StoragePath, storage_path


class ObservedFolders(NamedTuple):
    """The runs in some folders, and the damage to their files."""

    runs: tuple[Observation, ...]
    findings: tuple[LogFinding, ...]
    """Damage to the files, and paths without an event log."""


def observe_folders(
    paths: Sequence[StoragePath], *, begin: Callable[[int], None], step: Callable[[], None]
) -> ObservedFolders:
    """Observe all runs in the event logs at or below `paths`.

    Args:
        begin: called with the number of runs before the first is read.
        step: called after each run.

    Raises:
        CannotCompare: different runs have the same id.
    """
    logs = find_logs(paths)
    conflicts = [finding for finding in logs.findings if finding.kind == DIFFERENT_RUNS]
    if conflicts:
        raise CannotCompare(
            f"run id {conflicts[0].what!r} is used by different runs: {conflicts[0].file} and {conflicts[1].file} "
            "differ; leave one of them out"
        )
    begin(len(logs.groups))

    def measured(groups: Sequence[RunFiles]) -> list[Measured]:
        found = []
        for group in groups:
            found.append(for_page(measure_files(group)))
            step()
        return found

    results = measure_groups(logs.groups, measured)
    runs = [observe(metrics, _command(result.group)) for result in results for metrics in result.runs]
    return ObservedFolders(
        runs=tuple(sorted(runs, key=lambda run: run.run)),
        findings=(*logs.findings, *(finding for result in results for finding in result.findings)),
    )


def _command(group: RunFiles) -> str:
    """Return the command that shows the run in some files. It names the deepest folder that has all of them."""
    folders = [storage_path(file).parent for file in group.files]
    if not all(isinstance(each, Path) for each in folders):
        # The common path of URLs has a slash less after the scheme.
        return f"understudy replay {shlex.quote(commonpath(map(str, folders)).replace(':/', '://', 1))}"
    folder = Path(commonpath(map(str, folders)))
    here = Path.cwd()
    return f"understudy replay {shlex.quote(str(folder.relative_to(here) if folder.is_relative_to(here) else folder))}"


def folder_of(command: str) -> str:
    """Return the folder of the run that a command of an observed folder shows."""
    return shlex.split(command)[-1]
