"""`understudy status`: show the controller, the brokers, and the partitions that are not as they should be."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy.cli.arguments import Failed, reported_as, zookeeper_connect
from understudy.clusters.processes.cluster_summary import summary
from understudy.clusters.processes.cluster_view import NO_ANSWER, ClusterView
from understudy.clusters.processes.run_folder import NotARunFolder, read_cluster_file

SHOWN_PARTITIONS = 20
"""Number of partitions printed for each kind of finding; the JSON has all of them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, nargs="?", metavar="RUN", help="the run folder that `understudy up` named")
    parser.add_argument(
        "--zookeeper", type=zookeeper_connect, metavar="CONNECT", help="read from this ZooKeeper instead"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


@reported_as(Failed, NotARunFolder, *NO_ANSWER)
def run(options: argparse.Namespace) -> int:
    if (options.folder is None) == (options.zookeeper is None):
        options.usage_error("give either the run folder that `understudy up` named, or --zookeeper CONNECT")
    cluster = read_cluster_file(options.folder) if options.folder is not None else None
    if cluster is not None and not cluster.owner.is_running:
        again = f"understudy up --dir {shlex.quote(str(options.folder))}"
        raise Failed(f"the cluster of {options.folder} has ended; `{again}` starts it again")
    with ClusterView(cluster.zookeeper if cluster else options.zookeeper) as view:
        picture = view.picture()
    found = summary(picture, cluster)
    print(json.dumps(found, indent=2) if options.json else "\n".join(describe(found)))
    return 0


def describe(found: dict[str, Any]) -> list[str]:
    """Return the lines that are printed for the content of the JSON."""
    return [*_controller_lines(found), *_broker_lines(found), *_partition_lines(found)]


def _controller_lines(found: dict[str, Any]) -> list[str]:
    if found["controller"] is None:
        return [f"controller   none; the last epoch was {found['controller_epoch']}"]
    return [f"controller   broker {found['controller']}, epoch {found['controller_epoch']}"]


def _broker_lines(found: dict[str, Any]) -> list[str]:
    lines = []
    for broker in found["brokers"]:
        notes = [
            broker["address"] or "not registered",
            f"rack {broker['rack']}" if broker["rack"] else "",
            f"broker epoch {broker['broker_epoch']}" if broker["registered"] else "",
            f"pid {broker['pid']}" if broker["pid"] else "",
            # The normal state, registered and running, is not mentioned.
            f"process {broker['process']}" if broker["process"] not in (None, "running") else "",
            "controller" if broker["id"] == found["controller"] else "",
        ]
        lines.append(f"broker {broker['id']:<6}" + ", ".join(filter(None, notes)))
    return lines


def _partition_lines(found: dict[str, Any]) -> list[str]:
    kinds = {
        "leaderless": "without a leader",
        "under_replicated": "under-replicated",
        "not_preferred": "not on preferred leader",
    }
    counts = ", ".join(f"{len(found[kind])} {words}" for kind, words in kinds.items() if found[kind])
    lines = [f"partitions   {found['partitions']}, {counts or 'all well'}"]
    for kind, words in kinds.items():
        shown: Sequence[dict[str, Any]] = found[kind][:SHOWN_PARTITIONS]
        lines += [f"  {words}: {_partition_line(partition)}" for partition in shown]
        if len(found[kind]) > len(shown):
            lines.append(f"  {words}: and {len(found[kind]) - len(shown)} more; --json shows all")
    return lines


def _partition_line(partition: dict[str, Any]) -> str:
    leader = "none" if partition["leader"] in (None, -1) else partition["leader"]
    replicas, isr = (",".join(map(str, partition[key])) for key in ("replicas", "isr"))
    return f"{partition['topic']}-{partition['partition']}  leader {leader}  replicas {replicas}  isr {isr}"
