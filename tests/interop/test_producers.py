"""Producers and consumers with our brokers as bootstrap servers continue through changes of our controllers.

Partitions with records have all their replicas on brokers of Kafka. Java's producers are idempotent by default, and
get their producer id from any broker.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.interop.mixed import (
    ALL_BROKERS,
    KAFKAS,
    OURS,
    PATIENCE_S,
    controller_epoch,
    hand_over,
    mixed_cluster,
    new_controller,
    operator,
    restored,
)
from tests.interop.steps import create, whole
from tests.interop.tools import PATIENT, Tools
from tests.shares import at_night
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.processes.apache_kafka import ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from understudy.foundation.wire.request_channel import RequestChannel
from understudy.foundation.zk.admin_znodes import ProducerIdBlock, ProducerIdBlockZNode

pytestmark = [pytest.mark.xdist_group("producers"), pytest.mark.usefixtures("complaints")]

OFFSETS = "__consumer_offsets"
ON_KAFKAS = "--replica-assignment 3:4,4:3"
BOTH_ACKNOWLEDGE = f"{ON_KAFKAS} --config min.insync.replicas=2"
BLOCK_SIZE = 1_000


@pytest.fixture(scope="module")
def shared(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with mixed_cluster(kafka, tmp_path_factory.mktemp("producers"), {"offsets.topic.num.partitions": "2"}) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster, tools: Tools) -> LocalCluster:
    restored(shared, under=OURS)
    if not whole(shared.view.picture(), OFFSETS):
        # Created automatically, it would also have replicas on our brokers.
        create(tools, shared, OFFSETS, f"{ON_KAFKAS} --config cleanup.policy=compact")
    return shared


# -- ids


@pytest.mark.spec("IO-7", "CO-6")
def test_our_and_kafkas_brokers_give_producer_ids_under_either_controller(cluster: LocalCluster) -> None:
    """More than a block from each broker, so that each requests a block from each controller."""
    given: list[int] = []
    for under in (OURS, KAFKAS):
        hand_over(cluster, to=under)
        for broker in ALL_BROKERS:
            given += producer_ids(cluster, broker, BLOCK_SIZE + 1)
    assert len(set(given)) == len(given) == 2 * len(ALL_BROKERS) * (BLOCK_SIZE + 1)
    latest = latest_block(cluster)
    assert latest.size == BLOCK_SIZE
    assert max(given) <= latest.last


@pytest.mark.spec("CO-6")
@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1), Errors.INVALID_REQUEST),
        (InitProducerIdRequest(producer_id=1), Errors.INVALID_REQUEST),
        (InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=0), Errors.INVALID_TRANSACTION_TIMEOUT),
        (
            InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=900_001),
            Errors.INVALID_TRANSACTION_TIMEOUT,
        ),
    ],
)
def test_our_and_kafkas_brokers_refuse_init_producer_id_alike(
    cluster: LocalCluster, asked: InitProducerIdRequest, answered: Errors
) -> None:
    refusal = InitProducerIdResponse(error_code=answered, producer_id=-1, producer_epoch=-1)
    assert {broker: answers(cluster, broker, [asked]) for broker in ALL_BROKERS} == {
        broker: [refusal] for broker in ALL_BROKERS
    }


# -- records


@pytest.mark.spec("IO-7", "IO-2", "CO-6")
def test_the_console_producer_continues_through_a_controller_failover(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "typed", BOTH_ACKNOWLEDGE)
    log = tools.directory / "typed.log"
    with tools.typing(
        f"kafka-console-producer --bootstrap-server {ours(cluster)} --topic typed {PATIENT}", log
    ) as keyboard:
        for turn, meanwhile in enumerate((None, kill_the_controller, move_the_controller_to_ours)):
            if meanwhile is not None:
                meanwhile(cluster)
            written = 300 * turn
            keyboard.write("".join(f"{number}\n" for number in range(written, written + 300)))
            keyboard.flush()
            wait_for_records(cluster, "typed", written + 1)
    assert errors(log) == []
    assert sorted(consumed(tools, cluster, "typed")) == list(range(900))


@pytest.mark.spec("IO-7", "IO-2", "IO-3", "CO-6")
def test_no_acknowledged_record_is_lost_during_controller_changes(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "verified", BOTH_ACKNOWLEDGE)
    # It produces until SIGTERM, however long the failover lasts.
    line = f"kafka-verifiable-producer --bootstrap-server {ours(cluster)} --topic verified --max-messages -1"
    producing = tools.start(f"{line} --throughput 500", tools.directory / "verified.log")
    cluster.wait_until(lambda: acknowledged(producing.log), "the first record is acknowledged")
    kill_the_controller(cluster)
    move_the_controller_to_ours(cluster)
    halfway = len(acknowledged(producing.log))
    cluster.wait_until(lambda: len(acknowledged(producing.log)) > halfway + 1_000, "records are acknowledged as before")
    producing.ask_to_end()
    assert producing.wait(PATIENCE_S), producing.log_tail()
    assert refused(producing.log) == []
    assert sorted(consumed(tools, cluster, "verified")) == sorted(acknowledged(producing.log))


@pytest.mark.spec("IO-7", "IO-2", "CO-6")
@at_night("producers of other kinds send through a failover each time")
def test_the_performance_tools_run_through_a_controller_failover(cluster: LocalCluster, tools: Tools) -> None:
    """The tool for producers, and then that for consumers in a group."""
    create(tools, cluster, "measured", BOTH_ACKNOWLEDGE)
    properties = f"--producer-props bootstrap.servers={ours(cluster)} acks=all"
    # It runs for half a minute; the session of the killed controller ends after a third of that.
    line = "kafka-producer-perf-test --topic measured --num-records 30000 --record-size 100 --throughput 1000"
    producing = tools.start(f"{line} {properties}", tools.directory / "produced.log")
    wait_for_records(cluster, "measured", 1)
    epoch = controller_epoch(cluster)
    kill_the_controller(cluster)
    new_controller(cluster, epoch)
    halfway = sum(ends(cluster, "measured"))
    move_the_controller_to_ours(cluster)
    cluster.wait_until(lambda: not producing.is_running, "the producer has finished", PATIENCE_S)
    assert producing.exit_code == 0, producing.log_tail()
    assert errors(producing.log) == []
    summary = re.findall(
        r"^(\d+) records sent, [\d.]+ records/sec .* 99\.9th\.$", producing.log.read_text(), re.MULTILINE
    )
    assert summary == ["30000"]
    assert sum(ends(cluster, "measured")) == 30_000 > halfway > 0, "an idempotent producer writes no record twice"

    line = f"kafka-consumer-perf-test --bootstrap-server {ours(cluster)} --topic measured --messages 30000"
    printed = tools.succeed(f"{line} --group measuring --timeout 60000")
    header, *rows = [row.split(", ") for row in printed.splitlines()]
    consumed_by = [dict(zip(header, row, strict=True)) for row in rows]
    assert [row["data.consumed.in.nMsg"] for row in consumed_by] == ["30000"], printed


@pytest.mark.spec("IO-7", "IO-2", "CO-6")
def test_the_producer_of_librdkafka_continues_through_a_controller_failover(
    cluster: LocalCluster, tools: Tools
) -> None:
    create(tools, cluster, "exactly-once", BOTH_ACKNOWLEDGE)
    failures: list[confluent_kafka.KafkaError] = []
    delivered: list[int] = []

    def on_delivery(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is None:
            delivered.append(int(message.value() or b""))
        else:
            failures.append(error)

    settings = {"bootstrap.servers": ours(cluster), "enable.idempotence": True, "log_level": 0}
    producer = confluent_kafka.Producer(
        {**settings, "error_cb": lambda error: failures.append(error) if error.fatal() else None}
    )
    for turn, meanwhile in enumerate((None, kill_the_controller, move_the_controller_to_ours)):
        if meanwhile is not None:
            meanwhile(cluster)
        for number in range(500 * turn, 500 * (turn + 1)):
            producer.produce("exactly-once", str(number).encode(), on_delivery=on_delivery)
        assert producer.flush(PATIENCE_S) == 0
    assert failures == []
    assert sorted(delivered) == list(range(1_500))
    assert sorted(consumed(tools, cluster, "exactly-once")) == list(range(1_500))


# -- controller changes


def kill_the_controller(cluster: LocalCluster) -> None:
    """Kill the controller, which is one of ours and stays down for the rest of the test."""
    cluster.controller().kill()


def move_the_controller_to_ours(cluster: LocalCluster) -> None:
    cluster.wait_until(lambda: cluster.controller_id() not in (None, *dead(cluster)), "a running broker is controller")
    hand_over(cluster, to=OURS)


def dead(cluster: LocalCluster) -> list[int]:
    return [broker.id for broker in cluster.brokers if not broker.is_running]


# -- observations


def ours(cluster: LocalCluster) -> str:
    """Our brokers as bootstrap servers, including killed ones."""
    return ",".join(cluster.broker(broker).address for broker in OURS)


def answers(cluster: LocalCluster, broker: int, requests: list[InitProducerIdRequest]) -> list[InitProducerIdResponse]:
    """A broker's responses to requests over one connection; each is repeated until the broker is ready."""

    async def ask() -> list[InitProducerIdResponse]:
        host, _, port = cluster.broker(broker).address.rpartition(":")
        connection = await SocketNetwork().connect(host, int(port), timeout_ms=30_000)
        channel = RequestChannel(connection, client_id="ids")
        try:
            return [await until_ready(channel, request) for request in requests]
        finally:
            channel.close()

    return cluster.view.run(ask())


async def until_ready(channel: RequestChannel, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Repeat a request until the broker has loaded its producer ids, as producers do."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await channel.request(request, 5, timeout_ms=30_000)
            assert isinstance(answer, InitProducerIdResponse)
            if answer.error_code != Errors.COORDINATOR_LOAD_IN_PROGRESS:
                return answer
            await asyncio.sleep(0.02)


def producer_ids(cluster: LocalCluster, broker: int, count: int) -> list[int]:
    """The ids that a broker gives `count` producers, one after the other."""
    given = answers(cluster, broker, [InitProducerIdRequest(transaction_timeout_ms=2**31 - 1)] * count)
    assert {(answer.error_code, answer.producer_epoch) for answer in given} == {(Errors.NONE, 0)}
    return [answer.producer_id for answer in given]


def latest_block(cluster: LocalCluster) -> ProducerIdBlock:
    with operator(cluster) as zookeeper:
        return ProducerIdBlockZNode.decode(zookeeper.get(ProducerIdBlockZNode.path)[0])


def errors(log: Path) -> list[str]:
    """The lines of a tool's output with an error; repeated requests to a dead broker are warnings only."""
    return [
        line
        for line in log.read_text().splitlines()
        if re.search(r"ERROR|FATAL|^[\w.$]+(Exception|Error)\b|^\tat ", line)
    ]


def events_named(log: Path, name: str) -> list[Any]:
    """The events called `name` that the verifiable producer has printed; an incomplete line is left out."""
    events = []
    for line in log.read_text().splitlines():
        with suppress(ValueError):
            events.append(json.loads(line))
    return [event for event in events if event.get("name") == name]


def acknowledged(log: Path) -> list[int]:
    """The values of the records that were acknowledged to the verifiable producer."""
    return [int(event["value"]) for event in events_named(log, "producer_send_success")]


def refused(log: Path) -> list[Any]:
    """The records that were refused, except one that the producer was about to send at SIGTERM."""
    return [
        event
        for event in events_named(log, "producer_send_error")
        if "after producer has been closed" not in event["message"]
    ]


def ends(cluster: LocalCluster, topic: str) -> list[int]:
    """The end offsets of the partitions of `topic`, in their order."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": ours(cluster), "group.id": "-", "log_level": 0})
    try:
        partitions = sorted(consumer.list_topics(topic, 30).topics[topic].partitions)
        asked = [confluent_kafka.TopicPartition(topic, partition) for partition in partitions]
        return [consumer.get_watermark_offsets(partition, 30)[1] for partition in asked]
    finally:
        consumer.close()


def wait_for_records(cluster: LocalCluster, topic: str, count: int) -> None:
    cluster.wait_until(lambda: sum(ends(cluster, topic)) >= count, f"{topic} holds {count} records")


def consumed(tools: Tools, cluster: LocalCluster, topic: str) -> list[int]:
    """All values in `topic`, read with Kafka's console consumer up to the end offsets."""
    read = []
    for partition, end in enumerate(ends(cluster, topic)):
        line = f"kafka-console-consumer --bootstrap-server {ours(cluster)} --topic {topic} --partition {partition}"
        if end:
            read += tools.succeed(f"{line} --offset earliest --max-messages {end} --timeout-ms 60000").splitlines()
    return [int(value) for value in read]
