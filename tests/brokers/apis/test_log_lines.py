"""Tests of the log lines of a broker about control requests, registration and ISRs: logger, level and fields."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import pytest
import structlog

from tests.brokers.harness import BROKER_EPOCH, BrokerHarness
from tests.brokers.parts import ME, ORDERS, OTHER, state
from tests.brokers.parts import leader_and_isr as request_of
from tests.operators_log import Line, operators_log
from understudy.brokers.apis import leader_and_isr, stop_replica, update_metadata
from understudy.brokers.apis.services import RequestContext
from understudy.brokers.config.logger_levels import LoggerLevels
from understudy.brokers.config.operations import AlterConfigOperation, RequestedConfig
from understudy.brokers.machine.operator_log import LogIdentity, configure_operator_log
from understudy.brokers.membership.registration import Registration
from understudy.brokers.replication.alter_partition_manager import AlterPartitionManager
from understudy.foundation.cluster.broker import Broker, EndPoint, SecurityProtocol
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.operator_lines import LINES, is_detailed, with_a_line
from understudy.foundation.wire.messages.alter_partition import AlterPartitionResponsePartitionData
from understudy.foundation.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

STATES = "state.change.logger"
PARTITION = "kafka.cluster.Partition"
CONTEXT = RequestContext(api_version=7, correlation_id=77, client_id="9", listener="PLAINTEXT", peer="p:1")
FROM = {"broker": ME, "controller": 9, "controller_epoch": 1, "correlation_id": 77}
ANY = ...

Scenario = Callable[[BrokerHarness], Awaitable[None]]


async def becomes_leader_and_follower(harness: BrokerHarness) -> None:
    first = request_of(state(0, leader=OTHER, leader_epoch=2), broker_epoch=BROKER_EPOCH)
    await leader_and_isr.handle(harness.services, first, CONTEXT)
    second = request_of(
        state(0, leader=ME, leader_epoch=3, partition_epoch=5), state(1, leader=OTHER), broker_epoch=BROKER_EPOCH
    )
    await leader_and_isr.handle(harness.services, second, CONTEXT)


async def receives_stale_leader_epochs(harness: BrokerHarness) -> None:
    harness.become_leader("orders", 0, leader_epoch=5)
    await leader_and_isr.handle(
        harness.services, request_of(state(0, leader_epoch=4), broker_epoch=BROKER_EPOCH), CONTEXT
    )
    await stop_replica.handle(harness.services, stopping(leader_epoch=4), CONTEXT)


async def receives_a_stale_broker_epoch(harness: BrokerHarness) -> None:
    await leader_and_isr.handle(harness.services, request_of(state(0), broker_epoch=BROKER_EPOCH - 1), CONTEXT)


async def receives_a_stale_controller_epoch(harness: BrokerHarness) -> None:
    harness.replicas.controller_epoch = 4
    await stop_replica.handle(harness.services, stopping(leader_epoch=4), CONTEXT)


async def stops_a_replica(harness: BrokerHarness) -> None:
    harness.become_leader("orders", 0, leader_epoch=5)
    await stop_replica.handle(harness.services, stopping(leader_epoch=6), CONTEXT)


async def receives_metadata(harness: BrokerHarness) -> None:
    def request(*leaders: int) -> UpdateMetadataRequest:
        states = tuple(
            UpdateMetadataPartitionState(partition_index=n, leader=leader) for n, leader in enumerate(leaders)
        )
        topic = UpdateMetadataTopicState(topic_name="orders", topic_id=ORDERS, partition_states=states)
        return UpdateMetadataRequest(
            controller_id=9, controller_epoch=1, broker_epoch=BROKER_EPOCH, topic_states=(topic,)
        )

    await update_metadata.handle(harness.services, request(1, 2, 3), CONTEXT)
    await update_metadata.handle(harness.services, request(1, -2, -2), CONTEXT)


async def a_follower_lags(harness: BrokerHarness) -> None:
    harness.become_leader("orders", 0, leader_epoch=5)
    manager = harness.services.isr
    harness.clock.now_ms += 100_000
    manager.check_isrs()
    assert isinstance(manager.alter_partitions, AlterPartitionManager)
    (change,) = manager.alter_partitions._unsent.values()
    answer = AlterPartitionResponsePartitionData(
        partition_index=0, leader_id=ME, leader_epoch=5, isr=change.proposal.isr, partition_epoch=1
    )
    manager._on_answer(change, Errors.NONE, answer)


async def registers(harness: BrokerHarness) -> None:
    class Store:
        session_id = 5

        @property
        def brokers(self) -> Store:
            return self

        async def register(self, broker: Broker, **_: object) -> int:
            return 40

    endpoint = EndPoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "h1", 9092)
    broker = Broker(id=BrokerId(ME), endpoints=(endpoint,))
    registration = Registration(broker, znode_version=5, clock=harness.clock, events=harness.recorder.log)
    await registration.register(Store())  # type: ignore[arg-type]  # a fake of the store


def stopping(*, leader_epoch: int) -> StopReplicaRequest:
    states = (StopReplicaPartitionState(partition_index=0, leader_epoch=leader_epoch),)
    topics = (StopReplicaTopicState(topic_name="orders", partition_states=states),)
    return StopReplicaRequest(controller_id=9, controller_epoch=1, broker_epoch=BROKER_EPOCH, topic_states=topics)


class Expected(NamedTuple):
    id: str
    scenario: Scenario
    logger: str
    level: str
    text: str
    fields: Mapping[str, object]
    """Fields that the line must have; `...` stands for any value."""


TABLE = (
    Expected(
        "LG-21", becomes_leader_and_follower, STATES, "info", "handling LeaderAndIsr request", {**FROM, "partitions": 2}
    ),
    Expected(
        "LG-21",
        becomes_leader_and_follower,
        STATES,
        "info",
        "leader starts",
        {
            **FROM,
            "partition": "orders-0",
            "topic_id": ORDERS,
            "leader_epoch": 3,
            "partition_epoch": 5,
            "end_offset": 0,
            "high_watermark": 0,
            "isr": (ME, OTHER),
            "adding_replicas": (),
            "removing_replicas": (),
            "previous_leader": OTHER,
            "previous_leader_epoch": 2,
        },
    ),
    Expected(
        "LG-21",
        becomes_leader_and_follower,
        STATES,
        "info",
        "follower starts",
        {"partition": "orders-1", "leader": OTHER, "leader_epoch": 0, "previous_leader": None},
    ),
    Expected(
        "LG-21",
        becomes_leader_and_follower,
        STATES,
        "info",
        "finished LeaderAndIsr request",
        {**FROM, "leaders": 1, "followers": 1, "took_ms": ANY},
    ),
    Expected(
        "LG-22",
        receives_a_stale_broker_epoch,
        STATES,
        "warning",
        "ignoring control request",
        {
            **FROM,
            "api": "LeaderAndIsr",
            "error": "STALE_BROKER_EPOCH",
            "broker_epoch": BROKER_EPOCH - 1,
            "current_broker_epoch": BROKER_EPOCH,
            "current_controller_epoch": 0,
        },
    ),
    Expected(
        "LG-22",
        receives_a_stale_controller_epoch,
        STATES,
        "warning",
        "ignoring control request",
        {**FROM, "api": "StopReplica", "error": "STALE_CONTROLLER_EPOCH", "current_controller_epoch": 4},
    ),
    Expected(
        "LG-22",
        receives_stale_leader_epochs,
        STATES,
        "warning",
        "ignoring LeaderAndIsr of a partition",
        {
            **FROM,
            "partition": "orders-0",
            "leader_epoch": 4,
            "current_leader_epoch": 5,
            "error": "STALE_CONTROLLER_EPOCH",
        },
    ),
    Expected(
        "LG-22",
        receives_stale_leader_epochs,
        STATES,
        "warning",
        "ignoring StopReplica of a partition",
        {**FROM, "partition": "orders-0", "current_leader_epoch": 5, "error": "FENCED_LEADER_EPOCH"},
    ),
    Expected(
        "LG-23",
        receives_metadata,
        STATES,
        "info",
        "updated metadata cache",
        {**FROM, "added_partitions": 3, "deleted_partitions": 0},
    ),
    Expected(
        "LG-23",
        receives_metadata,
        STATES,
        "info",
        "updated metadata cache",
        {**FROM, "added_partitions": 1, "deleted_partitions": 2},
    ),
    Expected("LG-23", stops_a_replica, STATES, "info", "handling StopReplica request", {**FROM, "partitions": 1}),
    Expected(
        "LG-24",
        registers,
        "kafka.zk.KafkaZkClient",
        "info",
        "registered broker",
        {"broker": ME, "path": "/brokers/ids/1", "addresses": "PLAINTEXT://h1:9092", "czxid": 40},
    ),
    Expected(
        "LG-24",
        a_follower_lags,
        PARTITION,
        "info",
        "shrinking ISR",
        {
            "broker": ME,
            "partition": "orders-0",
            "isr": (ME, OTHER),
            "new_isr": (ME,),
            "high_watermark": 0,
            "end_offset": 0,
            "out_of_sync": {OTHER: None},
        },
    ),
    Expected(
        "LG-24",
        a_follower_lags,
        PARTITION,
        "info",
        "ISR updated",
        {"broker": ME, "partition": "orders-0", "isr": (ME,), "partition_epoch": 1},
    ),
)


def lines_logged_by(scenario: Scenario, level: int = logging.DEBUG) -> list[Line]:
    """Run `scenario` with a new harness; return the log lines of `level` and above."""

    async def run() -> None:
        await scenario(BrokerHarness())

    with operators_log(level) as lines:
        asyncio.run(run())
    return lines


@pytest.mark.spec(*sorted({expected.id for expected in TABLE}))
@pytest.mark.parametrize("expected", TABLE, ids=lambda expected: f"{expected.id} {expected.text}")
def test_line_is_logged(expected: Expected) -> None:
    lines = lines_logged_by(expected.scenario)
    alike = [line for line in lines if line.text == expected.text]
    assert any(
        (line.logger, line.level) == (expected.logger, expected.level)
        and all(name in line.fields and value in (ANY, line.fields[name]) for name, value in expected.fields.items())
        for line in alike
    ), alike or {line.text for line in lines}


def test_repeated_leader_epoch_is_not_logged_as_ignored() -> None:
    async def repeated(harness: BrokerHarness) -> None:
        harness.become_leader("orders", 0, leader_epoch=5)
        await leader_and_isr.handle(
            harness.services, request_of(state(0, leader_epoch=5), broker_epoch=BROKER_EPOCH), CONTEXT
        )

    assert [line.text for line in lines_logged_by(repeated)] == [
        "handling LeaderAndIsr request",
        "finished LeaderAndIsr request",
    ]


def test_first_partitions_of_a_large_request_have_lines() -> None:
    async def many(harness: BrokerHarness) -> None:
        states = (state(number, leader=ME) for number in range(3 * LINES))
        await leader_and_isr.handle(harness.services, request_of(*states, broker_epoch=BROKER_EPOCH), CONTEXT)

    def starts(level: int) -> int:
        return sum(line.text == "leader starts" for line in lines_logged_by(many, level))

    assert (starts(logging.DEBUG), starts(logging.INFO), starts(logging.WARNING)) == (3 * LINES, LINES, 0)


def test_isr_changes_beyond_the_lines_of_a_second_are_counted() -> None:
    async def all_lag(harness: BrokerHarness) -> None:
        for number in range(LINES + 7):
            harness.become_leader("orders", number)
        harness.clock.now_ms += 100_000
        harness.services.isr.check_isrs()
        harness.become_leader("payments", 0)
        harness.clock.now_ms += 100_000
        harness.services.isr.check_isrs()

    lines = [line for line in lines_logged_by(all_lag, logging.INFO) if line.text == "shrinking ISR"]
    assert len(lines) == LINES + 1
    assert [line.fields["left_out"] for line in lines if "left_out" in line.fields] == [7]
    assert lines[-1].fields["partition"] == "payments-0"


def test_partition_lines_follow_the_level_of_the_logger() -> None:
    levels, stream = LoggerLevels(), io.StringIO()
    configure_operator_log(stream, identity=LogIdentity(1), levels=levels)
    log: structlog.typing.FilteringBoundLogger = structlog.get_logger("state.change.logger")
    read = []
    for level in ("INFO", "DEBUG", "ERROR"):
        levels.apply([RequestedConfig("state.change.logger", AlterConfigOperation.SET, level)])
        read.append((is_detailed(log), len(list(with_a_line(log, range(2 * LINES))))))
        log.debug("in detail", level=level)
    assert read == [(False, LINES), (True, 2 * LINES), (False, 0)]
    assert [json.loads(line)["level"] for line in stream.getvalue().splitlines()] == ["debug"]
