"""Tests of LeaderAndIsr, StopReplica and UpdateMetadata: epoch fences, responses and records."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.brokers import parts
from tests.brokers.harness import BROKER_EPOCH, BrokerHarness
from tests.brokers.parts import ORDERS, ORDERS_0, state
from tests.operators_log import Line, operators_log
from understudy.brokers.apis import leader_and_isr, stop_replica, update_metadata
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.fences import Fence, Fences, Switch
from understudy.foundation.eventlog.rules import Fix
from understudy.foundation.operator_lines import LINES
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrResponse
from understudy.foundation.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)


def run(scenario: Callable[[BrokerHarness], Awaitable[Any]]) -> tuple[Any, BrokerHarness]:
    """Run `scenario` with a new harness; return its result and the harness."""

    async def with_harness() -> tuple[Any, BrokerHarness]:
        harness = BrokerHarness()
        return await scenario(harness), harness

    return asyncio.run(with_harness())


def handle_leader_and_isr(
    harness: BrokerHarness, *, broker_epoch: int = BROKER_EPOCH, controller_epoch: int = 1, version: int = 7
) -> Awaitable[Any]:
    request = parts.leader_and_isr(state(0), state(1), broker_epoch=broker_epoch, controller_epoch=controller_epoch)
    return leader_and_isr.handle(harness.services, request, harness.context(version))


def handle_stop_replica(
    harness: BrokerHarness, *, broker_epoch: int = BROKER_EPOCH, controller_epoch: int = 1, version: int = 4
) -> Awaitable[Any]:
    states = (
        StopReplicaTopicState(topic_name="orders", partition_states=(StopReplicaPartitionState(leader_epoch=9),)),
    )
    request = StopReplicaRequest(broker_epoch=broker_epoch, controller_epoch=controller_epoch, topic_states=states)
    return stop_replica.handle(harness.services, request, harness.context(version))


def handle_update_metadata(
    harness: BrokerHarness, *, broker_epoch: int = BROKER_EPOCH, controller_epoch: int = 1, version: int = 8
) -> Awaitable[Any]:
    request = UpdateMetadataRequest(controller_id=3, broker_epoch=broker_epoch, controller_epoch=controller_epoch)
    return update_metadata.handle(harness.services, request, harness.context(version))


@pytest.mark.spec("BK-1")
@pytest.mark.parametrize("request_of", [handle_leader_and_isr, handle_stop_replica, handle_update_metadata])
@pytest.mark.parametrize(("offset", "refused"), [(-1, True), (0, False), (1, False)])
def test_request_for_an_earlier_registration_is_refused_and_one_for_a_later_is_not(
    request_of: Callable[..., Awaitable[Any]], offset: int, refused: bool
) -> None:
    response, harness = run(lambda harness: request_of(harness, broker_epoch=BROKER_EPOCH + offset))
    assert response.error_code == (Errors.STALE_BROKER_EPOCH if refused else Errors.NONE)
    hits = [(hit["fence"], hit["offered"], hit["known"]) for hit in harness.recorder.of("FenceHit")]
    assert hits == ([("broker.broker-epoch", BROKER_EPOCH - 1, BROKER_EPOCH)] if refused else [])


@pytest.mark.spec("BK-1")
def test_request_without_broker_epoch_is_accepted() -> None:
    response, _ = run(lambda harness: handle_leader_and_isr(harness, broker_epoch=-1))
    assert response.error_code == Errors.NONE


@pytest.mark.spec("BK-2", "EL-16")
@pytest.mark.parametrize("request_of", [handle_leader_and_isr, handle_stop_replica, handle_update_metadata])
@pytest.mark.parametrize("newer_of", [handle_leader_and_isr, handle_stop_replica, handle_update_metadata])
def test_newest_controller_epoch_holds_for_all_three_requests(
    newer_of: Callable[..., Awaitable[Any]], request_of: Callable[..., Awaitable[Any]]
) -> None:
    async def scenario(harness: BrokerHarness) -> list[int]:
        await newer_of(harness, controller_epoch=5)
        answers = [await request_of(harness, controller_epoch=epoch) for epoch in (4, 5, 6, 5)]
        return [answer.error_code for answer in answers]

    codes, harness = run(scenario)
    stale = Errors.STALE_CONTROLLER_EPOCH
    assert codes == [stale, Errors.NONE, Errors.NONE, stale]
    assert {hit["fence"] for hit in harness.recorder.of("FenceHit")} == {"broker.controller-epoch"}
    assert harness.recorder.log.controller_epoch == 6


@pytest.mark.spec("BK-2", "EL-16")
def test_refused_request_changes_nothing() -> None:
    async def scenario(harness: BrokerHarness) -> list[TopicPartition]:
        await handle_update_metadata(harness, controller_epoch=5)
        await handle_leader_and_isr(harness, controller_epoch=4)
        return sorted(harness.replicas.partitions)

    partitions, harness = run(scenario)
    assert partitions == []
    assert harness.recorder.of("LeaderAndIsrApplied") == []


@pytest.mark.spec("MC-4")
def test_differing_listeners_are_an_error_in_the_log_and_nowhere_else() -> None:
    def update_of(*listeners: str) -> Callable[[BrokerHarness], Awaitable[Any]]:
        named = enumerate(listeners, start=1)
        alive = tuple(
            UpdateMetadataBroker(id=number, endpoints=(UpdateMetadataEndpoint(host="h", listener=name),))
            for number, name in named
        )
        request = UpdateMetadataRequest(
            controller_id=3, broker_epoch=BROKER_EPOCH, controller_epoch=1, live_brokers=alive
        )
        return lambda harness: update_metadata.handle(harness.services, request, harness.context(8))

    with operators_log(logging.ERROR) as lines:
        for listeners in (("A", "A"), ("A", "B")):
            response, harness = run(update_of(*listeners))
            assert response.error_code == Errors.NONE
            assert sorted(harness.metadata.snapshot.live_brokers) == [1, 2]
    fields = {"broker": 1, "count": 2, "listeners": {1: ("A",), 2: ("B",)}}
    name = "kafka.server.metadata.ZkMetadataCache"
    assert lines == [Line(name, "error", "listeners are not identical across brokers", fields)]
    with operators_log(logging.ERROR) as lines:
        run(update_of("A", *"B" * 1_000))
    shown = {number: ("A",) if number == 1 else ("B",) for number in range(1, LINES + 1)}
    assert [line.fields for line in lines] == [{"broker": 1, "count": 1_001, "listeners": shown}]


@pytest.mark.spec("BK-1", "BK-2", "BK-12")
@pytest.mark.parametrize(("version", "named"), [(4, "orders"), (5, ORDERS)])
def test_leader_and_isr_answers_every_partition_also_when_refused(version: int, named: str) -> None:
    response, _ = run(lambda harness: handle_leader_and_isr(harness, broker_epoch=1, version=version))
    assert isinstance(response, LeaderAndIsrResponse)
    if version < 5:
        found = [(error.topic_name, error.partition_index, error.error_code) for error in response.partition_errors]
    else:
        found = [
            (topic.topic_id, error.partition_index, error.error_code)
            for topic in response.topics
            for error in topic.partition_errors
        ]
    assert found == [(named, 0, Errors.STALE_BROKER_EPOCH), (named, 1, Errors.STALE_BROKER_EPOCH)]


@pytest.mark.spec("BK-2")
def test_refused_stop_replica_names_no_partition() -> None:
    response, _ = run(lambda harness: handle_stop_replica(harness, broker_epoch=1))
    assert response.partition_errors == ()


@pytest.mark.spec("BK-14")
@pytest.mark.parametrize(
    ("epochs", "answered", "hosted"), [((6, 3), Errors.FENCED_LEADER_EPOCH, True), ((3, 6), Errors.NONE, False)]
)
def test_last_entry_counts_for_a_replica_that_is_stopped_twice_in_one_request(
    epochs: tuple[int, int], answered: Errors, hosted: bool
) -> None:
    async def stop_twice(harness: BrokerHarness) -> Any:
        harness.become_leader("orders", 0, leader_epoch=5)
        states = tuple(StopReplicaPartitionState(leader_epoch=epoch, delete_partition=True) for epoch in epochs)
        request = StopReplicaRequest(
            broker_epoch=BROKER_EPOCH,
            controller_epoch=1,
            topic_states=(StopReplicaTopicState(topic_name="orders", partition_states=states),),
        )
        return await stop_replica.handle(harness.services, request, harness.context(4))

    response, harness = run(stop_twice)
    assert [error.error_code for error in response.partition_errors] == [answered]
    assert (ORDERS_0 in harness.replicas.partitions) == hosted


def test_fence_that_is_off_accepts_the_request_and_records_the_hit() -> None:
    async def scenario(harness: BrokerHarness) -> Any:
        harness.services = _with_fences(harness, Fence.BROKER_CONTROLLER_EPOCH)
        await handle_update_metadata(harness, controller_epoch=5)
        return await handle_leader_and_isr(harness, controller_epoch=4)

    response, harness = run(scenario)
    assert response.error_code == Errors.NONE
    assert ORDERS_0 in harness.replicas.partitions
    assert [hit["switched_off"] for hit in harness.recorder.of("FenceHit")] == [True]
    assert harness.replicas.controller_epoch == 5, "an accepted older epoch does not become the newest"


@pytest.mark.parametrize("is_on", [True, False])
def test_a_request_for_a_registration_that_this_broker_does_not_know_yet_is_accepted(is_on: bool) -> None:
    async def scenario(harness: BrokerHarness) -> Any:
        harness.services = _with_fences(harness, *(() if is_on else (Fix.KAFKA_9839,)))
        return await handle_leader_and_isr(harness, broker_epoch=BROKER_EPOCH + 1)

    response, harness = run(scenario)
    assert response.error_code == (Errors.NONE if is_on else Errors.STALE_BROKER_EPOCH)
    assert harness.services.fences.hits[Fix.KAFKA_9839] == 1
    assert [hit["fence"] for hit in harness.recorder.of("FenceHit")] == ([] if is_on else ["kafka-9839"])


def _with_fences(harness: BrokerHarness, *switched_off: Switch) -> Any:
    return dataclasses.replace(harness.services, fences=Fences(harness.recorder.log, switched_off=switched_off))


def test_applied_states_are_recorded_as_the_controller_sent_them() -> None:
    _, harness = run(lambda harness: handle_leader_and_isr(harness))
    applied = harness.recorder.of("LeaderAndIsrApplied")[0]
    assert applied["leaders"] == [["orders", 0, 1, 0, [1, 2], 0, 1, 0], ["orders", 1, 1, 0, [1, 2], 0, 1, 0]]
    assert (applied["controller_id"], applied["request_broker_epoch"]) == (9, BROKER_EPOCH)
