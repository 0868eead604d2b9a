"""Topics that are deleted while brokers stop and start; the scenarios are from Kafka's `DeleteTopicTest`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.controller.points import POINTS
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.eventlog.records import RequestSent
from understudy.foundation.zk.client import Create, Delete, Failure
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds.judgement import judge

ORDERS = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
SESSION_MS = 10_000
"""Longer than the session of a killed broker lasts."""


@contextmanager
def cluster_with_orders(seed: int = 1) -> Iterator[SimulatedCluster]:
    """Three brokers with `orders` and `payments`; at the end the ISR of `payments` is full and no check is violated."""
    with SimulatedCluster(seed, brokers=3) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment=ORDERS)
        cluster.create_topic("payments", assignment={0: [1, 2, 3]})
        cluster.settle()
        yield cluster
        cluster.settle()
        assert sorted(cluster.isr("payments", 0)) == [1, 2, 3]
    assert judge(cluster).problems == ()


def kill_all(cluster: SimulatedCluster) -> None:
    for broker in cluster.brokers:
        if broker.is_running:
            broker.kill()
    cluster.run_for(SESSION_MS)
    assert cluster.znodes.brokers() == {}


def assert_deleted(cluster: SimulatedCluster) -> None:
    for parent in ("/brokers/topics", "/config/topics", "/admin/delete_topics"):
        assert "orders" not in cluster.znodes.children(parent)
    for broker in cluster.brokers:
        assert broker.instance is not None
        assert "orders" not in broker.instance.metadata.snapshot.topics
        assert all(partition.topic != "orders" for partition in broker.instance.hosted)


@pytest.mark.spec("FO-7", "TD-10")
@pytest.mark.parametrize("point", [name for name in POINTS if name.startswith("deletion.") and "restore" not in name])
def test_a_deletion_is_finished_after_a_restart_of_all_brokers_during_it(point: str) -> None:
    with cluster_with_orders() as cluster:
        controller = cluster.controller()
        controller.arm(point, "crash")
        cluster.begin(cluster.admin.delete_topics("orders"))
        cluster.run_for(2_000)
        assert not controller.is_running, f"{point} was not reached"
        kill_all(cluster)
        assert ("orders" in cluster.picture().topics_to_delete) is (point != "deletion.markers.after_write")
        for broker in cluster.brokers:
            broker.begin_start()
        cluster.run_for(SESSION_MS)
        assert_deleted(cluster)


HALF_DELETED = {
    "one state is deleted": ["/brokers/topics/orders/partitions/1/state"],
    "one partition is left": [
        f"/brokers/topics/orders/partitions/{number}{suffix}" for number in (0, 1) for suffix in ("/state", "")
    ],
    "no partition is left": [
        *(f"/brokers/topics/orders/partitions/{number}{suffix}" for number in (0, 1, 2) for suffix in ("/state", "")),
        "/brokers/topics/orders/partitions",
    ],
    "its config is left": [
        *(f"/brokers/topics/orders/partitions/{number}{suffix}" for number in (0, 1, 2) for suffix in ("/state", "")),
        "/brokers/topics/orders/partitions",
        "/brokers/topics/orders",
    ],
}


@pytest.mark.spec("FO-7", "TD-10", "TD-12")
@pytest.mark.parametrize("deleted", HALF_DELETED.values(), ids=HALF_DELETED.keys())
@pytest.mark.parametrize("is_one_down", [False, True])
def test_a_partly_deleted_topic_is_deleted_when_the_cluster_starts(deleted: list[str], is_one_down: bool) -> None:
    """`testDeletingPartiallyDeletedTopic`: an earlier controller has deleted some of its znodes."""
    with cluster_with_orders() as cluster:
        kill_all(cluster)
        assert cluster.zookeeper.operate([Create("/admin/delete_topics/orders", b"")])
        for path in deleted:
            assert cluster.zookeeper.operate([Delete(path)]), path
        late = cluster.broker(3)
        for broker in cluster.brokers:
            if not (is_one_down and broker is late):
                broker.begin_start()
        cluster.run_for(SESSION_MS)
        if is_one_down:
            has_replicas = "/brokers/topics/orders" not in deleted
            assert ("orders" in cluster.picture().topics_to_delete) is has_replicas
            late.begin_start()
            cluster.run_for(SESSION_MS)
        assert_deleted(cluster)


def stop_replica_requests(cluster: SimulatedCluster, to: BrokerId) -> list[RequestSent]:
    records = (decode_record(line).data for line in cluster.log_lines)
    return [r for r in records if isinstance(r, RequestSent) and r.api == "StopReplica" and r.to == to]


def followers(cluster: SimulatedCluster) -> tuple[SimulatedBroker, SimulatedBroker]:
    one, other = (broker for broker in cluster.brokers if broker.id != cluster.controller_id())
    return one, other


@pytest.mark.spec("TD-5", "TD-9")
def test_a_deletion_waits_for_a_broker_that_returns_while_another_has_not_answered() -> None:
    """`testResumeDeleteTopicWithRecoveredFollower`, with StopReplica requests still unanswered."""
    with cluster_with_orders() as cluster:
        returning, slow = followers(cluster)
        controller = cluster.controller_id()
        assert controller is not None
        returning.kill()
        cluster.run_for(SESSION_MS)
        slow.pause()
        client = cluster.admin.with_bootstrap(f"broker-{controller}:9092")
        cluster.begin(client.delete_topics("orders"))
        cluster.run_for(1_000)
        assert "orders" in cluster.picture().topics_to_delete
        returning.begin_start()
        cluster.run_for(1_000)
        assert returning.id in cluster.znodes.brokers(), "it is registered, and the other broker has not answered"
        assert "orders" in cluster.znodes.topics()
        slow.resume()
        cluster.run_for(SESSION_MS)
        assert stop_replica_requests(cluster, returning.id)
        assert_deleted(cluster)


@pytest.mark.spec("TD-5", "TD-9", "BR-9")
@pytest.mark.parametrize("down_ms", [200, 1_000, 3_000])
def test_a_broker_that_is_restarted_during_a_deletion_is_sent_stop_replica_again(down_ms: int) -> None:
    """It is down for less than its session timeout, so that the controller finds a bounced broker and no dead one."""
    with cluster_with_orders() as cluster:
        bouncing, _ = followers(cluster)
        controller = cluster.controller_id()
        assert controller is not None
        bouncing.pause()
        cluster.begin(cluster.admin.with_bootstrap(f"broker-{controller}:9092").delete_topics("orders"))
        cluster.run_for(200)
        bouncing.kill()
        cluster.run_for(down_ms)
        bouncing.begin_start()
        cluster.run_for(2 * SESSION_MS)
        cluster.settle()
        assert_deleted(cluster)


@pytest.mark.spec("TD-9", "FO-12")
def test_a_topic_is_deleted_when_the_last_of_its_brokers_has_returned() -> None:
    with cluster_with_orders() as cluster:
        cluster.ask(cluster.admin.create_topic("kept", partitions=1, replication_factor=3))
        cluster.settle()
        kill_all(cluster)
        assert cluster.zookeeper.operate([Create("/admin/delete_topics/orders", b"")])
        for number in (1, 2):
            cluster.broker(number).begin_start()
            cluster.run_for(SESSION_MS)
            assert "orders" in cluster.picture().topics_to_delete
            assert not isinstance(cluster.zookeeper.tree.exists("/brokers/topics/orders"), Failure)
        cluster.broker(3).begin_start()
        cluster.run_for(SESSION_MS)
        assert_deleted(cluster)
        assert cluster.leader_id("kept", 0) is not None
        assert TopicPartition("orders", 0) not in cluster.znodes.states()
