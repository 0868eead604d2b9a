"""`understudy topics`, `configs`, …: Kafka's tools, with the flags, output and exit codes of its scripts."""

from __future__ import annotations

import argparse
import sys

from understudy.cli.arguments import Verbs, version
from understudy.tools.names import NAMES

_NO_PREFIX = "\0"
"""No word begins with it, so that argparse hands every flag to the tool, which parses flags as Kafka does."""


def register(verbs: Verbs) -> None:
    for name, (script, meaning) in NAMES.items():
        parser = verbs.add_parser(name, help=f"{meaning}, as {script} does", prefix_chars=_NO_PREFIX, add_help=False)
        parser.add_argument("words", nargs=argparse.REMAINDER)
        parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    import asyncio
    import time
    from datetime import datetime

    from brokers.machine.socket_network import SocketNetwork
    from understudy.tools.console import Console, Surroundings
    from understudy.tools.tools import TOOLS

    def stamp() -> str:
        return f"[{datetime.now():%Y-%m-%d %H:%M:%S,%f}"[:-3] + "]"

    console = Console(sys.stdout, sys.stderr, stamp)
    surroundings = Surroundings(console, SocketNetwork(), lambda: int(time.time() * 1000), version())
    return asyncio.run(TOOLS[options.verb].main(options.words, surroundings))
