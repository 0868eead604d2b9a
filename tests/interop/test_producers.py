"""Producers and consumers that know nobody but our brokers go on while our controllers change.

Partitions that hold records have all their replicas on brokers of Kafka. An idempotent producer, which Java's are
unless told otherwise, has its id of whichever broker it happens to ask.
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

from brokers.machine.socket_network import SocketNetwork
from foundation.cluster.errors import Errors
from foundation.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from foundation.wire.request_channel import RequestChannel
from foundation.zk.admin_znodes import ProducerIdBlock, ProducerIdBlockZNode
from tests.interop.mixed import (
    EVERYBODY,
    KAFKAS,
    OURS,
    PATIENCE_S,
    all_at_work,
    controller_epoch,
    hand_over,
    mixed_cluster,
    new_controller,
    operator,
)
from tests.interop.steps import create, whole
from tests.interop.tools import PATIENT, Tools
from understudy.testbed.apache_kafka import ApacheKafka
from understudy.testbed.local_cluster import LocalCluster

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
    all_at_work(shared, under=OURS)
    if not whole(shared.view.picture(), OFFSETS):
        # Made by being asked for it would have replicas on brokers of ours, which keep nothing.
        create(tools, shared, OFFSETS, f"{ON_KAFKAS} --config cleanup.policy=compact")
    return shared


# -- ids


@pytest.mark.spec("IO-7", "CO-6")
def test_brokers_of_both_kinds_give_ids_under_controllers_of_both_kinds(cluster: LocalCluster) -> None:
    """More than a block of each broker, so that each asks each controller."""
    given: list[int] = []
    for under in (OURS, KAFKAS):
        hand_over(cluster, to=under)
        for broker in EVERYBODY:
            given += producer_ids(cluster, broker, BLOCK_SIZE + 1)
    assert len(set(given)) == len(given) == 2 * len(EVERYBODY) * (BLOCK_SIZE + 1)
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
        (InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=900_000), Errors.NOT_COORDINATOR),
    ],
)
def test_what_is_refused_is_refused_alike(
    cluster: LocalCluster, asked: InitProducerIdRequest, answered: Errors
) -> None:
    """Nobody coordinates transactions here: there is no `__transaction_state`."""
    refusal = InitProducerIdResponse(error_code=answered, producer_id=-1, producer_epoch=-1)
    assert {broker: answers(cluster, broker, [asked]) for broker in EVERYBODY} == {
        broker: [refusal] for broker in EVERYBODY
    }


# -- records


@pytest.mark.spec("IO-7", "IO-2", "CO-6")
def test_a_console_producer_goes_on_through_a_takeover(cluster: LocalCluster, tools: Tools) -> None:
    create(tools, cluster, "typed", BOTH_ACKNOWLEDGE)
    log = tools.directory / "typed.log"
    with tools.typing(
        f"kafka-console-producer --bootstrap-server {ours(cluster)} --topic typed {PATIENT}", log
    ) as keyboard:
        for turn, meanwhile in enumerate((None, kill_the_controller, let_another_of_ours_rule)):
            if meanwhile is not None:
                meanwhile(cluster)
            written = 300 * turn
            keyboard.write("".join(f"{number}\n" for number in range(written, written + 300)))
            keyboard.flush()
            wait_for_records(cluster, "typed", written + 1)
    assert errors(log) == []
    assert sorted(consumed(tools, cluster, "typed")) == list(range(900))


@pytest.mark.spec("IO-7", "IO-2", "IO-3", "CO-6")
def test_every_record_that_is_acknowledged_stays_while_our_controllers_change(
    cluster: LocalCluster, tools: Tools
) -> None:
    create(tools, cluster, "verified", BOTH_ACKNOWLEDGE)
    # However long the takeover lasts, it produces until it is asked to end.
    line = f"kafka-verifiable-producer --bootstrap-server {ours(cluster)} --topic verified --max-messages -1"
    producing = tools.start(f"{line} --throughput 500", tools.directory / "verified.log")
    cluster.wait_until(lambda: acknowledged(producing.log), "the first record is acknowledged")
    kill_the_controller(cluster)
    let_another_of_ours_rule(cluster)
    halfway = len(acknowledged(producing.log))
    cluster.wait_until(lambda: len(acknowledged(producing.log)) > halfway + 1_000, "records are acknowledged as before")
    producing.ask_to_end()
    assert producing.wait(PATIENCE_S), producing.log_tail()
    assert refused(producing.log) == []
    assert sorted(consumed(tools, cluster, "verified")) == sorted(acknowledged(producing.log))


@pytest.mark.spec("IO-7", "IO-2", "CO-6")
def test_performance_is_measured_through_a_takeover(cluster: LocalCluster, tools: Tools) -> None:
    """Producing and, in a group, consuming."""
    create(tools, cluster, "measured", BOTH_ACKNOWLEDGE)
    properties = f"--producer-props bootstrap.servers={ours(cluster)} acks=all"
    # Half a minute, of which a third goes until the session of the dead has ended.
    line = "kafka-producer-perf-test --topic measured --num-records 30000 --record-size 100 --throughput 1000"
    producing = tools.start(f"{line} {properties}", tools.directory / "produced.log")
    wait_for_records(cluster, "measured", 1)
    epoch = controller_epoch(cluster)
    kill_the_controller(cluster)
    new_controller(cluster, epoch)
    halfway = sum(ends(cluster, "measured"))
    let_another_of_ours_rule(cluster)
    cluster.wait_until(lambda: not producing.is_running, "the producer has finished", PATIENCE_S)
    assert producing.exit_code == 0, producing.log_tail()
    assert errors(producing.log) == []
    summary = re.findall(
        r"^(\d+) records sent, [\d.]+ records/sec .* 99\.9th\.$", producing.log.read_text(), re.MULTILINE
    )
    assert summary == ["30000"]
    assert sum(ends(cluster, "measured")) == 30_000 > halfway > 0, "an idempotent producer writes nothing twice"

    line = f"kafka-consumer-perf-test --bootstrap-server {ours(cluster)} --topic measured --messages 30000"
    printed = tools.succeed(f"{line} --group measuring --timeout 60000")
    header, *rows = [row.split(", ") for row in printed.splitlines()]
    consumed_by = [dict(zip(header, row, strict=True)) for row in rows]
    assert [row["data.consumed.in.nMsg"] for row in consumed_by] == ["30000"], printed


@pytest.mark.spec("IO-7", "IO-2", "CO-6")
def test_a_producer_of_another_maker_goes_on_through_a_takeover(cluster: LocalCluster, tools: Tools) -> None:
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
    for turn, meanwhile in enumerate((None, kill_the_controller, let_another_of_ours_rule)):
        if meanwhile is not None:
            meanwhile(cluster)
        for number in range(500 * turn, 500 * (turn + 1)):
            producer.produce("exactly-once", str(number).encode(), on_delivery=on_delivery)
        assert producer.flush(PATIENCE_S) == 0
    assert failures == []
    assert sorted(delivered) == list(range(1_500))
    assert sorted(consumed(tools, cluster, "exactly-once")) == list(range(1_500))


# -- what happens


def kill_the_controller(cluster: LocalCluster) -> None:
    """One of ours; it stays dead for the rest of the test."""
    cluster.controller().kill()


def let_another_of_ours_rule(cluster: LocalCluster) -> None:
    cluster.wait_until(lambda: cluster.controller_id() not in (None, *dead(cluster)), "a living broker is controller")
    hand_over(cluster, to=OURS)


def dead(cluster: LocalCluster) -> list[int]:
    return [broker.id for broker in cluster.brokers if not broker.is_running]


# -- what one sees


def ours(cluster: LocalCluster) -> str:
    """Bootstrap servers: our brokers, whether alive or not."""
    return ",".join(cluster.broker(broker).address for broker in OURS)


def answers(cluster: LocalCluster, broker: int, requests: list[InitProducerIdRequest]) -> list[InitProducerIdResponse]:
    """What a broker says to each, over one connection; it is asked again as long as it says that it is not ready."""

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
    """As producers do."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await channel.request(request, 5, timeout_ms=30_000)
            assert isinstance(answer, InitProducerIdResponse)
            if answer.error_code != Errors.COORDINATOR_LOAD_IN_PROGRESS:
                return answer
            await asyncio.sleep(0.02)


def producer_ids(cluster: LocalCluster, broker: int, count: int) -> list[int]:
    """What so many producers, one after the other, are given by a broker."""
    given = answers(cluster, broker, [InitProducerIdRequest(transaction_timeout_ms=2**31 - 1)] * count)
    assert {(answer.error_code, answer.producer_epoch) for answer in given} == {(Errors.NONE, 0)}
    return [answer.producer_id for answer in given]


def latest_block(cluster: LocalCluster) -> ProducerIdBlock:
    with operator(cluster) as zookeeper:
        return ProducerIdBlockZNode.decode(zookeeper.get(ProducerIdBlockZNode.path)[0])


def errors(log: Path) -> list[str]:
    """Lines of a tool's output that tell of an error; what is tried again, because a broker is dead, is a warning."""
    return [
        line
        for line in log.read_text().splitlines()
        if re.search(r"ERROR|FATAL|^[\w.$]+(Exception|Error)\b|^\tat ", line)
    ]


def told(log: Path, name: str) -> list[Any]:
    """What the verifiable producer tells under `name`; it may be in the middle of a line."""
    events = []
    for line in log.read_text().splitlines():
        with suppress(ValueError):
            events.append(json.loads(line))
    return [event for event in events if event.get("name") == name]


def acknowledged(log: Path) -> list[int]:
    """The values of the records that the verifiable producer says were acknowledged."""
    return [int(event["value"]) for event in told(log, "producer_send_success")]


def refused(log: Path) -> list[Any]:
    """What became of records that were not; it may be about to send one more when it is asked to end."""
    return [
        event for event in told(log, "producer_send_error") if "after producer has been closed" not in event["message"]
    ]


def ends(cluster: LocalCluster, topic: str) -> list[int]:
    """How many records the partitions of `topic` hold, in their order."""
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
    """All values in `topic`, by Kafka's console consumer, which is told how many there are."""
    read = []
    for partition, end in enumerate(ends(cluster, topic)):
        line = f"kafka-console-consumer --bootstrap-server {ours(cluster)} --topic {topic} --partition {partition}"
        if end:
            read += tools.succeed(f"{line} --offset earliest --max-messages {end} --timeout-ms 60000").splitlines()
    return [int(value) for value in read]
