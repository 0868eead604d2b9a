"""Partition reassignments in simulated clusters: their final assignments, leaders and ISRs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.wire.messages.list_partition_reassignments import OngoingPartitionReassignment
from understudy.foundation.zk.admin_znodes import ReassignPartitionsZNode
from understudy.trials.seeds.judgement import judge

ORDERS = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
ORDERS_0, ORDERS_1, ORDERS_2 = (TopicPartition("orders", number) for number in ORDERS)
WAITS_MS = 3_000

Moves = Mapping[TopicPartition, Sequence[int] | None]


@contextmanager
def cluster_with_orders(seed: int = 1, *, may_leave_replicas: bool = False) -> Iterator[SimulatedCluster]:
    """Five brokers with `orders`. At the end they settle, host only assigned replicas, and no check is violated."""
    with SimulatedCluster(seed, brokers=5) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment=ORDERS)
        cluster.settle()
        yield cluster
        cluster.settle()
        assert may_leave_replicas or cluster.unassigned_replicas() == []
        assert cluster.znodes.data(ReassignPartitionsZNode.path) is None
    assert judge(cluster).problems == ()


def reassign(cluster: SimulatedCluster, moves: Moves) -> dict[TopicPartition, str]:
    answers = cluster.ask(cluster.admin.alter_partition_reassignments(moves))
    return {partition: "NONE" if error is None else error.error.name for partition, error in answers.items()}


def reassign_by_znode(cluster: SimulatedCluster, moves: Mapping[TopicPartition, Sequence[int]]) -> None:
    wanted = {partition: tuple(map(BrokerId, replicas)) for partition, replicas in moves.items()}
    cluster.write(ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode(wanted))


def reassignments(cluster: SimulatedCluster) -> dict[TopicPartition, OngoingPartitionReassignment]:
    return cluster.ask(cluster.admin.list_partition_reassignments())


def assignment(cluster: SimulatedCluster, partition: TopicPartition) -> ReplicaAssignment:
    return cluster.znodes.topics()[partition.topic].partitions[partition]


def on(*replicas: int) -> ReplicaAssignment:
    return ReplicaAssignment(tuple(map(BrokerId, replicas)))


def kill_until_session_ends(cluster: SimulatedCluster, broker: int) -> SimulatedBroker:
    """Kill a broker, and wait until its session has expired."""
    dead = cluster.broker(broker)
    dead.kill()
    cluster.run_for(8_000)
    return dead


def broker_without_replicas(cluster: SimulatedCluster) -> int:
    """A broker without replicas that is not the controller."""
    return next(number for number in (5, 4) if number != cluster.controller_id())


@pytest.mark.spec("RA-5", "RA-11", "RA-13", "RA-16", "BK-15")
def test_partitions_are_reassigned_and_a_leader_outside_the_target_is_replaced() -> None:
    with cluster_with_orders() as cluster:
        assert reassign(cluster, {ORDERS_0: [4, 5, 1], ORDERS_1: [4], ORDERS_2: [2, 1, 3]}) == dict.fromkeys(
            (ORDERS_0, ORDERS_1, ORDERS_2), "NONE"
        )
        cluster.run_for(WAITS_MS)
        assert reassignments(cluster) == {}
        assert [assignment(cluster, each) for each in (ORDERS_0, ORDERS_1, ORDERS_2)] == [
            on(4, 5, 1),
            on(4),
            on(2, 1, 3),
        ]
        assert set(cluster.isr("orders", 0)) == {4, 5, 1}
        assert (cluster.leader_id("orders", 1), cluster.isr("orders", 1)) == (4, (4,))
        # a leader that stays a replica remains leader until an election is requested
        assert cluster.leader_id("orders", 2) == 3


@pytest.mark.spec("RA-7", "RA-13", "RA-14", "BUG-19")
def test_a_reassignment_to_a_dead_broker_waits_until_that_has_returned() -> None:
    with cluster_with_orders() as cluster:
        number = broker_without_replicas(cluster)
        dead = kill_until_session_ends(cluster, number)
        assert reassign(cluster, {ORDERS_0: [number, 1]}) == {ORDERS_0: "INVALID_REPLICA_ASSIGNMENT"}
        reassign_by_znode(cluster, {ORDERS_0: [number, 1], ORDERS_1: [1, 2, 3]})
        cluster.run_for(WAITS_MS)
        assert assignment(cluster, ORDERS_1) == on(1, 2, 3)
        assert list(reassignments(cluster)) == [ORDERS_0]
        dead.begin_start()
        cluster.run_for(WAITS_MS)
        assert assignment(cluster, ORDERS_0) == on(number, 1)
        assert cluster.leader_id("orders", 0) == 1


@pytest.mark.spec("RA-4", "RA-15")
def test_a_request_cancels_a_reassignment_that_was_requested_by_znode() -> None:
    with cluster_with_orders() as cluster:
        number = broker_without_replicas(cluster)
        other = next(each for each in (4, 5) if each != number)
        dead = kill_until_session_ends(cluster, number)
        reassign_by_znode(cluster, {ORDERS_0: [other, number, 1]})
        cluster.run_for(WAITS_MS)
        assert other in cluster.isr("orders", 0)
        assert reassign(cluster, {ORDERS_0: None, ORDERS_1: None}) == {
            ORDERS_0: "NONE",
            ORDERS_1: "NO_REASSIGNMENT_IN_PROGRESS",
        }
        cluster.run_for(WAITS_MS)
        assert assignment(cluster, ORDERS_0) == on(1, 2, 3)
        assert set(cluster.isr("orders", 0)) == {1, 2, 3}
        dead.begin_start()


@pytest.mark.spec("RA-4", "RA-8")
def test_a_reassignment_is_replaced_by_another() -> None:
    with cluster_with_orders() as cluster:
        number = broker_without_replicas(cluster)
        other = next(each for each in (4, 5) if each != number)
        dead = kill_until_session_ends(cluster, number)
        reassign_by_znode(cluster, {ORDERS_0: [number, 1, 2]})
        cluster.run_for(WAITS_MS)
        assert reassign(cluster, {ORDERS_0: [other, 2]}) == {ORDERS_0: "NONE"}
        cluster.run_for(WAITS_MS)
        assert assignment(cluster, ORDERS_0) == on(other, 2)
        dead.begin_start()


@pytest.mark.spec("FO-11", "RA-13")
@pytest.mark.parametrize("after_ms", [0, 5, 10, 20, 30, 40])
def test_the_next_controller_finishes_the_reassignments(after_ms: int) -> None:
    # A replica stays if its StopReplica was lost with the controller, or its broker was down (BUG-15).
    with cluster_with_orders(seed=3, may_leave_replicas=True) as cluster:
        controller = cluster.controller()
        wanted = {ORDERS_0: [5, 4, 1], ORDERS_1: [4, 2], ORDERS_2: [2, 3, 5]}
        cluster.begin(cluster.admin.alter_partition_reassignments(wanted))
        cluster.run_for(after_ms)
        controller.kill()
        cluster.run_for(10_000)
        controller.begin_start()
        cluster.run_for(WAITS_MS)
        assert reassignments(cluster) == {}
        assert [assignment(cluster, part) for part in (ORDERS_0, ORDERS_1, ORDERS_2)] == [
            on(*wanted[part]) for part in (ORDERS_0, ORDERS_1, ORDERS_2)
        ]


@pytest.mark.spec("FO-11")
def test_the_next_controller_handles_the_request_in_the_znode() -> None:
    with cluster_with_orders() as cluster:
        controller = cluster.controller()
        controller.kill()
        reassign_by_znode(cluster, {ORDERS_0: [5, 4, 1]} if controller.id < 4 else {ORDERS_0: [2, 3, 1]})
        cluster.run_for(10_000)
        assert reassignments(cluster) == {}
        assert assignment(cluster, ORDERS_0) == (on(5, 4, 1) if controller.id < 4 else on(2, 3, 1))
        controller.begin_start()


@pytest.mark.spec("TD-11", "TD-12")
def test_a_topic_that_is_being_reassigned_is_deleted_with_all_its_replicas() -> None:
    with cluster_with_orders() as cluster:
        number = broker_without_replicas(cluster)
        dead = kill_until_session_ends(cluster, number)
        reassign_by_znode(cluster, {ORDERS_0: [number, 1]})
        cluster.run_for(WAITS_MS)
        cluster.begin(cluster.admin.delete_topics("orders"))
        cluster.run_for(1_000)
        assert reassign(cluster, {ORDERS_1: [1, 2]}) == {ORDERS_1: "UNKNOWN_TOPIC_OR_PARTITION"}
        dead.begin_start()
        cluster.run_for(10_000)
        assert cluster.znodes.topics() == {}
        # The znode's topic is deleted. As in Kafka, the controller removes the znode at the next request.
        reassign(cluster, {ORDERS_0: [1]})


@pytest.mark.spec("BUG-18", "TP-2")
@pytest.mark.parametrize("apart_ms", [0, 1, 2, 3, 5, 8])
def test_a_topic_is_extended_and_reassigned_at_the_same_time(apart_ms: int) -> None:
    with cluster_with_orders(seed=5) as cluster:
        cluster.begin(cluster.admin.create_partitions("orders", 4, assignment=[[1, 2, 3]]))
        cluster.run_for(apart_ms)
        assert reassign(cluster, {ORDERS_0: [4, 2, 3]}) == {ORDERS_0: "NONE"}
        cluster.run_for(WAITS_MS)
        assert assignment(cluster, ORDERS_0) == on(4, 2, 3)
        partitions = cluster.znodes.topics()["orders"].partitions
        # The request for more partitions was granted, or refused during the reassignment.
        assert [each.partition for each in partitions] in ([0, 1, 2, 3], [0, 1, 2])


@pytest.mark.spec("TP-1")
def test_a_topic_that_is_being_reassigned_cannot_be_extended() -> None:
    with cluster_with_orders() as cluster:
        number = broker_without_replicas(cluster)
        dead = kill_until_session_ends(cluster, number)
        reassign_by_znode(cluster, {ORDERS_0: [number, 1]})
        cluster.run_for(WAITS_MS)
        with pytest.raises(ApiError) as refused:
            cluster.ask(cluster.admin.create_partitions("orders", 4))
        assert refused.value.error is Errors.REASSIGNMENT_IN_PROGRESS
        dead.begin_start()
        cluster.run_for(WAITS_MS)
