"""`understudy page`: write the page of a run as one HTML file, which needs no server and no network."""

from __future__ import annotations

import argparse
from pathlib import Path

from understudy.cli.arguments import BadInput, reported_as
from understudy.cli.page_file import write_page
from understudy.page.export import page_of
from understudy.page.recorded.runs import NoSuchRun
from understudy.page.recorded.window import Window

OUTPUT = Path("run.html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="RUN", help="a run folder; or folders or files of event logs"
    )
    parser.add_argument("--run-id", metavar="ID", help="the run to show, if the logs have several")
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT, metavar="FILE", help="write this file")
    parser.add_argument(
        "--from", dest="from_s", type=_seconds, metavar="SECONDS", help="show the run from this time after its start"
    )
    parser.add_argument(
        "--to", dest="to_s", type=_seconds, metavar="SECONDS", help="show the run until this time after its start"
    )


def run(options: argparse.Namespace) -> int:
    window = _window(options)
    with reported_as(BadInput, NoSuchRun):
        print(write_page(options.output, lambda: page_of(options.paths, options.run_id, window), "--output"))
    return 0


def _window(options: argparse.Namespace) -> Window | None:
    if options.from_s is None and options.to_s is None:
        return None
    from_s = options.from_s or 0.0
    if options.to_s is not None and options.to_s <= from_s:
        raise BadInput(f"--to {options.to_s:g} is not after --from {from_s:g}")
    return Window(round(from_s * 1e6), None if options.to_s is None else round(options.to_s * 1e6))


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0")
    return seconds
