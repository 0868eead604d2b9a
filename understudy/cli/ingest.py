"""`understudy ingest`: bring event logs into a lake, a folder of Delta tables, or remove runs from it.

Runs that are in the lake already are not changed, except that runs that have grown are replaced. The exit code is 0 if
all runs are in the lake, 1 if one was refused or the lake cannot be written, 2 if there is nothing to ingest, the
folder is no lake, or a run to remove is not in it.
"""

from __future__ import annotations

import argparse

from understudy.cli.arguments import add_spark, path_or_url
from understudy.extras import require


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        type=path_or_url,
        nargs="*",
        metavar="RUN",
        help="a run folder, a folder of runs or events, one file; or a URL",
    )
    parser.add_argument(
        "--lake",
        type=path_or_url,
        required=True,
        metavar="DIR",
        help="the lake, which is made if it is missing; a folder or a URL",
    )
    parser.add_argument(
        "--remove", action="append", default=[], metavar="ID", help="remove this run from the lake; may be repeated"
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "spark", "python"),
        default="auto",
        help="python is this process and needs no Java; auto takes it below 16 MiB of logs",
    )
    add_spark(parser)


def run(options: argparse.Namespace) -> int:
    if bool(options.runs) == bool(options.remove):
        options.usage_error("give either RUN folders to ingest, or --remove RUN_ID")
    require("spark", "pyarrow", "deltalake")
    from understudy.cli.analysis.ingest import ingest_runs  # noqa: PLC0415  the extra `spark`

    return ingest_runs(options)
