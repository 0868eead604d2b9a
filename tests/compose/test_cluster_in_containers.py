"""`understudy.testing.containers`: a cluster in containers has the verbs and conditions of the one in processes.

Slow because it starts containers, in which alone a client in the cluster's network can be seen.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compose.compose_cluster import run
from understudy.clusters.cluster import ClusterError
from understudy.testing import controller_change, isr, leader_change
from understudy.testing.containers import ClusterInContainers

pytestmark = [
    pytest.mark.docker,
    pytest.mark.xdist_group("compose"),
    # For a first build that downloads Spark, on a machine with much else to do.
    pytest.mark.timeout(1800),
]

TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def shared(image: str) -> Iterator[ClusterInContainers]:
    with ClusterInContainers(3, racks=["a", "b", "c"], topics={"orders": 1}, image=image) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: ClusterInContainers) -> ClusterInContainers:
    shared.begin_test()
    return shared


def produce(cluster: ClusterInContainers, value: str) -> None:
    """Produce a record that the whole ISR acknowledges."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    errors: list[object] = []
    producer.produce("orders", value.encode(), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == [None]


def test_the_controllers_container_is_killed_and_started_again(cluster: ClusterInContainers) -> None:
    killed = cluster.controller
    killed.kill()
    assert cluster.wait_for(controller_change(), TIMEOUT_S).id != killed.id
    produce(cluster, "without it")
    cluster.broker(killed.id).start()
    cluster.wait_for(isr("orders", size=3), TIMEOUT_S)
    cluster.assert_injected("kill", role="controller", broker=killed.id)


def test_a_leader_off_the_network_is_replaced_and_connected_before_the_next_test(cluster: ClusterInContainers) -> None:
    isolated = cluster.leader("orders")
    isolated.isolate()
    assert cluster.wait_for(leader_change("orders"), TIMEOUT_S).id != isolated.id
    cluster.begin_test("the next")
    assert cluster.wait_for(isr("orders", size=3), TIMEOUT_S)


def test_a_container_of_another_project_produces_in_its_network(cluster: ClusterInContainers, image: str) -> None:
    value = uuid.uuid4().hex
    tool = ("run", "--rm", "--interactive", "--network", cluster.network, "--entrypoint", "understudy", image)
    address = ("--bootstrap-server", cluster.bootstrap_inside, "--topic", "orders")
    run(["docker", *tool, "produce", *address], Path(), TIMEOUT_S, stdin=f"{value}\n")
    read = run(["docker", *tool, "consume", *address, "--from-beginning", "--timeout-ms", "5000"], Path(), TIMEOUT_S)
    assert value in read.splitlines()


def test_an_image_that_the_engine_does_not_have_is_named() -> None:
    cluster = ClusterInContainers(1, image="understudy-that-was-never-built")
    with pytest.raises(ClusterError, match=r"no image 'understudy-that-was-never-built'.*UNDERSTUDY_IMAGE"):
        cluster.start()
    cluster.close()
    assert not cluster.directory.exists()
