"""Does the work of `understudy ingest`: brings event logs into a lake, or removes runs from it."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from understudy.cli.activity import Activity
from understudy.cli.arguments import PYTHON_ENGINE, BadInput, Failed, reported_as
from understudy.clusters.java import JavaNotFound
from understudy.history.lake.errors import LakeError, LaterLake, NotALake
from understudy.history.lake.ingest import (
    IN_PROCESS_BYTES,
    Engine,
    Ingested,
    InProcess,
    NothingToIngest,
    groups_in,
    ingest,
    list_logs,
    remove,
    size_of,
)
from understudy.history.lake.layout import is_lake
from understudy.history.lake.writer import UnknownRun, check_is_lake
from understudy.history.storage.paths import StoragePath

if TYPE_CHECKING:
    from understudy.spark.background import SparkInBackground
    from understudy.spark.ingest_job import SparkEngine

SHOWN = 5
"""Maximum number of runs or files of a kind that are printed; the others are counted."""


@reported_as(Failed, LakeError)
@reported_as(BadInput, NothingToIngest, NotALake, LaterLake, UnknownRun)
def ingest_runs(options: argparse.Namespace) -> int:
    """Bring runs into the lake, or remove some; return the exit code. Raises BadInput, Failed."""
    about, hint = f"the lake {options.lake} cannot be written:", "; the same command goes on when it can be"
    with reported_as(Failed, OSError, about=about, hint=hint):
        return _remove(options) if options.remove else _ingest(options)


def _remove(options: argparse.Namespace) -> int:
    version = remove(options.remove, options.lake)
    print(f"removed {len(set(options.remove))} runs; {options.lake} has version {version}")
    return 0


def _ingest(options: argparse.Namespace) -> int:
    check_is_lake(options.lake)
    with Activity(sys.stderr, plain_lines=False) as activity, contextlib.ExitStack() as stack:
        activity.step("listing the event logs")
        logs = list_logs(options.runs)
        spark: SparkInBackground[SparkEngine] | None = None
        if not is_lake(options.lake) and _is_for_spark(options, size_of(logs)):
            # All runs are new: Spark starts while they are looked at.
            spark = stack.enter_context(_spark(options, activity))
            spark.start()

        def open_engine(size: int) -> Engine:
            nonlocal spark
            if not _is_for_spark(options, size):
                return InProcess()
            spark = spark or stack.enter_context(_spark(options, activity))
            return spark.wait(activity.step)

        result = ingest(groups_in(logs), options.lake, open_engine, activity.step)
    for line in describe(result, options.lake):
        print(line)
    return 1 if result.refused else 0


def _is_for_spark(options: argparse.Namespace, size: int) -> bool:
    return options.engine == "spark" or (options.engine == "auto" and size > IN_PROCESS_BYTES)


@contextlib.contextmanager
def _spark(options: argparse.Namespace, activity: Activity) -> Iterator[SparkInBackground[SparkEngine]]:
    """Run Spark from when it is first needed until the block ends."""
    from understudy.spark.background import SparkInBackground  # noqa: PLC0415  Spark only if it is needed
    from understudy.spark.failures import SparkFailed  # noqa: PLC0415  Spark only if it is needed
    from understudy.spark.ingest_job import SparkEngine  # noqa: PLC0415  Spark only if it is needed
    from understudy.spark.settings import SparkSettings  # noqa: PLC0415  Spark only if it is needed

    with reported_as(Failed, JavaNotFound, hint=PYTHON_ENGINE), reported_as(Failed, SparkFailed):
        settings = SparkSettings.chosen(
            master=options.master, memory=options.driver_memory, java_home=options.java_home
        )
        with SparkInBackground(settings, SparkEngine) as spark:
            yield spark
            activity.step("stopping Spark")


def describe(result: Ingested, lake: StoragePath) -> list[str]:
    """Return the lines that are printed."""
    done = f"{len(result.added)} runs added, {len(result.replaced)} replaced, {len(result.unchanged)} unchanged"
    lines = [f"{lake} has version {result.version}: {done}; {result.records:,} records written"]
    lines += _shown([f"skipped {file}: no line in it names a run" for file in result.skipped], "files skipped")
    incomplete = [f"run {run} has missing records: {why}" for run, why in sorted(result.incomplete.items())]
    lines += _shown(incomplete, "runs with missing records")
    return lines + _shown([f"refused run {each.run}: {each.why}" for each in result.refused], "runs refused")


def _shown(lines: list[str], what: str) -> list[str]:
    more = [f"and {len(lines) - SHOWN} more {what}"] if len(lines) > SHOWN else []
    return lines[:SHOWN] + more
