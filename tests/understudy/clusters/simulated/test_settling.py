"""Findings of a simulated cluster: each test changes one thing that is compared, and the cluster is not settled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec
import pytest

from understudy.brokers.broker import KafkaBroker
from understudy.clusters.cluster import Unsettled
from understudy.clusters.findings import FindingKind
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition
from understudy.foundation.zk.admin_znodes import (
    IsrChangeNotificationZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from understudy.foundation.zk.client import Create, Delete, SetData
from understudy.foundation.zk.znodes import BrokerIdZNode, ControllerZNode, TopicPartitionStateZNode, TopicZNode

ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    """A settled cluster. A test reads its change at once, before any broker has been notified of it."""
    with SimulatedCluster(1, brokers=3) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment={0: [1, 2, 3]})
        cluster.settle()
        yield cluster


def instance(cluster: SimulatedCluster, broker: int) -> KafkaBroker:
    found = cluster.broker(broker).instance
    assert found is not None
    return found


def kill_without_a_fault(cluster: SimulatedCluster) -> None:
    process = cluster.broker(2).node.process
    assert process is not None
    process.kill()


def delete_the_controller(cluster: SimulatedCluster) -> None:
    cluster.zookeeper.operate([Delete(ControllerZNode.path)])


def deregister(cluster: SimulatedCluster) -> None:
    cluster.zookeeper.operate([Delete(BrokerIdZNode.path(2))])


def lose_the_leader(cluster: SimulatedCluster) -> None:
    state = b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":1,"isr":[1,2,3]}'
    cluster.zookeeper.operate([SetData(TopicPartitionStateZNode.path(ORDERS_0), state)])


def shrink_the_isr(cluster: SimulatedCluster) -> None:
    state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'
    cluster.zookeeper.operate([SetData(TopicPartitionStateZNode.path(ORDERS_0), state)])


def place(cluster: SimulatedCluster, assignment: ReplicaAssignment) -> None:
    topic = cluster.znodes.topics()["orders"]
    cluster.zookeeper.operate([SetData(TopicZNode.path("orders"), TopicZNode.encode(topic.topic_id, {0: assignment}))])


def leave_a_reassignment_unfinished(cluster: SimulatedCluster) -> None:
    place(cluster, ReplicaAssignment((BrokerId(1), BrokerId(2), BrokerId(3)), removing_replicas=(BrokerId(3),)))


def assign_otherwise(cluster: SimulatedCluster) -> None:
    place(cluster, ReplicaAssignment((BrokerId(2), BrokerId(1), BrokerId(3))))


def remove_a_replica(cluster: SimulatedCluster) -> None:
    hosted = instance(cluster, 2).hosted
    assert isinstance(hosted, dict)
    del hosted[ORDERS_0]


def fetch_from_another_broker(cluster: SimulatedCluster) -> None:
    fetched = instance(cluster, 2).fetched
    assert isinstance(fetched, dict)
    fetched[ORDERS_0] = 3


def mark_for_deletion(cluster: SimulatedCluster) -> None:
    cluster.zookeeper.operate([Create("/admin/delete_topics/orders")])


def notify(cluster: SimulatedCluster) -> None:
    data = IsrChangeNotificationZNode.encode([ORDERS_0])
    cluster.write(IsrChangeNotificationZNode.sequence_path, data, sequential=True)


def request_an_election(cluster: SimulatedCluster) -> None:
    cluster.write(PreferredReplicaElectionZNode.path, PreferredReplicaElectionZNode.encode([ORDERS_0]))


def request_a_reassignment(cluster: SimulatedCluster) -> None:
    cluster.write(ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode({ORDERS_0: [BrokerId(1)]}))


@pytest.mark.parametrize(
    ("tamper", "kind", "message"),
    [
        (kill_without_a_fault, FindingKind.PROCESS, "broker 2 should run and does not"),
        (delete_the_controller, FindingKind.CONTROLLER, "no broker owns /controller"),
        (deregister, FindingKind.REGISTRATION, "broker 2 runs but is not registered"),
        (lose_the_leader, FindingKind.LEADERLESS, "orders-0 has live in-sync replicas of (1, 2, 3) but leader -1"),
        (shrink_the_isr, FindingKind.UNDER_REPLICATED, "orders-0 has live replicas [3] outside its ISR (1, 2)"),
        (shrink_the_isr, FindingKind.METADATA, "in its metadata of orders-0, ZooKeeper holds (1, 0, (1, 2))"),
        (leave_a_reassignment_unfinished, FindingKind.REASSIGNMENT, "orders-0 is still being reassigned to (1, 2)"),
        (assign_otherwise, FindingKind.CONTEXT, "has orders-0 on"),
        (remove_a_replica, FindingKind.REPLICA, "broker 2 has no replica of orders-0"),
        (fetch_from_another_broker, FindingKind.FETCHER, "broker 2 fetches orders-0 from 3"),
        (mark_for_deletion, FindingKind.DELETION, "topic orders is still to be deleted"),
        (notify, FindingKind.REQUEST, "/isr_change_notification/isr_change_0000000000 has not been handled"),
        (request_an_election, FindingKind.REQUEST, "/admin/preferred_replica_election has not been handled"),
        (request_a_reassignment, FindingKind.REQUEST, "/admin/reassign_partitions still names orders-0"),
    ],
)
def test_a_cluster_with_a_finding_has_not_settled(
    cluster: SimulatedCluster, tamper: Callable[[SimulatedCluster], None], kind: FindingKind, message: str
) -> None:
    assert cluster.findings().found == ()
    tamper(cluster)
    assert message in "; ".join(str(finding) for finding in cluster.findings().unresolved if finding.kind is kind)
    with pytest.raises(Unsettled, match=re.escape(message)):
        cluster.settle(timeout_s=0)


def test_examined_cases_are_counted(cluster: SimulatedCluster) -> None:
    cluster.examined.clear()
    examined = cluster.findings().examined
    assert {kind: count for kind, count in examined.items() if count} == {
        FindingKind.CONTROLLER: 1,
        FindingKind.REGISTRATION: 3,
        FindingKind.LEADERLESS: 1,
        FindingKind.UNDER_REPLICATED: 1,
        FindingKind.NOT_PREFERRED: 1,
        FindingKind.REPLICA: 3,
        FindingKind.METADATA: 3,
        FindingKind.FETCHER: 2,
        FindingKind.CONTEXT: 1,
        FindingKind.REQUEST: 1,
    }
    assert cluster.examined == examined
    leave_a_reassignment_unfinished(cluster)
    assert cluster.findings().examined[FindingKind.REASSIGNMENT] == 1
    mark_for_deletion(cluster)
    assert cluster.findings().examined[FindingKind.DELETION] == 1


def test_a_leader_that_is_not_the_preferred_one_does_not_keep_a_cluster_from_settling(
    cluster: SimulatedCluster,
) -> None:
    cluster.broker(1).kill()
    cluster.run_for(10_000)
    cluster.broker(1).start()
    cluster.settle()
    findings = cluster.findings()
    assert findings.not_preferred == (ORDERS_0,)
    assert not findings.is_well


def test_a_deletion_that_waits_for_a_dead_broker_does_not_keep_a_cluster_from_settling(
    cluster: SimulatedCluster,
) -> None:
    dead = cluster.broker(next(broker for broker in cluster.broker_ids if broker != cluster.controller_id()))
    dead.kill()
    cluster.run_for(8_000)
    mark_for_deletion(cluster)
    cluster.run_for(5_000)
    assert cluster.findings().unresolved == ()
    assert "orders" in cluster.znodes.topics()
    dead.begin_start()
    cluster.settle()
    assert "orders" not in cluster.znodes.topics()


@pytest.mark.parametrize("of_a_former_topic", [True, False])
def test_a_wrong_role_of_a_replica_of_a_deleted_topic_with_the_same_name_is_no_finding(
    cluster: SimulatedCluster, of_a_former_topic: bool
) -> None:
    replica = instance(cluster, 2).hosted[ORDERS_0]
    topic_id = TopicId("B" * 21 + "A") if of_a_former_topic else replica.topic_id
    replica.state = msgspec.structs.replace(replica.state, topic_id=topic_id, leader_epoch=-1)
    wrong_roles = [finding for finding in cluster.findings().found if finding.kind is FindingKind.REPLICA]
    assert bool(wrong_roles) is not of_a_former_topic
