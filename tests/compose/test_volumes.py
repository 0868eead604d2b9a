"""Tests of `docker compose down` and `up`: with the volumes the cluster continues, without them a new one starts."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.compose.compose_cluster import BROKERS, ComposeCluster, eventually
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.admin_client import AdminClient
from understudy.foundation.eventlog.records import ControllerElected
from understudy.history.reading.reader import read

pytestmark = [
    pytest.mark.docker,
    pytest.mark.xdist_group("compose"),
    # For a test, the start of its cluster and a first build that downloads Spark, on a machine with much else to do.
    pytest.mark.timeout(1800),
]

TOPICS = {"orders": 6, "payments": 2}


class Described(NamedTuple):
    """The part of Metadata that has to outlive the containers."""

    cluster_id: str | None
    topics: dict[str | None, tuple[object, int]]
    """The topic id and the number of partitions by topic."""


@pytest.fixture
def cluster(image: str, tmp_path: Path) -> Iterator[ComposeCluster]:
    cluster = ComposeCluster(tmp_path, project=f"{image}-{uuid.uuid4().hex[:6]}", image=image)
    try:
        cluster.up_on_free_ports()
        eventually(cluster.is_whole, "three brokers and a controller")
        for topic, partitions in TOPICS.items():
            asyncio.run(admin(cluster).create_topic(topic, partitions=partitions, replication_factor=3))
        eventually(lambda: has_topics(cluster), "the topics have full ISRs")
        yield cluster
    finally:
        cluster.remove()


def test_down_and_up_again_keep_topics_and_cluster_id(cluster: ComposeCluster) -> None:
    before, epoch = described(cluster), cluster.status()["controller_epoch"]
    assert set(before.topics) == set(TOPICS)
    cluster.down()
    assert cluster.compose("ps", "--all", "--quiet") == ""

    cluster.up()
    eventually(lambda: has_topics(cluster), "the topics have full ISRs again")
    assert described(cluster) == before
    assert cluster.status()["controller_epoch"] > epoch
    for broker in BROKERS:
        assert f"cluster.id={before.cluster_id}\n" in cluster.compose(
            "exec", f"broker-{broker}", "cat", META_PROPERTIES
        )
    epochs = elections(cluster.run_folder)
    assert epochs == sorted(set(epochs)), "one run folder holds the logs before and after, and no epoch occurs twice"
    assert epochs[0] == 1
    assert epochs[-1] == cluster.status()["controller_epoch"]
    assert cluster.violations() == ""


def test_up_after_down_with_volumes_starts_a_new_cluster_in_an_empty_run_folder(cluster: ComposeCluster) -> None:
    """`understudy check run/compose` would otherwise find controller epoch 1 twice, and report a violation."""
    before = described(cluster)
    cluster.down(volumes=True)
    cluster.up()
    eventually(cluster.is_whole, "three brokers and a controller")
    after = described(cluster)
    assert after.cluster_id not in (None, before.cluster_id)
    assert after.topics == {}

    [earlier] = cluster.run_folder.parent.glob("compose-before-*")
    for folder in (cluster.run_folder, earlier):
        assert elections(folder)[0] == 1
        assert cluster.violations(folder) == ""


META_PROPERTIES = "/var/lib/understudy/data/meta.properties"


def admin(cluster: ComposeCluster) -> AdminClient:
    return AdminClient(SocketNetwork(), cluster.bootstrap().split(","))


def described(cluster: ComposeCluster) -> Described:
    metadata = asyncio.run(admin(cluster).metadata())
    return Described(
        metadata.cluster_id, {topic.name: (topic.topic_id, len(topic.partitions)) for topic in metadata.topics}
    )


def has_topics(cluster: ComposeCluster) -> bool:
    """The partitions of all topics are in ZooKeeper with full ISRs, and in the metadata of the brokers."""
    partitions = {name: partitions for name, (_, partitions) in described(cluster).topics.items()}
    return cluster.is_whole() and cluster.status()["partitions"] == sum(TOPICS.values()) and partitions == TOPICS


def elections(folder: Path) -> list[int]:
    """The controller epochs of the elections in the event logs below `folder`, in order of wall-clock time."""
    elected = [
        (record.wall_ms, record.data.epoch)
        for record in read([folder]).records
        if isinstance(record.data, ControllerElected)
    ]
    return [epoch for _, epoch in sorted(elected)]
