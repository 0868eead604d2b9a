"""Records in partitions that our brokers and Kafka's share, while their leaderships move back and forth."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from tests.durability.replicas import divergent_replicas
from tests.interop.mixed import KAFKAS, OURS, PATIENCE_S, Complaints, mixed_cluster, restored
from tests.interop.steps import create, leaders, whole
from tests.interop.tools import Tools
from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.checks.client_history import check_clients
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.client_load import ClientLoad
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.loop_thread import LoopThread
from understudy.foundation.cluster.identifiers import TopicPartition

pytestmark = pytest.mark.xdist_group("records beside Kafka")

REPLICAS = ([1, 3, 2], [3, 1, 4], [2, 4, 3], [4, 2, 1])
"""Of each partition, in order of preference; every broker follows brokers of both kinds."""
MOVES = 3
RECORDS_PER_MOVE = 200
BETWEEN_BATCHES_S = (0.02, 0.06)


@pytest.fixture(scope="module")
def cluster(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with mixed_cluster(kafka, tmp_path_factory.mktemp("records")) as cluster:
        yield cluster


def admin_of(cluster: LocalCluster) -> AdminClient:
    return AdminClient(SocketNetwork(), [broker.address for broker in cluster.brokers], timeout_ms=30_000)


def lead_by_first_of(cluster: LocalCluster, topic: str, replicas: Sequence[Sequence[int]]) -> None:
    """Reorder the replicas of each partition, and elect the first ones."""
    admin = admin_of(cluster)
    moves = {TopicPartition(topic, number): list(order) for number, order in enumerate(replicas)}
    refused = {each: error for each, error in asyncio.run(admin.alter_partition_reassignments(moves)).items() if error}
    assert refused == {}
    wanted = [order[0] for order in replicas]
    cluster.wait_until(lambda: whole(cluster.view.picture(), topic), "all replicas are in sync", PATIENCE_S)
    asyncio.run(admin.elect_leaders())
    cluster.wait_until(lambda: leaders(cluster, topic) == wanted, f"the leaders are {wanted}", PATIENCE_S)


def wait_for_records(cluster: LocalCluster, load: ClientLoad) -> None:
    goal = load.history.acknowledged + RECORDS_PER_MOVE
    cluster.wait_until(lambda: load.history.acknowledged >= goal, "more records are acknowledged", PATIENCE_S)


@pytest.mark.spec("IO-8")
@pytest.mark.parametrize("controllers", [OURS, KAFKAS], ids=["our controller", "Kafka's controller"])
def test_leaderships_move_between_our_brokers_and_kafkas_under_load(
    cluster: LocalCluster, tools: Tools, complaints: Complaints, controllers: tuple[int, ...]
) -> None:
    # A new leader may know an older high watermark than its followers; Kafka's brokers also write this of each other.
    complaints.expect("Non-monotonic update of high watermark")
    restored(cluster, under=controllers)
    topic = f"ledger-{controllers[0]}"
    assignment = ",".join(":".join(map(str, order)) for order in REPLICAS)
    create(tools, cluster, topic, f"--replica-assignment {assignment} --config min.insync.replicas=2")
    addresses = [broker.address for broker in cluster.brokers]
    partitions = [TopicPartition(topic, number) for number in range(len(REPLICAS))]
    load = ClientLoad(SocketNetwork(), MachineClock(), lambda: addresses, partitions)
    with LoopThread("producers") as clients:
        for producer in load.producers(BETWEEN_BATCHES_S):
            clients.begin(producer)
        for move in range(1, MOVES + 1):
            lead_by_first_of(cluster, topic, [order[move % 3 :] + order[: move % 3] for order in REPLICAS])
            wait_for_records(cluster, load)
        load.is_stopping = True
        assert clients.wait(PATIENCE_S)
        clients.ask(load.read_all(), PATIENCE_S)
    assert load.history.acknowledged >= MOVES * RECORDS_PER_MOVE
    assert load.history.read_to_the_end == set(partitions)
    assert check_clients(load.history).violations == []
    cluster.wait_until(lambda: whole(cluster.view.picture(), topic), "all replicas are in sync", PATIENCE_S)
    assert differing(cluster, topic) == []


def differing(cluster: LocalCluster, topic: str) -> list[str]:
    """The replicas that differ from another of their partition, batch by batch. Nothing may be appended meanwhile."""
    found = []
    for number, order in enumerate(REPLICAS):
        directories = {f"broker-{broker}": cluster.directory / f"broker-{broker}" / "data" for broker in order}
        found += divergent_replicas(directories, [f"{topic}-{number}"])
    return found
