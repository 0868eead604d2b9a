"""`understudy up`: run a cluster of processes on this machine until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from understudy.cli.arguments import (
    BadInput,
    Failed,
    add_java_home,
    count,
    host_and_any_port,
    names,
    port,
    ports,
    property_assignment,
    reported_as,
    zookeeper_connect,
)
from understudy.cli.health import HEALTH_FILE_VARIABLE
from understudy.cli.interruptions import Interruption, interruptible
from understudy.clusters.cluster import ClusterError
from understudy.clusters.control.http_thread import ANY_PORT
from understudy.clusters.control.server import SHORTEST_TOKEN, TOKEN_VARIABLE, ControlServer, check_exposure
from understudy.clusters.java import JavaNotFound, choose_java
from understudy.clusters.processes.cluster_view import NO_ANSWER, ClusterView
from understudy.clusters.processes.fixed_address import fixed_addresses
from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.run_folder import new_run_id
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted
from understudy.foundation.zk.znodes import MalformedZNode
from understudy.page.served.live import LiveRun
from understudy.page.served.server import PageServer

DEFAULT_BROKERS = 3
DEFAULT_SESSION_TIMEOUT_MS = 6_000
LOG_FORMATS = ("json", "console", "kafka")
RUNS = Path("runs")
SMALL_LOGS = {"log.segment.bytes": str(16 << 20), "log.retention.bytes": str(128 << 20)}
"""Defaults that do not fill the disk of a laptop: Kafka keeps records for a week, however many."""
_READ_INTERVAL_S = 0.5
_ANSWER_TIMEOUT_S = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--brokers", type=count, default=DEFAULT_BROKERS, metavar="N", help="the number of brokers")
    parser.add_argument(
        "--racks", type=names, metavar="A,B,C", help="the brokers' racks, repeated if there are more brokers"
    )
    fixed = parser.add_mutually_exclusive_group()
    fixed.add_argument(
        "--ports", type=ports, metavar="P,Q,R", help="the brokers' ports, kept over restarts (default free ones)"
    )
    fixed.add_argument("--port", type=port, metavar="P", help="the first of as many ports as there are brokers")
    parser.add_argument(
        "--advertised-host",
        metavar="HOST",
        help="with --ports or --port: advertise this host to clients, and listen on every interface, so that everyone "
        "who reaches this machine can read and write all topics (default loopback only)",
    )
    parser.add_argument(
        "--zookeeper",
        type=zookeeper_connect,
        metavar="CONNECT",
        help="use this ZooKeeper, given as in zookeeper.connect (default a new one)",
    )
    parser.add_argument(
        "--zookeepers",
        type=count,
        default=1,
        metavar="N",
        help="the number of servers of the new ZooKeeper; 3 are an ensemble that outlives one of them",
    )
    parser.add_argument(
        "--dir", type=Path, metavar="DIR", help="keep the run folder here (default a new one in ./runs)"
    )
    parser.add_argument(
        "--session-timeout-ms",
        type=count,
        default=DEFAULT_SESSION_TIMEOUT_MS,
        metavar="MS",
        help="the brokers' ZooKeeper session timeout",
    )
    parser.add_argument(
        "--override",
        type=property_assignment,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="add this line to every server.properties; may be repeated",
    )
    parser.add_argument(
        "--log-format", choices=LOG_FORMATS, help="the format of broker.log (default $LOG_FORMAT, else json)"
    )
    add_java_home(parser, "for ZooKeeper")
    parser.add_argument(
        "--proxied",
        action="store_true",
        help="let the traffic of the brokers go through a proxy, which `understudy isolate` and `heal` need",
    )
    parser.add_argument(
        "--control",
        type=host_and_any_port,
        metavar="HOST:PORT",
        help="the address of the control port, which is then printed with its token (default any free port of "
        "loopback); an address that others can reach, such as 0.0.0.0:8099, needs a token of your own",
    )
    parser.add_argument(
        "--control-token",
        metavar="TOKEN",
        help=f"the token of the control port, at least {SHORTEST_TOKEN} characters (default ${TOKEN_VARIABLE}, which "
        "other users of this machine cannot see, else a new one)",
    )
    parser.add_argument("--watch", action="store_true", help="serve the page of the run too, and print its address")


@reported_as(Failed, ClusterError, JavaNotFound, ZooKeeperNotStarted, OSError, *NO_ANSWER)
def run(options: argparse.Namespace) -> int:
    with interruptible() as interruption:
        _run(options, interruption)
    return 0


def _run(options: argparse.Namespace, interruption: Interruption) -> None:
    address = options.control or ANY_PORT
    token = options.control_token or os.environ.get(TOKEN_VARIABLE) or None
    with reported_as(BadInput, ClusterError, about=f"--control {address[0]}:{address[1]}:"):
        check_exposure(address[0], token)
    fixed = range(options.port, options.port + options.brokers) if options.port is not None else options.ports
    with reported_as(BadInput, ClusterError):
        fixed_addresses(range(1, options.brokers + 1), fixed, options.advertised_host)
    if options.log_format is not None:
        os.environ["LOG_FORMAT"] = options.log_format  # which every broker inherits
    run_id = new_run_id()
    cluster = LocalCluster(
        options.brokers,
        run=run_id,
        racks=options.racks,
        ports=fixed,
        advertised_host=options.advertised_host,
        zookeeper=options.zookeeper,
        zookeepers=options.zookeepers,
        directory=options.dir or RUNS / run_id,
        session_timeout_ms=options.session_timeout_ms,
        properties={**SMALL_LOGS, **dict(options.override)},
        java=choose_java(options.java_home),
        proxied=options.proxied,
    )
    # If the block is left before `stop` has returned, for example by a second Ctrl-C, remaining processes are killed.
    with cluster, contextlib.ExitStack() as stack:
        controller = cluster.controller()
        page = None
        if options.watch:
            page = stack.enter_context(PageServer(LiveRun(cluster.directory, run_id), folder=cluster.directory))
        with ControlServer(cluster, address, token=token, report=partial(print, flush=True)) as server:
            lines = introduction(cluster, controller, retention(dict(options.override)))
            if options.control is not None:
                shown = "(your own)" if token else server.entry.token
                lines[4:4] = [f"control     http://{server.entry.address}/docs", f"token       {shown}"]
            if page is not None:
                lines.insert(lines.index(""), f"page        {page.url}")
            print("\n".join(lines), flush=True)
            if health_file := os.environ.get(HEALTH_FILE_VARIABLE):
                Path(health_file).touch()
            _print_changes(cluster, ClusterState(controller.id, frozenset(cluster.broker_ids)), interruption)
            print("stopping in order; Ctrl-C again to kill", file=sys.stderr, flush=True)
        cluster.stop()
        if page is not None:
            page.finish()


def retention(overrides: Mapping[str, str]) -> str:
    """Return how much of each partition is kept, for the first lines."""
    size = int({**SMALL_LOGS, **overrides}["log.retention.bytes"])
    if size < 0:
        return "records are kept for their time, however many"
    return f"the newest {size / (1 << 20):g} MiB of each partition (--override log.retention.bytes=-1 for all)"


def introduction(cluster: LocalCluster, controller: LocalBroker, kept: str) -> list[str]:
    """Return the lines that are printed when the cluster has started: its addresses, and commands to try."""
    assert controller.process.process is not None
    folder = shlex.quote(str(cluster.directory))
    return [
        f"bootstrap   {cluster.bootstrap}",
        f"zookeeper   {cluster.zookeeper_connect}",
        f"run folder  {cluster.directory}",
        f"retention   {kept}",
        f"controller  broker {controller.id}, pid {controller.process.process.pid}",
        "",
        "Try, in another terminal:",
        f"  understudy status {folder}",
        f"  understudy kill {folder} controller        # watch another broker take over here",
        f"  kafka-topics.sh --bootstrap-server {cluster.bootstrap.partition(',')[0]} --create --topic t --partitions 6",
        "Ctrl-C stops everything.",
    ]


def _print_changes(cluster: LocalCluster, before: ClusterState, interruption: Interruption) -> None:
    """Print each change of the controller and of the registered brokers, until interrupted."""
    with ClusterView(cluster.zookeeper_connect, answer_timeout_s=_ANSWER_TIMEOUT_S) as view:
        while not interruption.wait(_READ_INTERVAL_S):
            try:
                now = ClusterState(view.controller_id(), frozenset(view.brokers()))
            except MalformedZNode as malformed:
                now = before._replace(trouble=str(malformed))
            except NO_ANSWER:
                now = before._replace(trouble="ZooKeeper does not answer")
            for line in changes(before, now):
                print(line, flush=True)
            before = now if now.controller is not None else now._replace(controller=before.controller)


class ClusterState(NamedTuple):
    """The last state that `up` has read from ZooKeeper."""

    controller: int | None
    """The controller, or the last one while there is none."""
    brokers: frozenset[int]
    """The registered brokers."""
    trouble: str = ""
    """Why ZooKeeper cannot be read now; empty if it can."""


def changes(before: ClusterState, now: ClusterState) -> list[str]:
    """Return a line for each difference between two states."""
    lines = [f"broker {broker} is gone from ZooKeeper" for broker in sorted(before.brokers - now.brokers)]
    lines += [f"broker {broker} has registered" for broker in sorted(now.brokers - before.brokers)]
    if now.controller not in (None, before.controller):
        lines.append(f"broker {now.controller} is controller now")
    if now.trouble != before.trouble:
        lines.append(now.trouble or "ZooKeeper answers again")
    return lines
