"""Apache Kafka's brokers under our controller: topics, broker failure, controlled shutdown, reassignment, deletion."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.interop.mixed import (
    ALL_BROKERS,
    KAFKAS,
    OURS,
    PATIENCE_S,
    is_whole,
    mixed_cluster,
    restored,
    settle,
)
from tests.interop.steps import create, leaders, whole
from tests.interop.tools import Tools
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster

pytestmark = [pytest.mark.xdist_group("our controller"), pytest.mark.usefixtures("complaints")]


@pytest.fixture(scope="module")
def shared(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with mixed_cluster(kafka, tmp_path_factory.mktemp("ours-leads")) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster) -> LocalCluster:
    return restored(shared, under=OURS)


@pytest.mark.spec("IO-1", "IO-3", "IO-4", "IO-6")
def test_topics_with_replicas_on_all_brokers_have_leaders_and_full_isrs(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "everywhere", "--partitions 8 --replication-factor 3")
    picture = settle(cluster, ALL_BROKERS)
    led_by = {seen.state.leader_and_isr.leader for seen in picture.partitions.values() if seen.state}
    assert led_by == set(ALL_BROKERS)
    described = tools.succeed(f"kafka-topics --bootstrap-server {cluster.bootstrap} --describe --topic everywhere")
    assert len(re.findall(r"^\tTopic: everywhere\t", described, re.MULTILINE)) == 8


@pytest.mark.spec("IO-3", "IO-4")
def test_a_broker_of_kafka_is_killed_and_returns(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "killed", "--replica-assignment 3:4,3:1,1:3,4:3")
    cluster.broker(3).kill()
    cluster.wait_until(lambda: leaders(cluster, "killed") == [4, 1, 1, 4], "the live brokers are leaders")
    settle(cluster, (1, 2, 4))
    cluster.broker(3).start()
    # Broker 4, of Kafka, and ours each send AlterPartitions with broker 3 to our controller. All topics have to be in
    # sync, because the tool elects leaders of all, and fails if a preferred replica is not in sync.
    cluster.wait_until(lambda: is_whole(cluster.view.picture()), "broker 3 is in sync again")
    settle(cluster, ALL_BROKERS)
    tools.succeed(
        f"kafka-leader-election --bootstrap-server {cluster.bootstrap} --election-type preferred --all-topic-partitions"
    )
    assert leaders(cluster, "killed") == [3, 3, 1, 4]


@pytest.mark.spec("IO-5")
def test_a_controlled_shutdown_of_kafkas_broker_under_our_controller(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "stopped", "--replica-assignment 4:3,4:1,1:4")
    cluster.broker(4).stop(PATIENCE_S)
    log = cluster.broker(4).process.log.read_text()
    assert "Controlled shutdown request returned successfully" in log
    assert "Retrying controlled shutdown" not in log
    # Its leaderships moved before it ended, not when its session expired.
    assert leaders(cluster, "stopped") == [3, 1, 1]
    settle(cluster, (1, 2, 3))
    cluster.broker(4).start()
    cluster.wait_until(lambda: whole(cluster.view.picture(), "stopped"), "broker 4 is in sync again")


@pytest.mark.spec("IO-1", "IO-2", "IO-3")
def test_partitions_are_reassigned_to_and_from_brokers_of_kafka(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "moving", "--replica-assignment 1:3,3:4,2:1")
    there = {0: [4, 2], 1: [1, 2], 2: [3, 4]}
    plan = [{"topic": "moving", "partition": partition, "replicas": replicas} for partition, replicas in there.items()]
    (tools.directory / "plan.json").write_text(json.dumps({"version": 1, "partitions": plan}))
    line = f"kafka-reassign-partitions --bootstrap-server {cluster.bootstrap} --reassignment-json-file plan.json"
    assert "Successfully started" in tools.succeed(f"{line} --execute")
    cluster.wait_until(lambda: replicas(cluster, "moving") == list(there.values()), "all partitions have moved")
    settle(cluster, ALL_BROKERS)
    assert tools.succeed(f"{line} --verify --preserve-throttles").count("is completed") == 3
    # StopReplica with deletion makes Kafka's brokers delete the replicas that were moved away.
    folder = cluster.broker(3).process.directory / "data"
    cluster.wait_until(
        lambda: not (folder / "moving-0").exists() and not (folder / "moving-1").exists(),
        "broker 3 has deleted its replicas",
    )
    assert (folder / "moving-2").exists()


@pytest.mark.spec("IO-2", "IO-3")
def test_topics_are_deleted_from_brokers_of_kafka(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "deleted", "--replica-assignment 3:1,4:2,1:4")
    tools.succeed(f"kafka-topics --bootstrap-server {cluster.bootstrap} --delete --topic deleted")
    cluster.wait_until(lambda: not replicas(cluster, "deleted"), "the topic is gone")
    settle(cluster, ALL_BROKERS)
    for broker in KAFKAS:
        folder = cluster.broker(broker).process.directory / "data"
        # Kafka renames the directory at once and deletes it a minute later.
        assert [path for path in folder.glob("deleted-*") if not path.name.endswith("-delete")] == []


def replicas(cluster: LocalCluster, topic: str) -> list[list[int]]:
    """The assigned replicas of the partitions of `topic`, in their order."""
    partitions = cluster.view.picture().partitions
    return [
        list(partitions[partition].assignment.replicas) for partition in sorted(partitions) if partition.topic == topic
    ]
