"""Unknown and mismatched topic ids: a controller at 2.8-IV0, a topic znode rewritten by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from understudy.foundation.eventlog.records import RequestSent, ResponseReceived
from understudy.foundation.zk.client import SetData, ZNodeData
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds.judgement import judge

ORDERS = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
OTHER_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAQ")


def cluster_of(*versions: str) -> SimulatedCluster:
    """Broker 1 starts first and is the first controller."""
    cluster = SimulatedCluster(
        3, brokers=len(versions), own_settings=[{"inter.broker.protocol.version": version} for version in versions]
    )
    cluster.broker(1).launch()
    cluster.run_for(1_000)
    cluster.start()
    assert cluster.controller_id() == 1
    return cluster


def znode(cluster: SimulatedCluster, topic: str) -> dict[str, Any]:
    node = cluster.zookeeper.tree.get(f"/brokers/topics/{topic}")
    assert isinstance(node, ZNodeData)
    decoded: dict[str, Any] = json.loads(node.data)
    return decoded


def ids_on_brokers(cluster: SimulatedCluster, topic: str) -> set[TopicId]:
    """The ids of the topic in the metadata and the replicas of all brokers."""
    found: set[TopicId] = set()
    for broker in cluster.brokers:
        assert broker.instance is not None
        found.add(broker.instance.metadata.snapshot.topic_id(topic))
        found |= {each.topic_id for partition, each in broker.instance.hosted.items() if partition.topic == topic}
    return found


def requests_sent(cluster: SimulatedCluster, broker: int) -> set[tuple[str, int]]:
    records = (decode_record(line) for line in cluster.log_lines)
    return {
        (record.data.api, record.data.api_version)
        for record in records
        if record.node == f"broker-{broker}" and isinstance(record.data, RequestSent)
    }


def refusals_of_ids(cluster: SimulatedCluster) -> Counter[str]:
    """How often replicas of a partition answered INCONSISTENT_TOPIC_ID to a controller's request, by partition."""
    records = (decode_record(line).data for line in cluster.log_lines)
    return Counter(
        f"{refused.topic}-{refused.partition}"
        for record in records
        if isinstance(record, ResponseReceived)
        for refused in record.refused
        if refused.error == "INCONSISTENT_TOPIC_ID"
    )


def restart_late(cluster: SimulatedCluster, broker: int) -> None:
    cluster.broker(broker).kill()
    cluster.run_for(10_000)
    cluster.broker(broker).begin_start()
    cluster.settle()


# ------------------------------------------------------------------ 2.8-IV0


@pytest.mark.spec("TC-6", "RB-9", "IO-3")
def test_a_controller_at_2_8_iv0_gives_topics_an_id_that_its_requests_do_not_contain() -> None:
    """Topics have ids since 2.8-IV0, requests contain them since 2.8-IV1."""
    with cluster_of("2.8-IV0", "2.8-IV0", "2.8-IV0") as cluster:
        cluster.create_topic("orders", assignment=ORDERS)
        cluster.settle()
        given = znode(cluster, "orders")["topic_id"]
        assert ids_on_brokers(cluster, "orders") == {NO_TOPIC_ID}
        assert requests_sent(cluster, 1) == {("LeaderAndIsr", 4), ("UpdateMetadata", 6)}
        restart_late(cluster, 1)
        assert cluster.controller_id() != 1
        cluster.run_for(10_000)
        cluster.settle()
        moved = cluster.ask(cluster.admin.alter_partition_reassignments({TopicPartition("orders", 0): [3, 2]}))
        assert moved == {TopicPartition("orders", 0): None}
        cluster.run_for(3_000)
        cluster.settle()
        assert znode(cluster, "orders")["topic_id"] == given
        cluster.ask(cluster.admin.delete_topics("orders"))
        cluster.settle()
        assert cluster.znodes.topics() == {}
    assert judge(cluster).problems == ()


@pytest.mark.spec("TC-6", "IS-4", "FO-9")
@pytest.mark.parametrize("others", [("3.9", "3.9"), ("2.7", "3.9"), ("2.8-IV1", "2.7")])
def test_controllers_at_2_8_iv0_and_at_other_versions_replace_each_other(others: Sequence[str]) -> None:
    """Each controller in turn creates a topic; in the end every ISR is full and every topic can be deleted."""
    versions = ("2.8-IV0", *others)
    with cluster_of(*versions) as cluster:
        controllers: list[int] = []
        for number in range(len(versions)):
            controller = cluster.controller_id()
            assert controller is not None
            controllers.append(controller)
            cluster.create_topic(f"topic-{number}", assignment=ORDERS)
            cluster.settle()
            has_ids = versions[controller - 1] != "2.7"
            assert ("topic_id" in znode(cluster, f"topic-{number}")) is has_ids
            restart_late(cluster, controller)
            cluster.run_for(5_000)
            cluster.settle()
        assert len(set(controllers)) > 1
        for partition, state in cluster.znodes.states().items():
            assert state is not None
            assert sorted(state.isr) == [1, 2, 3], partition
        cluster.ask(cluster.admin.delete_topics("topic-0"))
        cluster.settle()
        assert "topic-0" not in cluster.znodes.topics()
    assert judge(cluster).problems == ()


@pytest.mark.spec("IS-2", "IS-4")
def test_leaders_at_3_9_expand_their_isr_under_a_controller_at_2_8_iv0() -> None:
    with cluster_of("2.8-IV0", "3.9", "3.9") as cluster:
        cluster.create_topic("orders", assignment={0: [2, 3], 1: [3, 2]})
        cluster.settle()
        restart_late(cluster, 3)
        assert cluster.controller_id() == 1
        assert ids_on_brokers(cluster, "orders") == {NO_TOPIC_ID}
        assert sorted(cluster.isr("orders", 0)) == sorted(cluster.isr("orders", 1)) == [2, 3]
    assert judge(cluster).problems == ()


# ------------------------------------------------------------------ another id in the znode


def write_other_id(cluster: SimulatedCluster, topic: str) -> TopicId:
    """Write the topic's znode with another id, as a restore from a backup might; return the id it had."""
    own = TopicId(znode(cluster, topic)["topic_id"])
    write_id(cluster, topic, OTHER_ID)
    return own


def write_id(cluster: SimulatedCluster, topic: str, topic_id: TopicId) -> None:
    data = json.dumps({**znode(cluster, topic), "topic_id": topic_id}).encode()
    assert cluster.zookeeper.operate([SetData(f"/brokers/topics/{topic}", data)])
    cluster.run_for(1_000)


@pytest.mark.spec("BK-6", "FO-9")
def test_replicas_refuse_another_id_in_the_topics_znode_also_after_a_restart() -> None:
    """The next controller reads the id, and every replica answers INCONSISTENT_TOPIC_ID: its records may belong to
    another topic. After a restart it has the id from `partition.metadata`. As in Kafka, the operator writes the old id
    back."""
    with cluster_of("3.9", "3.9", "3.9") as cluster:
        cluster.create_topic("orders", assignment=ORDERS)
        cluster.create_topic("payments", assignment=ORDERS)
        cluster.settle()
        own = write_other_id(cluster, "orders")
        assert ids_on_brokers(cluster, "orders") == {own}, (
            "the controller that created the topic keeps the id in its context"
        )
        states = cluster.znodes.states()
        cluster.depose()
        cluster.run_for(2_000)
        assert refusals_of_ids(cluster) == {"orders-0": 3, "orders-1": 3, "orders-2": 3}
        assert cluster.znodes.states() == states
        assert not cluster.exits
        for number in cluster.broker_ids:
            cluster.broker(number).bounce(10_000)
            cluster.run_for(20_000)
        refused = refusals_of_ids(cluster)
        assert all(refused[f"orders-{number}"] > 3 for number in ORDERS), refused
        write_id(cluster, "orders", own)
        cluster.depose()
        cluster.run_for(2_000)
        cluster.settle()
        assert ids_on_brokers(cluster, "orders") == {own}
        for topic in ("orders", "payments"):
            assert [sorted(cluster.isr(topic, number)) for number in ORDERS] == [[1, 2, 3]] * 3
        cluster.ask(cluster.admin.delete_topics("orders"))
        cluster.settle()
        assert list(cluster.znodes.topics()) == ["payments"]
    assert judge(cluster).problems == ()


@pytest.mark.spec("BUG-15", "BK-6")
def test_a_log_that_a_reassignment_left_behind_keeps_a_new_topic_of_that_name_from_its_broker() -> None:
    """The broker was down while its replica was moved away and the topic deleted; it refuses the topic made again."""
    with cluster_of("3.9", "3.9", "3.9") as cluster:
        cluster.create_topic("orders", assignment={0: [1, 2]})
        cluster.settle()
        cluster.broker(2).kill()
        cluster.run_for(10_000)
        moved = cluster.ask(cluster.admin.alter_partition_reassignments({TopicPartition("orders", 0): [1, 3]}))
        assert moved == {TopicPartition("orders", 0): None}
        cluster.run_for(3_000)
        cluster.ask(cluster.admin.delete_topics("orders"))
        cluster.run_for(3_000)
        assert cluster.znodes.topics() == {}
        cluster.broker(2).begin_start()
        cluster.settle()
        cluster.create_topic("orders", assignment={0: [1, 2]})
        cluster.settle()
        assert refusals_of_ids(cluster)["orders-0"] > 0
        broker = cluster.broker(2).instance
        assert broker is not None
        assert broker.hosted[TopicPartition("orders", 0)].local_log is None
        cluster.run_for(60_000)
        assert cluster.isr("orders", 0) == (1,)
    assert judge(cluster).problems == ()


@pytest.mark.spec("RA-8", "FO-9")
def test_the_controller_that_created_a_topic_restores_its_id_at_the_next_write_of_its_znode() -> None:
    with cluster_of("3.9", "3.9", "3.9") as cluster:
        cluster.create_topic("orders", assignment={0: [1, 2]})
        cluster.settle()
        own = write_other_id(cluster, "orders")
        assert znode(cluster, "orders")["topic_id"] == OTHER_ID
        moved = cluster.ask(cluster.admin.alter_partition_reassignments({TopicPartition("orders", 0): [3, 1]}))
        assert moved == {TopicPartition("orders", 0): None}
        cluster.run_for(3_000)
        cluster.settle()
        assert znode(cluster, "orders")["topic_id"] == own
        assert ids_on_brokers(cluster, "orders") == {own}
    (problem,) = judge(cluster).problems
    assert problem.startswith("A3 violated"), "the test itself has changed the id of an existing topic"
