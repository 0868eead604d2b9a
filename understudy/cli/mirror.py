"""`understudy mirror`: copy topics with their records and their groups' offsets from one cluster to another.

    understudy mirror --from a:9092 --to b:9092 --include 'orders.*' --groups '.*'

A copy has the partitions and the configuration of its topic, and grows with it. Records keep partition, key, value,
timestamp, headers and compression. The progress is kept at the target, so that a mirror that was ended in any way
continues where it was, without copying a record twice. Mirrors MirrorMaker 2.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import sys
from collections.abc import Callable

from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.cli.arguments import Failed, above_zero, count, reported_as, seconds, servers
from understudy.cli.command_parser import PreformattedHelp
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.kafka_tools.errors import ToolError
from understudy.kafka_tools.mirror.errors import MirrorError
from understudy.kafka_tools.mirror.mirror import Mirror, MirrorSettings
from understudy.kafka_tools.mirror.topics import Selection

_MEGABYTE = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = PreformattedHelp
    parser.add_argument(
        "--from", dest="source", type=servers, required=True, metavar="HOST:PORT,…", help="the source cluster"
    )
    parser.add_argument(
        "--to", dest="target", type=servers, required=True, metavar="HOST:PORT,…", help="the target cluster"
    )
    parser.add_argument(
        "--include",
        type=_pattern,
        required=True,
        metavar="REGEX",
        help="copy the topics whose whole name matches; several are joined by commas",
    )
    parser.add_argument("--exclude", type=_pattern, metavar="REGEX", help="leave these topics out")
    parser.add_argument("--prefix", default="", metavar="TEXT", help="begin the names of the copies with this")
    parser.add_argument(
        "--rename",
        type=_rename,
        action="append",
        default=[],
        metavar="REGEX=NAME",
        help=r"another name for copies, for example 'orders\.(.*)=shop.\1'; the first that matches decides",
    )
    parser.add_argument("--groups", type=_pattern, metavar="REGEX", help="translate the offsets of these groups")
    parser.add_argument(
        "--replication-factor",
        type=count,
        metavar="N",
        help="the replicas of copies that are created (default as at the source)",
    )
    parser.add_argument("--once", action="store_true", help="end when all is copied that was there at the beginning")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done, and do nothing")
    parser.add_argument("--max-rate", type=_rate, metavar="MB/S", help="read at most this number of megabytes a second")
    parser.add_argument("--buffer", type=count, default=64, metavar="MB", help="hold no more megabytes of records")
    parser.add_argument(
        "--interval", type=seconds, default=5.0, metavar="SECONDS", help="the time between two lines of progress"
    )
    parser.add_argument(
        "--refresh", type=seconds, default=30.0, metavar="SECONDS", help="the time between two looks for topics"
    )


@reported_as(Failed, MirrorError, NoBrokerAnswers)
def run(options: argparse.Namespace) -> int:
    def report(line: str) -> None:
        print(line, flush=True)

    async def work() -> int:
        mirror = Mirror(SocketNetwork(), MachineClock(), _settings(options), report)
        return await _work(mirror, report, dry_run=options.dry_run)

    try:
        return asyncio.run(work())
    except ToolError as error:
        raise Failed(f"a cluster does not do what it is asked: {error.shown_message}") from None


async def _work(mirror: Mirror, report: Callable[[str], None], *, dry_run: bool) -> int:
    if not dry_run:
        return 0 if await mirror.run() else 1
    async with contextlib.aclosing(mirror):
        topics = await mirror.plan()
    for topic in topics:
        report(topic.in_words)
    if not topics:
        print("no topic matches", file=sys.stderr)
    return 0 if topics else 1


def _settings(options: argparse.Namespace) -> MirrorSettings:
    return MirrorSettings(
        source=options.source,
        target=options.target,
        selection=Selection(options.include, options.exclude, options.prefix, tuple(options.rename)),
        groups=options.groups,
        is_once=options.once,
        replication_factor=options.replication_factor,
        buffer_bytes=options.buffer * _MEGABYTE,
        bytes_per_s=None if options.max_rate is None else options.max_rate * _MEGABYTE,
        report_ms=int(options.interval * 1000),
        refresh_ms=int(options.refresh * 1000),
    )


def _pattern(text: str) -> re.Pattern[str]:
    """Parse a list of topics or groups as Kafka's tools do: a comma is an alternative."""
    try:
        return re.compile(text.strip().replace(",", "|").replace(" ", ""))
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def _rename(text: str) -> tuple[re.Pattern[str], str]:
    pattern, equals, name = text.rpartition("=")
    if not equals or not pattern or not name:
        raise argparse.ArgumentTypeError(rf"{text!r} is not REGEX=NAME, for example 'orders\.(.*)=shop.\1'")
    try:
        compiled = re.compile(pattern)
        re.compile(f"(?:{pattern})|").sub(name, "")
    except (re.error, IndexError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be used: {error}") from None
    return compiled, name


def _rate(text: str) -> float:
    return above_zero(text, "a number of megabytes a second")
