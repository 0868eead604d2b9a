"""Partitions on the move in simulated clusters, one scene each: where they end up, and what the judges say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.zk.admin_znodes import ReassignPartitionsZNode
from understudy.simulator.broker import SimulatedBroker
from understudy.simulator.cluster import SimulatedCluster
from understudy.simulator.judgement import judge

ORDERS = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
O0, O1, O2 = (TopicPartition("orders", number) for number in ORDERS)
WAITS_MS = 3_000

Moves = Mapping[TopicPartition, Sequence[int] | None]


@contextmanager
def scene(seed: int = 1, *, may_leave_strays: bool = False) -> Iterator[SimulatedCluster]:
    """Five brokers with `orders`; at the end they come to rest, no replica lies about, and no check is violated."""
    with SimulatedCluster(seed, brokers=5) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment=ORDERS)
        cluster.settle()
        yield cluster
        cluster.settle()
        assert may_leave_strays or cluster.unassigned_replicas() == []
        assert cluster.znodes.data(ReassignPartitionsZNode.path) is None
    assert judge(cluster).problems == ()


def reassign(cluster: SimulatedCluster, moves: Moves) -> dict[TopicPartition, str]:
    answers = cluster.ask(cluster.admin.alter_partition_reassignments(moves))
    return {partition: "NONE" if error is None else error.error.name for partition, error in answers.items()}


def ask_by_znode(cluster: SimulatedCluster, moves: Mapping[TopicPartition, Sequence[int]]) -> None:
    wanted = {partition: tuple(map(BrokerId, replicas)) for partition, replicas in moves.items()}
    cluster.write(ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode(wanted))


def moving(cluster: SimulatedCluster) -> dict[TopicPartition, ReplicaAssignment]:
    return cluster.ask(cluster.admin.list_partition_reassignments())


def assignment(cluster: SimulatedCluster, partition: TopicPartition) -> ReplicaAssignment:
    return cluster.znodes.topics()[partition.topic].partitions[partition]


def on(*replicas: int) -> ReplicaAssignment:
    return ReplicaAssignment(tuple(map(BrokerId, replicas)))


def down(cluster: SimulatedCluster, broker: int) -> SimulatedBroker:
    """A broker that is dead, as everybody knows."""
    dead = cluster.broker(broker)
    dead.kill()
    cluster.run_for(8_000)
    return dead


def bystander(cluster: SimulatedCluster) -> int:
    """A broker without replicas that is not the controller."""
    return next(number for number in (5, 4) if number != cluster.controller_id())


@pytest.mark.spec("RA-5", "RA-11", "RA-13", "RA-16", "BK-15")
def test_partitions_move_join_and_are_led_by_who_comes_first() -> None:
    with scene() as cluster:
        assert reassign(cluster, {O0: [4, 5, 1], O1: [4], O2: [2, 1, 3]}) == dict.fromkeys((O0, O1, O2), "NONE")
        cluster.run_for(WAITS_MS)
        assert moving(cluster) == {}
        assert [assignment(cluster, each) for each in (O0, O1, O2)] == [on(4, 5, 1), on(4), on(2, 1, 3)]
        assert set(cluster.isr("orders", 0)) == {4, 5, 1}
        assert (cluster.leader_id("orders", 1), cluster.isr("orders", 1)) == (4, (4,))
        # who only changes places leads on until an election is asked for
        assert cluster.leader_id("orders", 2) == 3


@pytest.mark.spec("RA-7", "RA-13", "RA-14", "BUG-19")
def test_a_move_to_a_dead_broker_waits_until_it_is_back() -> None:
    with scene() as cluster:
        number = bystander(cluster)
        dead = down(cluster, number)
        assert reassign(cluster, {O0: [number, 1]}) == {O0: "INVALID_REPLICA_ASSIGNMENT"}
        ask_by_znode(cluster, {O0: [number, 1], O1: [1, 2, 3]})
        cluster.run_for(WAITS_MS)
        assert assignment(cluster, O1) == on(1, 2, 3)
        assert list(moving(cluster)) == [O0]
        dead.begin_start()
        cluster.run_for(WAITS_MS)
        assert assignment(cluster, O0) == on(number, 1)
        assert cluster.leader_id("orders", 0) == 1


@pytest.mark.spec("RA-4", "RA-15")
def test_a_request_cancels_what_the_znode_asks_for() -> None:
    with scene() as cluster:
        number = bystander(cluster)
        other = next(each for each in (4, 5) if each != number)
        dead = down(cluster, number)
        ask_by_znode(cluster, {O0: [other, number, 1]})
        cluster.run_for(WAITS_MS)
        assert other in cluster.isr("orders", 0)
        assert reassign(cluster, {O0: None, O1: None}) == {O0: "NONE", O1: "NO_REASSIGNMENT_IN_PROGRESS"}
        cluster.run_for(WAITS_MS)
        assert assignment(cluster, O0) == on(1, 2, 3)
        assert set(cluster.isr("orders", 0)) == {1, 2, 3}
        dead.begin_start()


@pytest.mark.slow
@pytest.mark.spec("RA-4", "RA-8")
def test_a_move_is_superseded_by_another() -> None:
    with scene() as cluster:
        number = bystander(cluster)
        other = next(each for each in (4, 5) if each != number)
        dead = down(cluster, number)
        ask_by_znode(cluster, {O0: [number, 1, 2]})
        cluster.run_for(WAITS_MS)
        assert reassign(cluster, {O0: [other, 2]}) == {O0: "NONE"}
        cluster.run_for(WAITS_MS)
        assert assignment(cluster, O0) == on(other, 2)
        dead.begin_start()


@pytest.mark.spec("FO-11", "RA-13")
@pytest.mark.parametrize("after_ms", [10, *(pytest.param(ms, marks=pytest.mark.slow) for ms in (0, 5, 20, 30, 40))])
def test_whoever_takes_over_in_the_middle_goes_on(after_ms: int) -> None:
    # A replica whose order to stop was lost with its controller, or while it was away, stays where it is (BUG-15).
    with scene(seed=3, may_leave_strays=True) as cluster:
        controller = cluster.controller()
        wanted = {O0: [5, 4, 1], O1: [4, 2], O2: [2, 3, 5]}
        cluster.begin(cluster.admin.alter_partition_reassignments(wanted))
        cluster.run_for(after_ms)
        controller.kill()
        cluster.run_for(10_000)
        controller.begin_start()
        cluster.run_for(WAITS_MS)
        assert moving(cluster) == {}
        assert [assignment(cluster, part) for part in (O0, O1, O2)] == [on(*wanted[part]) for part in (O0, O1, O2)]


@pytest.mark.slow
@pytest.mark.spec("FO-11")
def test_the_znode_is_found_by_whoever_takes_over() -> None:
    with scene() as cluster:
        controller = cluster.controller()
        controller.kill()
        ask_by_znode(cluster, {O0: [5, 4, 1]} if controller.id < 4 else {O0: [2, 3, 1]})
        cluster.run_for(10_000)
        assert moving(cluster) == {}
        assert assignment(cluster, O0) == (on(5, 4, 1) if controller.id < 4 else on(2, 3, 1))
        controller.begin_start()


@pytest.mark.spec("TD-11", "TD-12")
def test_a_topic_on_the_move_is_deleted_with_all_its_replicas() -> None:
    with scene() as cluster:
        number = bystander(cluster)
        dead = down(cluster, number)
        ask_by_znode(cluster, {O0: [number, 1]})
        cluster.run_for(WAITS_MS)
        cluster.begin(cluster.admin.delete_topics("orders"))
        cluster.run_for(1_000)
        assert reassign(cluster, {O1: [1, 2]}) == {O1: "UNKNOWN_TOPIC_OR_PARTITION"}
        dead.begin_start()
        cluster.run_for(10_000)
        assert cluster.znodes.topics() == {}
        # What the znode asks for has gone with its topic; like Kafka we notice when somebody asks for anything.
        reassign(cluster, {O0: [1]})


@pytest.mark.spec("BUG-18", "TP-2")
@pytest.mark.parametrize("apart_ms", [2, *(pytest.param(ms, marks=pytest.mark.slow) for ms in (0, 1, 3, 5, 8))])
def test_a_topic_grows_and_moves_at_the_same_moment_and_nothing_is_lost(apart_ms: int) -> None:
    with scene(seed=5) as cluster:
        cluster.begin(cluster.admin.create_partitions("orders", 4, assignment=[[1, 2, 3]]))
        cluster.run_for(apart_ms)
        assert reassign(cluster, {O0: [4, 2, 3]}) == {O0: "NONE"}
        cluster.run_for(WAITS_MS)
        assert assignment(cluster, O0) == on(4, 2, 3)
        partitions = cluster.znodes.topics()["orders"].partitions
        # It grew, or was told that it could not just then.
        assert [each.partition for each in partitions] in ([0, 1, 2, 3], [0, 1, 2])


@pytest.mark.slow
@pytest.mark.spec("TP-1")
def test_a_topic_that_moves_does_not_grow() -> None:
    with scene() as cluster:
        number = bystander(cluster)
        dead = down(cluster, number)
        ask_by_znode(cluster, {O0: [number, 1]})
        cluster.run_for(WAITS_MS)
        with pytest.raises(ApiError) as refused:
            cluster.ask(cluster.admin.create_partitions("orders", 4))
        assert refused.value.error is Errors.REASSIGNMENT_IN_PROGRESS
        dead.begin_start()
        cluster.run_for(WAITS_MS)
