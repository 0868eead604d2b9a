"""Rest is asked for in ten questions; each is able to complain: here somebody tampers with what it looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest

from brokers.broker import KafkaBroker
from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition
from foundation.zk.admin_znodes import (
    IsrChangeNotificationZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from foundation.zk.client import Create, Delete, SetData
from foundation.zk.znodes import BrokerIdZNode, ControllerZNode, TopicPartitionStateZNode, TopicZNode
from understudy.simulator.cluster import SimulatedCluster
from understudy.simulator.liveness import QUESTIONS

ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    """At rest. What is done to it acts at once, before any broker hears of it."""
    with SimulatedCluster(1, brokers=3) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment={0: [1, 2, 3]})
        cluster.settle()
        yield cluster


def running(cluster: SimulatedCluster, broker: int) -> KafkaBroker:
    found = cluster.broker(broker).running
    assert found is not None
    return found


def depose(cluster: SimulatedCluster) -> None:
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


def leave_a_move_unfinished(cluster: SimulatedCluster) -> None:
    place(cluster, ReplicaAssignment((BrokerId(1), BrokerId(2), BrokerId(3)), removing_replicas=(BrokerId(3),)))


def assign_otherwise(cluster: SimulatedCluster) -> None:
    place(cluster, ReplicaAssignment((BrokerId(2), BrokerId(1), BrokerId(3))))


def forget_a_replica(cluster: SimulatedCluster) -> None:
    hosted = running(cluster, 2).hosted
    assert isinstance(hosted, dict)
    del hosted[ORDERS_0]


def follow_somebody_else(cluster: SimulatedCluster) -> None:
    fetched = running(cluster, 2).fetched
    assert isinstance(fetched, dict)
    fetched[ORDERS_0] = 3


def mark_for_deletion(cluster: SimulatedCluster) -> None:
    cluster.zookeeper.operate([Create("/admin/delete_topics/orders")])


def notify(cluster: SimulatedCluster) -> None:
    data = IsrChangeNotificationZNode.encode([ORDERS_0])
    cluster.write(IsrChangeNotificationZNode.sequence_path, data, sequential=True)


def ask_for_an_election(cluster: SimulatedCluster) -> None:
    cluster.write(PreferredReplicaElectionZNode.path, PreferredReplicaElectionZNode.encode([ORDERS_0]))


def ask_for_a_move(cluster: SimulatedCluster) -> None:
    cluster.write(ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode({ORDERS_0: [BrokerId(1)]}))


@pytest.mark.parametrize(
    ("tamper", "complaint"),
    [
        (depose, "nobody owns /controller"),
        (deregister, "broker 2 is up but not registered"),
        (lose_the_leader, "orders-0 has live in-sync replicas of (1, 2, 3) but leader -1"),
        (shrink_the_isr, "orders-0 has live replicas [3] outside its ISR (1, 2)"),
        (leave_a_move_unfinished, "orders-0 is still on its way to (1, 2)"),
        (assign_otherwise, "remembers orders-0 on"),
        (forget_a_replica, "broker 2 has no replica of orders-0"),
        (follow_somebody_else, "broker 2 fetches orders-0 from 3"),
        (mark_for_deletion, "topic orders is still to be deleted"),
        (notify, "/isr_change_notification/isr_change_0000000000 has not been heard"),
        (ask_for_an_election, "/admin/preferred_replica_election has not been heard"),
        (ask_for_a_move, "/admin/reassign_partitions still names orders-0"),
    ],
)
def test_rest_is_not_claimed_where_something_is_wrong(
    cluster: SimulatedCluster, tamper: Callable[[SimulatedCluster], None], complaint: str
) -> None:
    assert cluster.complaints() == []
    tamper(cluster)
    assert complaint in "; ".join(cluster.complaints())


def test_what_was_looked_at_is_counted(cluster: SimulatedCluster) -> None:
    cluster.asked.clear()
    cluster.complaints()
    asked = dict(cluster.asked)
    assert asked == {
        "controller": 1,
        "registrations": 3,
        "leaders": 1,
        "moves": 0,
        "roles": 3,
        "metadata": 3,
        "fetchers": 2,
        "memory": 1,
        "deletions": 0,
        "requests": 1,
    }
    assert asked.keys() == set(QUESTIONS)


def test_a_deletion_that_waits_for_a_dead_broker_is_no_complaint(cluster: SimulatedCluster) -> None:
    dead = cluster.broker(next(broker for broker in cluster.brokers if broker != cluster.controller()))
    dead.crash()
    cluster.run_for(8_000)
    mark_for_deletion(cluster)
    cluster.run_for(5_000)
    assert cluster.complaints() == []
    assert "orders" in cluster.znodes.topics()
    dead.restart()
    cluster.settle()
    assert "orders" not in cluster.znodes.topics()


@pytest.mark.parametrize("of_a_former_topic", [True, False])
def test_what_the_replica_of_a_former_namesake_keeps_from_starting_is_no_complaint(
    cluster: SimulatedCluster, of_a_former_topic: bool
) -> None:
    hosted = running(cluster, 2).hosted
    assert isinstance(hosted, dict)
    topic_id = TopicId("B" * 21 + "A") if of_a_former_topic else hosted[ORDERS_0].topic_id
    hosted[ORDERS_0] = msgspec.structs.replace(hosted[ORDERS_0], topic_id=topic_id, leader_epoch=-1)
    complaints = [complaint for complaint in cluster.complaints() if "follows orders-0" in complaint]
    assert bool(complaints) is not of_a_former_topic
