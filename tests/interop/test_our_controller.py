"""Our controller leads brokers of Apache Kafka, and they notice nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import confluent_kafka
import pytest

from tests.interop.mixed import (
    EVERYBODY,
    KAFKAS,
    OURS,
    all_at_work,
    hand_over,
    mixed_cluster,
    new_controller,
    operator,
    settle,
)
from tests.interop.steps import create, leaders, whole
from tests.interop.tools import Tools
from understudy.testbed.apache_kafka import ApacheKafka
from understudy.testbed.local_cluster import LocalCluster

pytestmark = [pytest.mark.xdist_group("our controller"), pytest.mark.usefixtures("complaints")]

ATTEMPTS = 20


@pytest.fixture(scope="module")
def shared(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with mixed_cluster(kafka, tmp_path_factory.mktemp("ours-leads")) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster) -> LocalCluster:
    return all_at_work(shared, under=OURS)


@pytest.mark.spec("IO-1", "IO-3", "IO-4", "IO-6")
def test_topics_with_replicas_everywhere_are_led_and_replicated(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "everywhere", "--partitions 8 --replication-factor 3")
    picture = settle(cluster, EVERYBODY)
    led_by = {seen.state.leader_and_isr.leader for seen in picture.partitions.values() if seen.state}
    assert led_by == set(EVERYBODY)
    described = tools.succeed(f"kafka-topics --bootstrap-server {cluster.bootstrap} --describe --topic everywhere")
    assert len(re.findall(r"^\tTopic: everywhere\t", described, re.MULTILINE)) == 8


@pytest.mark.spec("IO-3", "IO-4")
def test_a_broker_of_kafkas_dies_and_returns(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "mortal", "--replica-assignment 3:4,3:1,1:3,4:3")
    cluster.broker(3).kill()
    cluster.wait_until(lambda: leaders(cluster, "mortal") == [4, 1, 1, 4], "the survivors lead")
    settle(cluster, (1, 2, 4))
    cluster.broker(3).start()
    # It comes back by AlterPartitions: one that broker 4, a Kafka, asks our controller for, and some of ours.
    cluster.wait_until(lambda: whole(cluster.view.picture(), "mortal"), "broker 3 is in sync again")
    settle(cluster, EVERYBODY)
    tools.succeed(
        f"kafka-leader-election --bootstrap-server {cluster.bootstrap} --election-type preferred --all-topic-partitions"
    )
    assert leaders(cluster, "mortal") == [3, 3, 1, 4]


@pytest.mark.spec("IO-5")
def test_a_broker_of_kafkas_shuts_down_in_order(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "orderly", "--replica-assignment 4:3,4:1,1:4")
    cluster.broker(4).stop()
    log = cluster.broker(4).process.log.read_text()
    assert "Controlled shutdown request returned successfully" in log
    assert "Retrying controlled shutdown" not in log
    # Leadership moved before it went, so nobody waited for its session to end.
    assert leaders(cluster, "orderly") == [3, 1, 1]
    settle(cluster, (1, 2, 3))
    cluster.broker(4).start()
    cluster.wait_until(lambda: whole(cluster.view.picture(), "orderly"), "broker 4 is in sync again")


@pytest.mark.spec("IO-1", "IO-2", "IO-3")
def test_partitions_move_to_and_from_brokers_of_kafka(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "moving", "--replica-assignment 1:3,3:4,2:1")
    there = {0: [4, 2], 1: [1, 2], 2: [3, 4]}
    plan = [{"topic": "moving", "partition": partition, "replicas": replicas} for partition, replicas in there.items()]
    (tools.directory / "plan.json").write_text(json.dumps({"version": 1, "partitions": plan}))
    line = f"kafka-reassign-partitions --bootstrap-server {cluster.bootstrap} --reassignment-json-file plan.json"
    assert "Successfully started" in tools.succeed(f"{line} --execute")
    cluster.wait_until(lambda: replicas(cluster, "moving") == list(there.values()), "all partitions have moved")
    settle(cluster, EVERYBODY)
    assert tools.succeed(f"{line} --verify --preserve-throttles").count("is completed") == 3
    # StopReplica with deletion made brokers of Kafka forget what they gave away.
    folder = cluster.broker(3).process.directory / "data"
    cluster.wait_until(lambda: not (folder / "moving-0").exists() and not (folder / "moving-1").exists(), "broker 3 forgets")
    assert (folder / "moving-2").exists()


@pytest.mark.spec("IO-2", "IO-3")
def test_topics_are_deleted_from_brokers_of_kafka(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "passing", "--replica-assignment 3:1,4:2,1:4")
    tools.succeed(f"kafka-topics --bootstrap-server {cluster.bootstrap} --delete --topic passing")
    cluster.wait_until(lambda: not replicas(cluster, "passing"), "the topic is gone")
    settle(cluster, EVERYBODY)
    for broker in KAFKAS:
        folder = cluster.broker(broker).process.directory / "data"
        # Kafka renames at once and removes a minute later.
        assert [path for path in folder.glob("passing-*") if not path.name.endswith("-delete")] == []


@pytest.mark.spec("IO-2", "IO-3")
def test_no_record_is_lost_while_our_controllers_change(cluster: LocalCluster, tools: Tools) -> None:
    """Partitions that hold records have all their replicas on brokers of Kafka."""
    create(tools, cluster, "records", "--replica-assignment 3:4,4:3,3:4,4:3 --config min.insync.replicas=2")
    kafkas = ",".join(cluster.broker(broker).address for broker in KAFKAS)
    without_ids = tools.directory / "producer.properties"
    without_ids.write_text("enable.idempotence=false\n")
    line = f"kafka-verifiable-producer --bootstrap-server {kafkas} --topic records --max-messages 12000 --throughput 1000"
    producing = tools.start(f"{line} --producer.config {without_ids}", tools.directory / "acknowledged")
    cluster.wait_until(lambda: acknowledged(producing.log), "the first record is acknowledged")

    before = cluster.controller()
    epoch = cluster.view.picture().controller_epoch
    before.kill()
    new_controller(cluster, epoch)
    hand_over(cluster, to=OURS)
    halfway = len(acknowledged(producing.log))
    cluster.wait_until(lambda: not producing.is_running, "the producer has finished", 120)

    values = acknowledged(producing.log)
    assert producing.exit_code == 0, producing.log_tail()
    assert len(values) == 12_000 > halfway > 0
    assert sorted(consumed(tools, cluster, "records")) == sorted(values)


@pytest.mark.spec("IO-7", "CO-6")
def test_idempotent_producers_get_their_ids_from_our_controller(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "exactly-once", "--replica-assignment 3:4,4:3")
    producer = idempotent_producer(",".join(cluster.broker(broker).address for broker in KAFKAS))
    for number in range(1, 1_000):
        producer.produce("exactly-once", str(number).encode())
    assert producer.flush(60) == 0
    with operator(cluster) as zookeeper:
        block = json.loads(zookeeper.get("/latest_producer_id_block")[0])
    assert block["broker"] in KAFKAS
    assert int(block["block_end"]) - int(block["block_start"]) == 999
    assert sorted(consumed(tools, cluster, "exactly-once")) == list(range(1_000))


def idempotent_producer(bootstrap: str) -> confluent_kafka.Producer:
    """One that has its producer id.

    librdkafka gives up for good where none of the brokers it has reached so far serves InitProducerId; ours do not.
    """
    errors: list[confluent_kafka.KafkaError] = []
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0, "error_cb": errors.append}
    for _ in range(ATTEMPTS):
        producer = confluent_kafka.Producer(settings)
        with suppress(confluent_kafka.KafkaException):
            producer.produce("exactly-once", b"0")
            if producer.flush(30) == 0 and not any(error.fatal() for error in errors):
                return producer
        errors.clear()
    raise AssertionError(f"no producer id in {ATTEMPTS} attempts")


def replicas(cluster: LocalCluster, topic: str) -> list[list[int]]:
    """Where the partitions of `topic` are to be, in their order."""
    partitions = cluster.view.picture().partitions
    return [list(partitions[partition].assignment.replicas) for partition in sorted(partitions) if partition.topic == topic]


def acknowledged(log: Path) -> list[int]:
    """The values of the records that the verifiable producer says were acknowledged."""
    found = []
    for line in log.read_text().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("name") == "producer_send_success":
            found.append(int(event["value"]))
    return found


def consumed(tools: Tools, cluster: LocalCluster, topic: str) -> list[int]:
    """All values in `topic`, by Kafka's console consumer, which is told how many there are."""
    kafkas = ",".join(cluster.broker(broker).address for broker in KAFKAS)
    ends = tools.succeed(f"kafka-get-offsets --bootstrap-server {kafkas} --topic {topic}").split()
    read = []
    for partition, end in (line.split(":")[1:] for line in ends):
        line = f"kafka-console-consumer --bootstrap-server {kafkas} --topic {topic} --partition {partition} --offset earliest"
        if int(end):
            read += tools.succeed(f"{line} --max-messages {end} --timeout-ms 60000").splitlines()
    return [int(value) for value in read]
