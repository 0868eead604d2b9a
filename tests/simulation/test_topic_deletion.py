"""Topics deleted in simulated clusters, one scene each: what is left of them, and what the judges say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from brokers.broker import KafkaBroker
from controller.points import POINTS
from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.zk.client import SetData
from understudy.simulator.cluster import SimulatedCluster
from understudy.simulator.judgement import judge

ORDERS = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}


@contextmanager
def scene(seed: int = 1, *, brokers: int = 3) -> Iterator[SimulatedCluster]:
    """A cluster with `orders`; at the end it comes to rest and no check is violated."""
    with SimulatedCluster(seed, brokers=brokers) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment=ORDERS)
        yield cluster
        cluster.settle()
    assert judge(cluster).problems == ()


def left_of(cluster: SimulatedCluster, topic: str = "orders") -> list[str]:
    """Its znodes, and the brokers that host it or speak of it."""
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
def test_a_topic_goes_from_zookeeper_and_from_every_broker() -> None:
    with scene() as cluster:
        delete(cluster)
        cluster.run_for(1_000)
        assert left_of(cluster) == []


@pytest.mark.spec("TD-9", "TD-5")
@pytest.mark.parametrize("is_controller", [False, True])
def test_a_topic_waits_for_the_broker_that_is_dead(is_controller: bool) -> None:
    with scene() as cluster:
        controller = cluster.controller()
        gone = next(number for number in cluster.broker_ids if (number == controller.id) is is_controller)
        cluster.broker(gone).kill()
        cluster.run_for(10_000)
        delete(cluster)
        cluster.run_for(30_000)
        assert left_of(cluster) == ["/brokers/topics", "/config/topics", "/admin/delete_topics"]
        cluster.broker(gone).begin_start()
        cluster.run_for(10_000)
        assert left_of(cluster) == []


@pytest.mark.spec("TD-8", "TD-9")
def test_who_has_deleted_and_died_is_not_waited_for() -> None:
    with scene() as cluster:
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
def test_a_controller_that_dies_in_the_middle_leaves_it_to_the_next(point: str, recreate: bool) -> None:
    with scene() as cluster:
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
def test_a_topic_deleted_and_created_at_once_over_and_over_is_the_last_one(seed: int) -> None:
    """By one client as fast as it can: created as soon as the deletion is answered, which is before the znodes are
    gone."""
    with scene(seed) as cluster:

        async def again_and_again() -> None:
            for number in range(5):
                await cluster.admin.delete_topics("orders")
                while not await _created(cluster, {0: [1 + number % 3, 1 + (number + 1) % 3]}):
                    pass

        cluster.ask(again_and_again())
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
def test_a_deposed_controller_in_the_middle_of_a_deletion_can_do_no_harm() -> None:
    """It sleeps between the requests that stop the replicas and what it would write; its successor has finished by
    then, and a topic of the same name lives when it wakes up."""
    with scene() as cluster:
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
def test_what_is_added_to_a_topic_that_waits_to_go_is_taken_back() -> None:
    with scene() as cluster:
        gone = next(number for number in cluster.broker_ids if number != cluster.controller_id())
        cluster.broker(gone).kill()
        cluster.run_for(10_000)
        delete(cluster)
        cluster.run_for(1_000)
        before = cluster.znodes.data("/brokers/topics/orders")
        assert before is not None
        grown = before.replace(b'"2":[3,1,2]', b'"2":[3,1,2],"3":[1,2]')
        assert cluster.zookeeper.operate([SetData("/brokers/topics/orders", grown)])
        cluster.run_for(1_000)
        assert cluster.znodes.data("/brokers/topics/orders") == before
        cluster.broker(gone).begin_start()
        cluster.run_for(10_000)
        assert left_of(cluster) == []
