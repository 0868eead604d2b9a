"""`understudy compare`: compare the failovers of runs with different settings.

The runs are grouped by settings. For each group the page has the distribution of every phase of a failover and of the
time without leaders, with confidence intervals; and what changed against a baseline, if that is more than noise.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from understudy.cli.arguments import add_java_home, names, path_or_url, property_assignment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        type=path_or_url,
        nargs="+",
        metavar="RUN",
        help="folders of runs as `sweep` leaves them, or one lake; see also --spark",
    )
    parser.add_argument(
        "--by",
        type=names,
        required=True,
        metavar="SETTING,…",
        help="the settings that make the groups, for example session_timeout_ms,partitions",
    )
    parser.add_argument(
        "--baseline",
        type=_assignments,
        default={},
        metavar="SETTING=VALUE,…",
        help="compare with the groups that have this value, for example session_timeout_ms=6000",
    )
    parser.add_argument("--incomplete", action="store_true", help="also use runs with missing records")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with pictures; it needs no network")
    parser.add_argument(
        "--pages", action="store_true", help="with --html: also write the page of each run that a dot stands for"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--spark",
        metavar="URL",
        help="compute in Spark at this master, such as local[*]; RUN is a lake, or has tables from `replay --dir`",
    )
    add_java_home(parser, "for --spark")


def run(options: argparse.Namespace) -> int:
    if options.spark is not None and len(options.runs) > 1:
        options.usage_error("--spark reads the tables of one folder")
    if options.pages and (options.html is None or options.spark is not None):
        options.usage_error("--pages needs --html, and runs in folders, which --spark does not read")
    from understudy.cli.analysis.compare import compare_runs  # noqa: PLC0415  the extra `spark`

    compare_runs(options)
    return 0


def _assignments(text: str) -> dict[str, str]:
    """Parse `SETTING=VALUE,…`."""
    pairs = [property_assignment(part) for part in text.split(",")]
    if len(dict(pairs)) < len(pairs):
        raise argparse.ArgumentTypeError(f"{text!r} has a setting twice")
    return dict(pairs)
