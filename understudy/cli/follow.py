"""`understudy replay --follow`: the page of runs that are still going on, redrawn as their event logs grow."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.cli.activity import Activity
from understudy.cli.arguments import BadInput, Failed, accept_old_words, os_error
from understudy.cli.interruptions import Interruption, interruptible
from understudy.cli.screen import Screen
from understudy.extras import require

if TYPE_CHECKING:
    from understudy.history.report.result import Replay
    from understudy.spark.follow_job import LogStream
    from understudy.spark.lake_sink import LakeSink

_STATUS_EVERY_S = 0.5
_PAGES_SHARE = 0.9
"""At most this share of the time goes into pages; the rest is for the records that come in."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    following = parser.add_argument_group("following runs that are going on")
    following.add_argument(
        "--follow", action="store_true", help="show the page while the logs grow; Ctrl-C ends, and prints the last page"
    )
    following.add_argument(
        "--until-idle", type=_seconds, metavar="SECONDS", help="end when no line has come for so long"
    )
    lake = following.add_argument(
        "--lake", type=Path, metavar="DIR", help="write the runs into this lake while they grow, and at the end"
    )
    accept_old_words(parser, lake, "--sink")
    following.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help="where Spark notes what it has read, to go on there later (default a temporary folder)",
    )


def check(options: argparse.Namespace) -> None:
    """Raise `BadInput` if options do not go together, or a path to follow does not exist."""
    if not options.follow:
        for name in ("until_idle", "lake", "checkpoint"):
            if getattr(options, name) is not None:
                raise BadInput(f"--{name.replace('_', '-')} needs --follow")
        return
    if options.engine == "python":
        raise BadInput("only Spark can --follow; leave --engine python out")
    if options.dir is not None:
        raise BadInput("--dir takes runs that have ended; give --lake DIR with --follow")
    for path in options.runs:
        if not path.exists():
            raise BadInput(f"{path} does not exist; expected the folder of a run, which may still be empty")


def follow(options: argparse.Namespace) -> tuple[Replay, bool]:
    """Follow runs until interrupted or idle; return the last page, and whether all runs are in the lake, if any.

    Raises:
        Failed: Spark does not start, a log was deleted, or the lake cannot be written at the end.
    """
    require("spark", "pyarrow")
    from understudy.clusters.java import JavaNotFound
    from understudy.history.lake.manifest import LakeError
    from understudy.spark.context import SparkFailed
    from understudy.spark.gateway import GatewayFailed

    try:
        return _follow(options)
    except (JavaNotFound, GatewayFailed, SparkFailed, LakeError) as error:
        raise Failed(str(error)) from None
    except OSError as error:
        raise Failed(f"following ended: {os_error(error)}") from None


def _follow(options: argparse.Namespace) -> tuple[Replay, bool]:
    from understudy.clusters.java import choose_java
    from understudy.spark.context import SparkSettings, spark_context
    from understudy.spark.follow_job import LogStream
    from understudy.spark.lake_sink import LakeSink

    java = choose_java(options.java_home)
    print(f"Spark starts with {java}", file=sys.stderr, flush=True)
    settings = SparkSettings.with_class_cache(java, master=options.master, memory=options.driver_memory)
    engine = f"{settings.engine}, live"
    with contextlib.ExitStack() as stack:
        checkpoint = options.checkpoint or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="understudy-follow-"))
        )
        with Activity(sys.stderr, plain_lines=False) as activity:
            context = stack.enter_context(spark_context(settings, activity.step))
            # PySpark's own handler, which it sets as it starts, would cancel the stream at Ctrl-C.
            interruption = stack.enter_context(interruptible())
            activity.step("starting the stream")
            stream = stack.enter_context(LogStream(context, options.runs, checkpoint))
        sink = None if options.lake is None else stack.enter_context(LakeSink(context, options.runs, options.lake))
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
    from understudy.history.report.report import render

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
    from understudy.cli.ingest import describe

    result = sink.finish()
    if result is None:
        return True
    for line in describe(result, options.lake):
        print(line, file=sys.stderr)
    return not result.refused


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds
