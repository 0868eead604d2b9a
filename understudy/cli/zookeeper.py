"""`understudy zookeeper`: run Apache ZooKeeper 3.9 in the foreground, as the compose file does."""

from __future__ import annotations

import argparse
from pathlib import Path

from understudy.cli.arguments import Failed, add_java_home, count, port, reported_as
from understudy.cli.interruptions import interruptible
from understudy.clusters.java import JavaNotFound, choose_java
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.processes import ProcessDied
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted

DEFAULT_PORT = 2181
_CHECK_INTERVAL_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port", type=port, default=DEFAULT_PORT, metavar="PORT", help="client port; 0 for any free one"
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="HOST", help="address to bind; 0.0.0.0 for all")
    parser.add_argument("--dir", type=Path, required=True, metavar="DIR", help="the folder of its data and its log")
    parser.add_argument(
        "--tick-time-ms", type=count, default=200, metavar="MS", help="ZooKeeper's tickTime, the step of session expiry"
    )
    add_java_home(parser)


@reported_as(Failed, JavaNotFound, ZooKeeperNotStarted, ProcessDied, OSError)
def run(options: argparse.Namespace) -> int:
    """Run the server until interrupted. It writes every transaction to disk before it answers (`forceSync`)."""
    server = EmbeddedZooKeeper(
        options.dir,
        port=options.port,
        host=options.host,
        tick_time_ms=options.tick_time_ms,
        force_sync=True,
        java=choose_java(options.java_home),
    )
    with interruptible() as interruption, server:
        print(f"ZooKeeper at {server.connect_string}, data in {server.directory}, {server.java}", flush=True)
        while not interruption.wait(_CHECK_INTERVAL_S):
            server.process.check()
    return 0
