"""Does the work of `understudy compare`: reads the runs, compares them, and prints or writes the pages."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from urllib.parse import quote

from understudy.cli.activity import Activity
from understudy.cli.arguments import BadInput, Failed, reported_as
from understudy.cli.page_file import write_page as write_file
from understudy.cli.progress import Progress
from understudy.clusters.java import JavaNotFound
from understudy.extras import require
from understudy.history.compare.comparison import Comparison, compare
from understudy.history.compare.folders import ObservedFolders, folder_of, observe_folders
from understudy.history.compare.groups import CannotCompare, check_settings, command_in_lake, observe
from understudy.history.compare.html_page import shown_runs, write_page
from understudy.history.compare.json_page import as_json
from understudy.history.compare.text_page import render
from understudy.history.lake.errors import LakeError
from understudy.history.lake.layout import is_lake
from understudy.history.lake.runs_table import Runs
from understudy.history.storage.paths import StoragePath
from understudy.page.export import page_of
from understudy.page.recorded.runs import NoSuchRun

SHOWN_FINDINGS = 5


@reported_as(BadInput, CannotCompare)
def compare_runs(options: argparse.Namespace) -> None:
    """Print the page. Raises `BadInput` if the runs cannot be compared as requested."""
    # Before the logs are read, which may take minutes.
    check_settings(options.by, "--by")
    check_settings(tuple(options.baseline), "--baseline")
    if options.pages and not all(isinstance(path, Path) for path in options.runs):
        raise BadInput("--pages needs runs in folders of this machine; copy them, or leave --pages out")
    if options.pages and any(map(is_lake, options.runs)):
        raise BadInput("--pages needs runs in folders; a lake has their tables only")
    if options.spark is not None:
        comparison, findings = _in_spark(options), 0
    else:
        observed = _in_lake(options) if any(map(is_lake, options.runs)) else _observed(options.runs)
        comparison = compare(observed.runs, options.by, options.baseline, incomplete=options.incomplete)
        findings = len(observed.findings)
    if options.html is not None:
        try:
            write_page(comparison, options.html, _pages(comparison, options) if options.pages else None)
        except OSError as error:
            raise BadInput(f"--html {options.html}: {error.strerror}; give a file that can be written") from None
    if options.json:
        print(as_json(comparison))
        return
    print(render(comparison))
    if findings:
        print(f"\nLogs: {findings} findings; understudy replay of these runs lists them")
    if options.html is not None:
        print(f"\npage with pictures: {options.html}")


def _pages(comparison: Comparison, options: argparse.Namespace) -> dict[str, str]:
    """Write the page of each run that is a dot into a folder beside the HTML; return their addresses."""
    folder = options.html.with_suffix(".pages")
    folder.mkdir(exist_ok=True)
    runs = [run for run, _ in shown_runs(comparison)]
    addresses = {}
    with Progress(None, "pages written") as progress:
        progress.begin(len(runs))
        for place, run in enumerate(runs):
            # Not the id of the run, which may hold signs that a file name cannot.
            file = folder / f"{place}.html"
            with reported_as(Failed, NoSuchRun):
                write_file(file, partial(page_of, [Path(folder_of(run.opened_by))], run.run), "--pages")
            addresses[run.run] = f"{quote(folder.name)}/{file.name}"
            progress.step()
    return addresses


def _in_spark(options: argparse.Namespace) -> Comparison:
    from understudy.spark.compare_job import compare_folder  # noqa: PLC0415  Spark only if it is asked for
    from understudy.spark.failures import SparkFailed  # noqa: PLC0415  Spark only if it is asked for
    from understudy.spark.settings import SparkSettings  # noqa: PLC0415  Spark only if it is asked for

    with reported_as(Failed, JavaNotFound, SparkFailed, LakeError):
        if is_lake(options.runs[0]):
            # A lake that cannot be read is named before Spark has started, which takes seconds.
            Runs(options.runs[0])
        settings = SparkSettings.chosen(master=options.spark, java_home=options.java_home)
        with Activity(sys.stderr, plain_lines=False) as activity:
            return compare_folder(
                options.runs[0],
                options.by,
                options.baseline,
                settings,
                activity.step,
                incomplete=options.incomplete,
            )


@reported_as(Failed, LakeError)
def _in_lake(options: argparse.Namespace) -> ObservedFolders:
    """Observe the runs of a lake, from its tables."""
    require("spark", "pyarrow", "deltalake")
    from understudy.history.lake.lake import Lake  # noqa: PLC0415  pyarrow only for a lake

    if len(options.runs) > 1:
        raise BadInput("a lake is compared alone; ingest the other runs into it, or leave it out")
    (path,) = options.runs
    lake = Lake(path)
    incomplete = lake.incomplete
    runs = [
        observe(metrics, command_in_lake(str(path), metrics.run), incomplete.get(metrics.run, ""))
        for metrics in lake.run_metrics(incomplete=True)
    ]
    return ObservedFolders(tuple(sorted(runs, key=lambda run: run.run)), lake.findings())


def _observed(paths: list[StoragePath]) -> ObservedFolders:
    """Read the runs, with the progress on a terminal."""
    with Progress(None, "runs read") as progress:
        observed = observe_folders(paths, begin=progress.begin, step=progress.step)
    if not observed.runs:
        problems = "\n".join(f"  {finding}" for finding in observed.findings[:SHOWN_FINDINGS])
        raise BadInput(
            f"there is no run to compare; expected event-log files (*.jsonl) in the given folders\n{problems}"
        )
    return observed
