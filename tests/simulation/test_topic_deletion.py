"""Topics deleted in simulated clusters: their znodes and replicas are deleted, and no check is violated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from understudy.brokers.broker import KafkaBroker
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.controller.points import POINTS
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.zk.client import SetData
from understudy.trials.seeds.judgement import judge

ORDERS = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}


@contextmanager
def cluster_with_orders(seed: int = 1, *, brokers: int = 3) -> Iterator[SimulatedCluster]:
    """A cluster with `orders`; at the end it settles and no check is violated."""
    with SimulatedCluster(seed, brokers=brokers) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment=ORDERS)
        yield cluster
        cluster.settle()
    assert judge(cluster).problems == ()


def left_of(cluster: SimulatedCluster, topic: str = "orders") -> list[str]:
    """The znodes of a topic, and the brokers that host it or have it in their metadata."""
    parents = ("/brokers/topics", "/config/topics", "/admin/delete_topics")
    left = [parent for parent in parents if topic in cluster.znodes.children(parent)]
    for number, running in running_brokers(cluster).items():
        if topic in running.metadata.snapshot.topics or any(partition.topic == topic for partition in running.hosted):
            left.append(f"broker {number}")
    return left


def running_brokers(cluster: SimulatedCluster) -> dict[BrokerId, KafkaBroker]:
    return {broker.id: broker.instance for broker in cluster.brokers if broker.instance is not None}


def delete(cluster: SimulatedCluster, topic: str = "orders") -> None:
    cluster.ask(cluster.admin.delete_topics(topic))


@pytest.mark.spec("TD-10", "BK-15", "MC-1")
def test_a_topic_is_deleted_in_zookeeper_and_on_every_broker() -> None:
    with cluster_with_orders() as cluster:
        delete(cluster)
        cluster.run_for(1_000)
        assert left_of(cluster) == []


@pytest.mark.spec("TD-9", "TD-5")
@pytest.mark.parametrize("is_controller", [False, True])
def test_a_deletion_waits_for_a_dead_broker(is_controller: bool) -> None:
    with cluster_with_orders() as cluster:
        controller = cluster.controller()
        dead = next(number for number in cluster.broker_ids if (number == controller.id) is is_controller)
        cluster.broker(dead).kill()
        cluster.run_for(10_000)
        delete(cluster)
        cluster.run_for(30_000)
        assert left_of(cluster) == ["/brokers/topics", "/config/topics", "/admin/delete_topics"]
        cluster.broker(dead).begin_start()
        cluster.run_for(10_000)
        assert left_of(cluster) == []


@pytest.mark.spec("TD-8", "TD-9")
def test_a_deletion_does_not_wait_for_a_dead_broker_that_has_deleted_its_replica() -> None:
    with cluster_with_orders() as cluster:
        one, two = [number for number in cluster.broker_ids if number != cluster.controller_id()]
        cluster.broker(one).kill()
        cluster.run_for(10_000)
        delete(cluster)
        cluster.run_for(1_000)
        cluster.broker(two).kill()
        cluster.run_for(10_000)
        assert "/admin/delete_topics" in left_of(cluster)
        cluster.broker(one).begin_start()
        cluster.run_for(10_000)
        assert left_of(cluster) == []
        cluster.broker(two).begin_start()


@pytest.mark.spec("FO-7", "FO-12", "TD-10", "P1")
@pytest.mark.parametrize(
    "point", [point for point in POINTS if point.startswith("deletion.") and "restore" not in point]
)
@pytest.mark.parametrize("recreate", [False, True])
def test_the_next_controller_finishes_a_deletion(point: str, recreate: bool) -> None:
    with cluster_with_orders() as cluster:
        controller = cluster.controller()
        controller.arm(point, "crash")
        cluster.begin(cluster.admin.delete_topics("orders"))
        cluster.run_for(2_000)
        assert not controller.is_running, f"{point} was not reached"
        cluster.run_for(10_000)
        controller.begin_start()
        cluster.run_for(10_000)
        assert left_of(cluster) == []
        if recreate:
            cluster.create_topic("orders", assignment={0: [3, 2, 1]})
            assert cluster.leader_id("orders", 0) == 3


@pytest.mark.spec("TD-10", "TC-11", "TC-4")
@pytest.mark.parametrize("seed", range(5))
def test_a_topic_that_is_deleted_and_created_repeatedly_is_the_last_one_created(seed: int) -> None:
    """A client creates the topic as soon as DeleteTopics is answered, which is before the znodes are deleted."""
    with cluster_with_orders(seed) as cluster:

        async def delete_and_create() -> None:
            for number in range(5):
                await cluster.admin.delete_topics("orders")
                while not await _created(cluster, {0: [1 + number % 3, 1 + (number + 1) % 3]}):
                    pass

        cluster.ask(delete_and_create())
        cluster.settle()
        assert list(cluster.znodes.states()) == [TopicPartition("orders", 0)]
        assert cluster.leader_id("orders", 0) == BrokerId(2)
        assert cluster.isr("orders", 0) == (2, 3)
        ids = {broker.metadata.snapshot.topic_id("orders") for broker in running_brokers(cluster).values()}
        assert ids == {cluster.znodes.topics()["orders"].topic_id}


async def _created(cluster: SimulatedCluster, assignment: dict[int, list[int]]) -> bool:
    try:
        await cluster.admin.create_topic("orders", assignment=assignment)
    except ApiError as refused:
        if refused.error is not Errors.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


@pytest.mark.spec("TD-6", "SN-5", "C4")
def test_a_deposed_controller_that_resumes_a_deletion_changes_nothing() -> None:
    """It is paused between its StopReplica requests and its write. When it is resumed, the next controller has finished
    the deletion, and a topic of the same name may exist."""
    with cluster_with_orders() as cluster:
        controller = cluster.controller()
        controller.arm("deletion.before_write", "pause", resume_after_ms=20_000)
        cluster.begin(cluster.admin.delete_topics("orders"))
        cluster.run_for(2_000)
        assert controller.is_paused
        cluster.run_for(12_000)
        assert cluster.controller_id() != controller.id
        cluster.run_for(20_000)
        assert left_of(cluster) == []
        cluster.create_topic("orders", assignment=ORDERS)


@pytest.mark.spec("TC-12", "TD-11")
def test_partitions_added_to_a_topic_that_waits_for_its_deletion_are_removed() -> None:
    with cluster_with_orders() as cluster:
        dead = next(number for number in cluster.broker_ids if number != cluster.controller_id())
        cluster.broker(dead).kill()
        cluster.run_for(10_000)
        delete(cluster)
        cluster.run_for(1_000)
        before = cluster.znodes.data("/brokers/topics/orders")
        assert before is not None
        grown = before.replace(b'"2":[3,1,2]', b'"2":[3,1,2],"3":[1,2]')
        assert cluster.zookeeper.operate([SetData("/brokers/topics/orders", grown)])
        cluster.run_for(1_000)
        assert cluster.znodes.data("/brokers/topics/orders") == before
        cluster.broker(dead).begin_start()
        cluster.run_for(10_000)
        assert left_of(cluster) == []
