"""Spark for `understudy replay`, and the cache of its classes."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable

from understudy.cli.activity import Activity
from understudy.cli.arguments import PYTHON_ENGINE, Failed, reported_as
from understudy.clusters.java import JavaNotFound, JavaRuntime
from understudy.history.reading.listing import LogListing
from understudy.history.report.replay import Replay
from understudy.spark import class_cache, class_cache_making
from understudy.spark.failures import SparkFailed
from understudy.spark.replay_job import ReplayInBackground, TablesExist
from understudy.spark.settings import SparkSettings


@reported_as(Failed, SparkFailed, TablesExist)
@reported_as(Failed, JavaNotFound, hint=PYTHON_ENGINE)
def replay_in_spark(options: argparse.Namespace, found: LogListing, show: Callable[[Replay], None]) -> None:
    """Compute the tables of runs in Spark; show them, and write them to --dir if it is given. Raises Failed."""
    settings = SparkSettings.chosen(master=options.master, memory=options.driver_memory, java_home=options.java_home)
    print(settings.announcement, file=sys.stderr, flush=True)
    with contextlib.ExitStack() as stack:
        with Activity(sys.stderr, plain_lines=False) as activity:
            spark = stack.enter_context(ReplayInBackground(settings))
            result = spark.replay(found, output=options.dir, whole=options.json, progress=activity.step)
        # Stopping Spark takes a second.
        show(result)
    if settings.java is not None:
        _make_class_cache(settings.java)


def _make_class_cache(java: JavaRuntime) -> None:
    """Make the cache with which Spark's next start takes half the time, and wait for it.

    It is made only at a terminal: a script that reads the command's output would have to wait for it.
    """
    if not sys.stderr.isatty() or not class_cache_making.can_be_made(java):
        return
    off = f"{class_cache.VARIABLE}=off turns it off"
    try:
        with Activity(sys.stderr) as activity:
            activity.step(f"making a cache of Spark's classes, once; Ctrl-C ends it, {off}")
            made = class_cache_making.make(java)
    except KeyboardInterrupt:
        print(f"The cache of Spark's classes is not made; {off}", file=sys.stderr)
    except (SparkFailed, OSError) as error:
        print(f"The cache of Spark's classes is not made; {off}: {error}", file=sys.stderr)
    else:
        if made is not None:
            print(f"Spark's next start takes half the time, by a cache of its classes: {made}", file=sys.stderr)
