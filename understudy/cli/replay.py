"""`understudy replay`: compute metrics from the event logs of one run or many, and print them as a page.

A run is measured in Python; Spark does that for whole runs side by side, and writes their tables. With --engine python
one run is measured after the other, by the same code.

With --follow the page is shown while the logs grow, for a cluster that runs.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import msgspec

from understudy.cli.arguments import BadInput, Failed, accept_old_words, add_spark, path_or_url, reported_as, seconds
from understudy.extras import require
from understudy.history.lake.errors import LakeError
from understudy.history.lake.layout import is_lake
from understudy.history.reading.findings import LogFinding
from understudy.history.reading.listing import list_files, special_file
from understudy.history.report.html_page import html_page
from understudy.history.report.replay import Replay, replay_files, run_for_page
from understudy.history.report.report import render

JSON_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        type=path_or_url,
        nargs="+",
        metavar="RUN",
        help="a run folder, a folder of events, one file, or a lake; or a URL",
    )
    parser.add_argument(
        "--run", action="append", metavar="ID", dest="wanted", help="only the run with this id; may be repeated"
    )
    folder = parser.add_argument(
        "--dir", type=path_or_url, metavar="DIR", help="write the tables into this folder, as Parquet"
    )
    accept_old_words(parser, folder, "--output")
    parser.add_argument("--json", action="store_true", help="print all tables as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with pictures; it needs no network")
    parser.add_argument(
        "--engine", choices=("spark", "python"), default="spark", help="python needs no Java, and is for small logs"
    )
    add_spark(parser)
    _add_following(parser)


def _add_following(parser: argparse.ArgumentParser) -> None:
    following = parser.add_argument_group("following runs in progress")
    following.add_argument(
        "--follow", action="store_true", help="show the page while the logs grow; Ctrl-C ends, and prints the last page"
    )
    following.add_argument(
        "--until-idle", type=seconds, metavar="SECONDS", help="end after this time without a new line"
    )
    lake = following.add_argument(
        "--lake", type=path_or_url, metavar="DIR", help="write the runs into this lake while they grow, and at the end"
    )
    accept_old_words(parser, lake, "--sink")
    following.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help="where Spark notes what it has read, to continue there later (default a temporary folder)",
    )


def run(options: argparse.Namespace) -> int:
    """Print the page or the tables. Raises `BadInput` if there is no record."""
    _check(options)
    if options.follow:
        require("spark", "pyarrow")
        from understudy.cli.analysis.follow import follow  # noqa: PLC0415  the extra `spark`

        last, is_stored = follow(options)
        _print(last, options)
        return 0 if is_stored else 1
    if any(is_lake(path) for path in options.runs):
        _from_lake(options)
        return 0
    found = list_files(options.runs)
    if not found.names:
        # Before Spark has started, which takes seconds.
        raise _no_record(found.findings)
    if options.engine == "python":
        if options.dir is not None:
            raise Failed("only Spark can write --dir; leave --engine python out")
        _print(replay_files(found), options)
    else:
        from understudy.cli.analysis.replay import replay_in_spark  # noqa: PLC0415  the extra `spark`

        replay_in_spark(options, found, lambda result: _print(result, options))
    return 0


def _no_record(findings: Sequence[LogFinding]) -> BadInput:
    problems = "\n".join(f"  {finding}" for finding in findings[:10])
    return BadInput(
        f"there is no record to replay; expected event-log files (*.jsonl) in the given folders\n{problems}"
    )


def _check(options: argparse.Namespace) -> None:
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
        if what := special_file(path):
            raise BadInput(f"{path} is {what}; expected the folder of a run, which may still be empty")


@reported_as(Failed, LakeError)
def _from_lake(options: argparse.Namespace) -> None:
    """Print the page of a lake, whose tables were computed when its runs were ingested."""
    require("spark", "pyarrow", "deltalake")
    from understudy.history.lake.lake import Lake  # noqa: PLC0415  the extra `spark`

    if len(options.runs) > 1:
        raise BadInput("a lake is replayed alone; ingest the other runs into it, or leave it out")
    if options.dir is not None:
        raise BadInput(f"{options.runs[0]} holds its tables as Parquet already; leave --dir out")
    lake = Lake(options.runs[0])
    found = lake.run_metrics(options.wanted, incomplete=True)
    runs = tuple(found) if options.json else tuple(map(run_for_page, found))
    replay = Replay(
        runs=tuple(sorted(runs, key=lambda run: run.run)),
        findings=lake.findings(),
        lines=lake.lines,
        engine=f"version {lake.version} of the lake {options.runs[0]}",
    )
    _print(replay, options)


def _print(replay: Replay, options: argparse.Namespace) -> None:
    if options.wanted is not None:
        known = {run.run for run in replay.runs}
        if unknown := sorted(set(options.wanted) - known):
            raise BadInput(f"--run {unknown[0]}: there is no such run; there are {len(known)} others")
        replay = dataclasses.replace(replay, runs=tuple(run for run in replay.runs if run.run in options.wanted))
    if not replay.runs:
        raise _no_record(replay.findings)
    if options.html is not None:
        with reported_as(Failed, OSError, about="--html"):
            options.html.write_text(html_page(replay), encoding="utf-8")
    if options.json:
        page = {"version": JSON_VERSION, "runs": replay.runs, "findings": replay.findings, "lines": replay.lines}
        print(msgspec.json.format(msgspec.json.encode(page), indent=2).decode(), flush=True)
    else:
        written = "" if options.html is None else f"\npage with pictures: {options.html}"
        print(f"{render(replay)}{written}", flush=True)
