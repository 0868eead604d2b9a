"""A group whose coordinator moves between our brokers and Kafka's, with a member connected: each reads the other's
records in `__consumer_offsets`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import confluent_kafka
import pytest

from tests.interop.mixed import ALL_BROKERS, OURS, mixed_cluster, restored, settle
from tests.interop.steps import create, leaders
from tests.interop.test_groups import produce
from tests.interop.tools import Tools
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster

pytestmark = [pytest.mark.xdist_group("group-coordinators"), pytest.mark.usefixtures("complaints")]

OURS_FIRST = "--replica-assignment 1:3"
"""Broker 1 is ours, and 3 is Kafka's."""
GROUP = "movers"
PATIENCE_S = 120


@pytest.fixture(scope="module")
def shared(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("coordinators")
    with mixed_cluster(kafka, folder, {"offsets.topic.num.partitions": "1"}) as cluster:
        create(Tools(kafka, folder), cluster, "__consumer_offsets", f"{OURS_FIRST} --config cleanup.policy=compact")
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster) -> LocalCluster:
    return restored(shared, under=OURS)


class ConnectedMember:
    """A member that stays in the group, and commits what it has read."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.read: list[int] = []
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "client.id": name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 30_000,
            }
        )
        self._consumer.subscribe(["moving"])

    def read_until(self, count: int) -> None:
        """Read until `count` records have come in all, and commit."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.read) < count:
            assert time.monotonic() < deadline, f"{len(self.read)} of {count} records have come"
            messages = self._consumer.consume(100, timeout=1)
            self.read += [int(message.value() or b"") for message in messages if message.error() is None]
        while True:
            try:
                self._consumer.commit(asynchronous=False)
                return
            except confluent_kafka.KafkaException:
                assert time.monotonic() < deadline, "no commit succeeds"
                self._consumer.poll(1)

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.spec("CO-3", "CO-4", "IO-16")
def test_a_group_moves_between_coordinators_of_both_kinds(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "moving", "--replica-assignment 2:4,4:2")
    bootstrap = ",".join(cluster.broker(broker).address for broker in (2, 4))
    member = ConnectedMember(bootstrap, "connected")
    try:
        for step, coordinator in enumerate((1, 3, 1), 1):
            move_to(cluster, coordinator)
            produce(tools, bootstrap, "moving", range(100 * (step - 1), 100 * step))
            member.read_until(100 * step)
            assert committed(tools, bootstrap) == 100 * step
            assert "Stable" in groups_tool(tools, bootstrap, f"--describe --group {GROUP} --state")
            assert GROUP in groups_tool(tools, bootstrap, "--list").split()
    finally:
        member.close()
    assert sorted(member.read) == list(range(300)), "no record is read again: each coordinator has the commits"


def move_to(cluster: LocalCluster, coordinator: int) -> None:
    """Have broker 1 or 3 lead the partition of the groups, by a controlled shutdown of the other one."""
    if leaders(cluster, "__consumer_offsets")[0] == coordinator:
        return
    other = cluster.broker({1: 3, 3: 1}[coordinator])
    other.stop()
    cluster.wait_until(lambda: leaders(cluster, "__consumer_offsets")[0] == coordinator, "the coordinator has moved")
    other.start()
    settle(cluster, ALL_BROKERS)
    cluster.wait_until(lambda: len(cluster.isr("__consumer_offsets", 0)) == 2, "both replicas are in sync")


def committed(tools: Tools, bootstrap: str) -> int:
    """The sum of the committed offsets, by Kafka's tool."""
    printed = groups_tool(tools, bootstrap, f"--describe --group {GROUP}")
    rows = [line.split() for line in printed.splitlines() if line.startswith(GROUP)]
    assert len(rows) == 2, printed
    return sum(int(row[3]) for row in rows)


def groups_tool(tools: Tools, bootstrap: str, options: str) -> str:
    """What `kafka-consumer-groups` prints; its default timeout of 5 s is short for a JVM on a busy machine."""
    return tools.succeed(f"kafka-consumer-groups --bootstrap-server {bootstrap} --timeout 60000 {options}")
