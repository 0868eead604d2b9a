"""`understudy replay --follow`: the page of runs in progress, redrawn as their event logs grow."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from understudy.cli.activity import Activity
from understudy.cli.analysis.ingest import describe
from understudy.cli.arguments import Failed, reported_as
from understudy.cli.interruptions import Interruption, interruptible
from understudy.cli.screen import Screen
from understudy.clusters.java import JavaNotFound
from understudy.history.lake.errors import LakeError
from understudy.history.report.replay import Replay
from understudy.history.report.report import render
from understudy.spark.failures import SparkFailed
from understudy.spark.follow_job import LogStream
from understudy.spark.lake_sink import LakeSink
from understudy.spark.running import spark_running
from understudy.spark.settings import SparkSettings

_STATUS_EVERY_S = 0.5
_PAGES_SHARE = 0.9
"""Maximum share of the time for pages; the rest is for the records that come in."""


@reported_as(Failed, OSError, about="following ended:")
@reported_as(Failed, JavaNotFound, SparkFailed, LakeError)
def follow(options: argparse.Namespace) -> tuple[Replay, bool]:
    """Follow runs until interrupted or idle; return the last page, and whether all runs are in the lake, if any.

    Raises:
        Failed: Spark does not start, a log was deleted, or the lake cannot be written at the end.
    """
    settings = SparkSettings.chosen(master=options.master, memory=options.driver_memory, java_home=options.java_home)
    print(settings.announcement, file=sys.stderr, flush=True)
    engine = f"{settings.engine}, live"
    with contextlib.ExitStack() as stack:
        checkpoint = options.checkpoint or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="understudy-follow-"))
        )
        with Activity(sys.stderr, plain_lines=False) as activity:
            spark = stack.enter_context(spark_running(settings, activity.step))
            # PySpark's own handler, which it sets at its start, would cancel the stream at Ctrl-C.
            interruption = stack.enter_context(interruptible())
            activity.step("starting the stream")
            stream = stack.enter_context(LogStream(spark, options.runs, checkpoint))
        sink = None if options.lake is None else stack.enter_context(LakeSink(spark, options.runs, options.lake))
        with Screen(sys.stdout) as screen:
            for page in _pages(stream, engine, interruption, options.until_idle):
                screen.draw(_rendered(page, options), _status(stream, sink))
        last = stream.finish(engine, whole=options.json)
        return last, sink is None or _finished(sink, options)


def _pages(stream: LogStream, engine: str, interruption: Interruption, until_idle_s: float | None) -> Iterator[Replay]:
    """Yield the newest page again and again, until interrupted or idle."""
    page = stream.replay(engine)
    while not interruption.received:
        if until_idle_s is not None and stream.seconds_without_new > until_idle_s:
            return
        yield page
        if stream.wait(_STATUS_EVERY_S):
            began = time.monotonic()
            page = stream.replay(engine)
            yield page
            took = time.monotonic() - began
            interruption.wait(took * (1 / _PAGES_SHARE - 1))


def _rendered(page: Replay, options: argparse.Namespace) -> str:
    if options.wanted is not None:
        page = dataclasses.replace(page, runs=tuple(run for run in page.runs if run.run in options.wanted))
    return render(page)


def _status(stream: LogStream, sink: LakeSink | None) -> str:
    parts = ["Ctrl-C ends", "reading the event logs" if stream.is_reading else "waiting for event logs"]
    if stream.lines:
        parts[1] = f"{stream.lines:,} lines, the last {stream.seconds_without_new:.0f} s ago"
    if sink is not None and sink.problem:
        parts.append(sink.problem)
    elif sink is not None:
        parts.append(
            "the lake is not written yet" if sink.ingested is None else f"lake version {sink.ingested.version}"
        )
    return " · ".join(parts)


def _finished(sink: LakeSink, options: argparse.Namespace) -> bool:
    """Write the lake for the last time, and return whether all runs are in it."""
    result = sink.finish()
    if result is None:
        return True
    for line in describe(result, options.lake):
        print(line, file=sys.stderr)
    return not result.refused
