"""The controller changes between our brokers and Kafka's, and after each change all brokers have the same metadata."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.mixed import (
    ALL_BROKERS,
    KAFKAS,
    OURS,
    controller_epoch,
    hand_over,
    mixed_cluster,
    new_controller,
    settle,
)
from tests.interop.steps import create, whole
from tests.interop.tools import Tools
from tests.shares import share_of
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster

pytestmark = [pytest.mark.xdist_group("handover"), pytest.mark.usefixtures("complaints")]

HANDOVERS = share_of("handovers")


@pytest.fixture(scope="module")
def cluster(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with mixed_cluster(kafka, tmp_path_factory.mktemp("handover")) as cluster:
        yield cluster


@pytest.mark.spec("IO-1", "IO-2", "IO-15", "EL-4")
def test_the_controller_changes_back_and_forth_between_ours_and_kafkas(cluster: LocalCluster, tools: Tools) -> None:
    """By SIGKILL and by deleting `/controller`; each time a broker of the other kind is elected."""
    create(tools, cluster, "contested", "--replica-assignment 1:2:3,2:3:4,3:4:1,4:1:2,1:3:4,3:1:2")
    epochs = [controller_epoch(cluster)]
    for turn in range(HANDOVERS):
        before = cluster.controller()
        # Two by deletion and two by killing, so that controllers of both kinds end in both ways.
        if turn % 4 >= 2:
            before.kill()
            new_controller(cluster, epochs[-1])
        hand_over(cluster, to=KAFKAS if before.id in OURS else OURS)
        if not before.is_running:
            settle(cluster, [broker for broker in ALL_BROKERS if broker != before.id])
            before.start()
            cluster.wait_until(lambda: whole(cluster.view.picture(), "contested"), "all replicas are in sync again")
        epochs.append(settle(cluster, ALL_BROKERS).controller_epoch)
    assert epochs == sorted(set(epochs)), "every election raises the epoch"
