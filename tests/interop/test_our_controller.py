"""Our controller leads brokers of Apache Kafka, and they notice nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.interop.mixed import (
    EVERYBODY,
    KAFKAS,
    OURS,
    PATIENCE_S,
    all_at_work,
    is_whole,
    mixed_cluster,
    settle,
)
from tests.interop.steps import create, leaders, whole
from tests.interop.tools import Tools
from understudy.testbed.apache_kafka import ApacheKafka
from understudy.testbed.local_cluster import LocalCluster

pytestmark = [pytest.mark.xdist_group("our controller"), pytest.mark.usefixtures("complaints")]


@pytest.fixture(scope="module")
def shared(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with mixed_cluster(kafka, tmp_path_factory.mktemp("ours-leads")) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster) -> LocalCluster:
    return all_at_work(shared, under=OURS)


@pytest.mark.spec("IO-1", "IO-3", "IO-4", "IO-6")
def test_topics_with_replicas_everywhere_are_led_and_replicated(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "everywhere", "--partitions 8 --replication-factor 3")
    picture = settle(cluster, EVERYBODY)
    led_by = {seen.state.leader_and_isr.leader for seen in picture.partitions.values() if seen.state}
    assert led_by == set(EVERYBODY)
    described = tools.succeed(f"kafka-topics --bootstrap-server {cluster.bootstrap} --describe --topic everywhere")
    assert len(re.findall(r"^\tTopic: everywhere\t", described, re.MULTILINE)) == 8


@pytest.mark.spec("IO-3", "IO-4")
def test_a_broker_of_kafkas_dies_and_returns(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "mortal", "--replica-assignment 3:4,3:1,1:3,4:3")
    cluster.broker(3).kill()
    cluster.wait_until(lambda: leaders(cluster, "mortal") == [4, 1, 1, 4], "the survivors lead")
    settle(cluster, (1, 2, 4))
    cluster.broker(3).start()
    # It comes back by AlterPartitions: one that broker 4, a Kafka, asks our controller for, and some of ours.
    # In every topic there is: the tool asks for all of them, and fails where a preferred replica is not in sync.
    cluster.wait_until(lambda: is_whole(cluster.view.picture()), "broker 3 is in sync again")
    settle(cluster, EVERYBODY)
    tools.succeed(
        f"kafka-leader-election --bootstrap-server {cluster.bootstrap} --election-type preferred --all-topic-partitions"
    )
    assert leaders(cluster, "mortal") == [3, 3, 1, 4]


@pytest.mark.spec("IO-5")
def test_a_broker_of_kafkas_shuts_down_in_order(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "orderly", "--replica-assignment 4:3,4:1,1:4")
    cluster.broker(4).stop(PATIENCE_S)
    log = cluster.broker(4).process.log.read_text()
    assert "Controlled shutdown request returned successfully" in log
    assert "Retrying controlled shutdown" not in log
    # Leadership moved before it went, so nobody waited for its session to end.
    assert leaders(cluster, "orderly") == [3, 1, 1]
    settle(cluster, (1, 2, 3))
    cluster.broker(4).start()
    cluster.wait_until(lambda: whole(cluster.view.picture(), "orderly"), "broker 4 is in sync again")


@pytest.mark.spec("IO-1", "IO-2", "IO-3")
def test_partitions_move_to_and_from_brokers_of_kafka(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "moving", "--replica-assignment 1:3,3:4,2:1")
    there = {0: [4, 2], 1: [1, 2], 2: [3, 4]}
    plan = [{"topic": "moving", "partition": partition, "replicas": replicas} for partition, replicas in there.items()]
    (tools.directory / "plan.json").write_text(json.dumps({"version": 1, "partitions": plan}))
    line = f"kafka-reassign-partitions --bootstrap-server {cluster.bootstrap} --reassignment-json-file plan.json"
    assert "Successfully started" in tools.succeed(f"{line} --execute")
    cluster.wait_until(lambda: replicas(cluster, "moving") == list(there.values()), "all partitions have moved")
    settle(cluster, EVERYBODY)
    assert tools.succeed(f"{line} --verify --preserve-throttles").count("is completed") == 3
    # StopReplica with deletion made brokers of Kafka forget what they gave away.
    folder = cluster.broker(3).process.directory / "data"
    cluster.wait_until(
        lambda: not (folder / "moving-0").exists() and not (folder / "moving-1").exists(), "broker 3 forgets"
    )
    assert (folder / "moving-2").exists()


@pytest.mark.spec("IO-2", "IO-3")
def test_topics_are_deleted_from_brokers_of_kafka(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "passing", "--replica-assignment 3:1,4:2,1:4")
    tools.succeed(f"kafka-topics --bootstrap-server {cluster.bootstrap} --delete --topic passing")
    cluster.wait_until(lambda: not replicas(cluster, "passing"), "the topic is gone")
    settle(cluster, EVERYBODY)
    for broker in KAFKAS:
        folder = cluster.broker(broker).process.directory / "data"
        # Kafka renames at once and removes a minute later.
        assert [path for path in folder.glob("passing-*") if not path.name.endswith("-delete")] == []


def replicas(cluster: LocalCluster, topic: str) -> list[list[int]]:
    """Where the partitions of `topic` are to be, in their order."""
    partitions = cluster.view.picture().partitions
    return [
        list(partitions[partition].assignment.replicas) for partition in sorted(partitions) if partition.topic == topic
    ]
