"""`understudy lake`: list the versions of a lake, go back to one, or delete the files of old ones.

    understudy lake history LAKE
    understudy lake restore LAKE 12
    understudy lake vacuum LAKE --keep 0

A lake is a folder of Delta tables, which `understudy ingest` writes. Each change is a version. The files that a change
has replaced are kept for an hour; from then on a later ingest deletes them, or `vacuum`.
"""

from __future__ import annotations

import argparse

from understudy.cli.arguments import count, path_or_url
from understudy.cli.command_parser import PreformattedHelp
from understudy.extras import require


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = PreformattedHelp
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", title="actions")
    history = actions.add_parser(
        "history",
        help="list the changes, newest first",
        description="List the changes of a lake, newest first: the version, when, and what was changed.",
    )
    history.add_argument("lake", type=path_or_url, metavar="LAKE", help="the lake: a folder or a URL")
    history.add_argument("--limit", type=count, default=20, metavar="N", help="how many (default %(default)s)")
    restore = actions.add_parser(
        "restore",
        help="go back to a version",
        description="Give a lake the runs and rows of an earlier version, as a new version.",
    )
    restore.add_argument("lake", type=path_or_url, metavar="LAKE", help="the lake: a folder or a URL")
    restore.add_argument("version", type=_version, metavar="VERSION", help="a version, as `history` lists them")
    vacuum = actions.add_parser(
        "vacuum",
        help="delete the files of old versions",
        description="Delete the files that no version of the last hours has, and files that killed writers have left. "
        "Versions that lose files can no longer be read or restored.",
    )
    vacuum.add_argument("lake", type=path_or_url, metavar="LAKE", help="the lake: a folder or a URL")
    vacuum.add_argument(
        "--keep", type=_hours, default=1, metavar="HOURS", help="keep the files of this time (default %(default)s)"
    )


def run(options: argparse.Namespace) -> int:
    require("spark", "pyarrow", "deltalake")
    from understudy.cli.analysis.lake import act  # noqa: PLC0415  the extra `spark`

    act(options)
    return 0


def _version(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a version; `understudy lake history` has them")
    return int(text)


def _hours(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of hours")
    return int(text)
