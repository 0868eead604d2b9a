"""Consumer groups with our brokers as bootstrap servers: ours name the coordinators, which are brokers of Kafka.

Records and committed offsets are on brokers of Kafka only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import confluent_kafka
import pytest

from tests.interop.mixed import (
    ALL_BROKERS,
    OURS,
    Complaints,
    hand_over,
    mixed_cluster,
    new_controller,
    restored,
    settle,
)
from tests.interop.steps import create, leaders
from tests.interop.tools import PATIENT, Tools
from understudy.brokers.coordinator.coordinators import partition_for
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.processes import ChildProcess
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

pytestmark = [pytest.mark.xdist_group("groups"), pytest.mark.usefixtures("complaints")]

PARTITIONS = 4
ON_KAFKAS = "--replica-assignment 3:4,4:3,3:4,4:3"
COORDINATED = {"offsets.topic.num.partitions": str(PARTITIONS), "transaction.state.log.num.partitions": str(PARTITIONS)}
GROUP, TRANSACTION, SHARE, NOTHING = 0, 1, 2, 3
PATIENCE_S = 120


@pytest.fixture(scope="module")
def shared(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A mixed cluster with the internal topics on brokers of Kafka only, created before any client needs them."""
    folder = tmp_path_factory.mktemp("groups")
    with mixed_cluster(kafka, folder, COORDINATED) as cluster:
        for topic in ("__consumer_offsets", "__transaction_state"):
            create(Tools(kafka, folder), cluster, topic, f"{ON_KAFKAS} --config cleanup.policy=compact")
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster) -> LocalCluster:
    return restored(shared, under=OURS)


@pytest.mark.spec("CO-1", "CO-3")
def test_brokers_of_both_kinds_name_the_same_coordinators(cluster: LocalCluster, complaints: Complaints) -> None:
    complaints.expect("Unknown coordinator type received")
    keys = (*(f"group-{number}" for number in range(20)), "", "grüße", "😀", "polygenelubricants")
    for version in range(7):
        for key_type in (GROUP, TRANSACTION, SHARE, NOTHING) if version else (GROUP,):
            answers = [coordinators(cluster, broker, version, key_type, keys) for broker in ALL_BROKERS]
            assert answers == [answers[0]] * len(ALL_BROKERS), (version, key_type)
            if key_type in (GROUP, TRANSACTION):
                led_by = leaders(cluster, ("__consumer_offsets", "__transaction_state")[key_type])
                assert [node for _, node, *_ in answers[0]] == [led_by[partition_for(key, PARTITIONS)] for key in keys]


def coordinators(
    cluster: LocalCluster, broker: int, version: int, key_type: int, keys: tuple[str, ...]
) -> list[tuple[str, int, str, int]]:
    """The error and node of each key; error messages are not compared."""
    client = AdminClient(SocketNetwork(), [])
    host, _, port = cluster.broker(broker).address.rpartition(":")

    def ask(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        answer = cluster.view.run(client.ask(host, int(port), request, version=version))
        assert isinstance(answer, FindCoordinatorResponse)
        return answer

    if version < 4:
        singles = [ask(FindCoordinatorRequest(key=key, key_type=key_type)) for key in keys]
        return [(Errors(at.error_code).name, at.node_id, at.host, at.port) for at in singles]
    many = ask(FindCoordinatorRequest(coordinator_keys=keys, key_type=key_type))
    assert tuple(at.key for at in many.coordinators) == keys
    return [(Errors(at.error_code).name, at.node_id, at.host, at.port) for at in many.coordinators]


@pytest.mark.spec("IO-16", "CO-3")
def test_consumer_groups_lose_no_record_during_controller_changes(cluster: LocalCluster, tools: Tools) -> None:
    """Apache's producer and consumer group and a group of librdkafka, all with our brokers as bootstrap servers."""
    create(tools, cluster, "work", f"{ON_KAFKAS} --config min.insync.replicas=2")
    ours = ",".join(cluster.broker(broker).address for broker in OURS)
    line = f"kafka-console-consumer --bootstrap-server {ours} --topic work --group apache --from-beginning"
    reading = tools.start(f"{line} --max-messages 2000", tools.directory / "read")
    produce(tools, ours, "work", range(1_000))
    read = consume(ours, "work", "librdkafka", 500)
    cluster.wait_until(lambda: numbers(reading), "the group of Apache's reads")

    before = cluster.controller()
    epoch = cluster.view.picture().controller_epoch
    before.kill()
    new_controller(cluster, epoch)
    hand_over(cluster, to=OURS)
    produce(tools, ours, "work", range(1_000, 2_000))

    # The group continues at the offsets that it committed before the failover.
    read += consume(ours, "work", "librdkafka", 1_500)
    assert sorted(read) == list(range(2_000))
    cluster.wait_until(lambda: not reading.is_running, "the group of Apache's has read everything", PATIENCE_S)
    assert reading.exit_code == 0, reading.log_tail()
    assert sorted(numbers(reading)) == list(range(2_000))
    settle(cluster, [broker for broker in ALL_BROKERS if broker != before.id])
    for group in ("apache", "librdkafka"):
        assert committed(tools, ours, group) == 2_000


@pytest.mark.spec("CO-3")
def test_a_consumer_group_continues_with_its_next_coordinator(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "moving", ON_KAFKAS)
    ours = ",".join(cluster.broker(broker).address for broker in OURS)
    produce(tools, ours, "moving", range(600))
    read = consume(ours, "moving", "movers", 300)
    coordinator = leaders(cluster, "__consumer_offsets")[partition_for("movers", PARTITIONS)]
    assert coordinator is not None
    cluster.broker(coordinator).kill()
    settle(cluster, [broker for broker in ALL_BROKERS if broker != coordinator])
    read += consume(ours, "moving", "movers", 300)
    assert sorted(read) == list(range(600))


def produce(tools: Tools, bootstrap: str, topic: str, values: range) -> None:
    """Write values with Kafka's console producer; each is its own key, so that all partitions get some.

    The producer exits with 0 even if records were not written, so its output is checked for errors.
    """
    keys = "--property parse.key=true --property key.separator=:"
    line = f"kafka-console-producer --bootstrap-server {bootstrap} --topic {topic} --request-required-acks all"
    outcome = tools.run(f"{line} {PATIENT} {keys}", "".join(f"{value}:{value}\n" for value in values))
    assert (outcome.rc, "ERROR" in outcome.stderr) == (0, False), outcome.stderr


def consume(bootstrap: str, topic: str, group: str, count: int) -> list[int]:
    """Join the group, read `count` records, commit them, and leave."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    read: list[int] = []
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + PATIENCE_S
        while len(read) < count:
            assert time.monotonic() < deadline, f"{group} has read {len(read)} of {count}"
            messages = consumer.consume(count - len(read), timeout=1)
            read += [int(message.value() or b"") for message in messages if message.error() is None]
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return read


def numbers(reading: ChildProcess) -> list[int]:
    """The records that the console consumer has printed so far, without its last line, which is a summary."""
    return [int(line) for line in reading.log.read_text().splitlines() if line.isdigit()]


def committed(tools: Tools, bootstrap: str, group: str) -> int:
    """The sum of the offsets that `group` has committed, by Kafka's tool; asserts that it lags in no partition."""
    printed = tools.succeed(f"kafka-consumer-groups --bootstrap-server {bootstrap} --describe --group {group}")
    rows = [line.split() for line in printed.splitlines() if line.startswith(group)]
    assert len(rows) == PARTITIONS, printed
    assert {lag for _, _, _, _, _, lag, *_ in rows} == {"0"}, printed
    return sum(int(offset) for _, _, _, offset, *_ in rows)
