"""`understudy topics`, `configs`, …: Kafka's tools, with the flags, output and exit codes of its scripts."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from datetime import datetime

from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.cli.arguments import version
from understudy.foundation.zk.client import ZooKeeper
from understudy.foundation.zk.kazoo_client import KazooZooKeeper
from understudy.kafka_tools.console import Console, Surroundings
from understudy.kafka_tools.tools import TOOLS

# The tools print what Kafka's print of a connection that fails, which is less than kazoo logs.
logging.getLogger("kazoo").addHandler(logging.NullHandler())

SIGNALLED = 128
ZOOKEEPER_TIMEOUT_MS = 30_000
"""The timeout of a session with ZooKeeper, and of its connection, of Kafka's tools."""
_NO_PREFIX = "\0"
"""Prefix that no word has, so that argparse passes every flag to the tool, which parses flags as Kafka does."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.prefix_chars = _NO_PREFIX
    parser.add_argument("words", nargs=argparse.REMAINDER)


def run(options: argparse.Namespace) -> int:
    return asyncio.run(_run(options.verb, options.words))


def _zookeeper(connect: str) -> ZooKeeper:
    return KazooZooKeeper(
        connect,
        session_timeout_ms=ZOOKEEPER_TIMEOUT_MS,
        connection_timeout_ms=ZOOKEEPER_TIMEOUT_MS,
        creates_chroot=False,
    )


async def _run(verb: str, words: Sequence[str]) -> int:
    """Run a tool; SIGINT and SIGTERM cancel it, so that a consumer still leaves its group."""

    def stamp() -> str:
        return f"[{datetime.now():%Y-%m-%d %H:%M:%S,%f}"[:-3] + "]"

    async def read_line() -> bytes | None:
        line = await asyncio.to_thread(sys.stdin.buffer.readline)
        return line.removesuffix(b"\n").removesuffix(b"\r") if line else None

    console = Console(sys.stdout, sys.stderr, stamp)
    surroundings = Surroundings(console, SocketNetwork(), MachineClock(), version(), read_line, _zookeeper)
    loop = asyncio.get_running_loop()
    task = loop.create_task(TOOLS[verb].main(words, surroundings), name=verb)
    ended_by: list[int] = []

    def end(number: int) -> None:
        ended_by.append(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    try:
        code = await task
    except asyncio.CancelledError:
        if not ended_by:
            raise
        code = 0
    # The exit code that a shell shows for a Java process that a signal ended.
    return SIGNALLED + ended_by[0] if ended_by else code
