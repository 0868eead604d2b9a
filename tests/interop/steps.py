"""Creates and inspects topics in tests of mixed clusters."""

from __future__ import annotations

from tests.interop.tools import Tools
from understudy.clusters.findings import findings
from understudy.clusters.picture import ClusterPicture
from understudy.clusters.processes.local_cluster import LocalCluster


def create(tools: Tools, cluster: LocalCluster, topic: str, arguments: str) -> None:
    """Create `topic` with Kafka's tool and wait until all its replicas are in sync."""
    tools.succeed(f"kafka-topics --bootstrap-server {cluster.bootstrap} --create --topic {topic} {arguments}")
    cluster.wait_until(lambda: whole(cluster.view.picture(), topic), f"{topic} has leaders and is in sync")


def whole(picture: ClusterPicture, topic: str) -> bool:
    """Whether `topic` exists, and each of its partitions has a live leader and all its replicas in sync."""
    found = findings(picture)
    lacking = {partition.topic for partition in (*found.leaderless, *found.under_replicated)}
    return topic in {partition.topic for partition in picture.partitions} and topic not in lacking


def leaders(cluster: LocalCluster, topic: str) -> list[int | None]:
    """The leaders of the partitions of `topic`, in their order."""
    partitions = sorted(partition for partition in cluster.view.picture().partitions if partition.topic == topic)
    return [cluster.view.leader(partition) for partition in partitions]
