"""LeaderAndIsr, StopReplica, UpdateMetadata: their epoch fences, their answers, their records."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from brokers.apis import leader_and_isr, stop_replica, update_metadata
from foundation.cluster.errors import Errors
from foundation.cluster.identifiers import TopicPartition
from foundation.eventlog.fences import Fence, Fences
from foundation.operator_lines import LINES
from foundation.wire.messages.leader_and_isr import LeaderAndIsrResponse
from foundation.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from foundation.wire.messages.update_metadata import UpdateMetadataBroker, UpdateMetadataEndpoint, UpdateMetadataRequest
from tests.brokers import stage as scene
from tests.brokers.services import BROKER_EPOCH, Stage
from tests.brokers.stage import ORDERS, ORDERS_0, state
from tests.operators_log import Line, operators_log


def played(act: Callable[[Stage], Awaitable[Any]]) -> tuple[Any, Stage]:
    async def run() -> tuple[Any, Stage]:
        stage = Stage()
        return await act(stage), stage

    return asyncio.run(run())


def lisr(
    stage: Stage, *, broker_epoch: int = BROKER_EPOCH, controller_epoch: int = 1, version: int = 7
) -> Awaitable[Any]:
    request = scene.leader_and_isr(state(0), state(1), broker_epoch=broker_epoch, controller_epoch=controller_epoch)
    return leader_and_isr.handle(stage.services, request, stage.context(version))


def sr(
    stage: Stage, *, broker_epoch: int = BROKER_EPOCH, controller_epoch: int = 1, version: int = 4
) -> Awaitable[Any]:
    states = (
        StopReplicaTopicState(topic_name="orders", partition_states=(StopReplicaPartitionState(leader_epoch=9),)),
    )
    request = StopReplicaRequest(broker_epoch=broker_epoch, controller_epoch=controller_epoch, topic_states=states)
    return stop_replica.handle(stage.services, request, stage.context(version))


def umr(
    stage: Stage, *, broker_epoch: int = BROKER_EPOCH, controller_epoch: int = 1, version: int = 8
) -> Awaitable[Any]:
    request = UpdateMetadataRequest(controller_id=3, broker_epoch=broker_epoch, controller_epoch=controller_epoch)
    return update_metadata.handle(stage.services, request, stage.context(version))


@pytest.mark.spec("BK-1")
@pytest.mark.parametrize("request_of", [lisr, sr, umr])
@pytest.mark.parametrize(("offset", "refused"), [(-1, True), (0, False), (1, False)])
def test_request_for_an_earlier_registration_is_refused_and_one_for_a_later_is_not(
    request_of: Callable[..., Awaitable[Any]], offset: int, refused: bool
) -> None:
    response, stage = played(lambda stage: request_of(stage, broker_epoch=BROKER_EPOCH + offset))
    assert response.error_code == (Errors.STALE_BROKER_EPOCH if refused else Errors.NONE)
    hits = [(hit["fence"], hit["offered"], hit["known"]) for hit in stage.recorder.of("FenceHit")]
    assert hits == ([("broker.broker-epoch", BROKER_EPOCH - 1, BROKER_EPOCH)] if refused else [])


@pytest.mark.spec("BK-1")
def test_request_without_broker_epoch_is_accepted() -> None:
    response, _ = played(lambda stage: lisr(stage, broker_epoch=-1))
    assert response.error_code == Errors.NONE


@pytest.mark.spec("BK-2", "EL-16")
@pytest.mark.parametrize("request_of", [lisr, sr, umr])
@pytest.mark.parametrize("newer_of", [lisr, sr, umr])
def test_newest_controller_epoch_holds_for_all_three_requests(
    newer_of: Callable[..., Awaitable[Any]], request_of: Callable[..., Awaitable[Any]]
) -> None:
    async def act(stage: Stage) -> list[int]:
        await newer_of(stage, controller_epoch=5)
        answers = [await request_of(stage, controller_epoch=epoch) for epoch in (4, 5, 6, 5)]
        return [answer.error_code for answer in answers]

    codes, stage = played(act)
    stale = Errors.STALE_CONTROLLER_EPOCH
    assert codes == [stale, Errors.NONE, Errors.NONE, stale]
    assert {hit["fence"] for hit in stage.recorder.of("FenceHit")} == {"broker.controller-epoch"}
    assert stage.recorder.log.controller_epoch == 6


@pytest.mark.spec("BK-2", "EL-16")
def test_refused_request_changes_nothing() -> None:
    async def act(stage: Stage) -> list[TopicPartition]:
        await umr(stage, controller_epoch=5)
        await lisr(stage, controller_epoch=4)
        return sorted(stage.replicas.partitions)

    partitions, stage = played(act)
    assert partitions == []
    assert stage.recorder.of("LeaderAndIsrApplied") == []


@pytest.mark.spec("MC-4")
def test_differing_listeners_are_an_error_in_the_log_and_nowhere_else() -> None:
    def update_of(*listeners: str) -> Callable[[Stage], Awaitable[Any]]:
        named = enumerate(listeners, start=1)
        alive = tuple(
            UpdateMetadataBroker(id=number, endpoints=(UpdateMetadataEndpoint(host="h", listener=name),))
            for number, name in named
        )
        request = UpdateMetadataRequest(
            controller_id=3, broker_epoch=BROKER_EPOCH, controller_epoch=1, live_brokers=alive
        )
        return lambda stage: update_metadata.handle(stage.services, request, stage.context(8))

    with operators_log(logging.ERROR) as lines:
        for listeners in (("A", "A"), ("A", "B")):
            response, stage = played(update_of(*listeners))
            assert response.error_code == Errors.NONE
            assert sorted(stage.metadata.snapshot.live_brokers) == [1, 2]
    fields = {"broker": 1, "count": 2, "listeners": {1: ("A",), 2: ("B",)}}
    name = "kafka.server.metadata.ZkMetadataCache"
    assert lines == [Line(name, "error", "listeners are not identical across brokers", fields)]
    with operators_log(logging.ERROR) as lines:
        played(update_of("A", *"B" * 1_000))
    shown = {number: ("A",) if number == 1 else ("B",) for number in range(1, LINES + 1)}
    assert [line.fields for line in lines] == [{"broker": 1, "count": 1_001, "listeners": shown}]


@pytest.mark.spec("BK-1", "BK-2", "BK-12")
@pytest.mark.parametrize(("version", "named"), [(4, "orders"), (5, ORDERS)])
def test_leader_and_isr_answers_every_partition_also_when_refused(version: int, named: str) -> None:
    response, _ = played(lambda stage: lisr(stage, broker_epoch=1, version=version))
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
    response, _ = played(lambda stage: sr(stage, broker_epoch=1))
    assert response.partition_errors == ()


@pytest.mark.spec("BK-14")
@pytest.mark.parametrize(
    ("epochs", "answered", "hosted"), [((6, 3), Errors.FENCED_LEADER_EPOCH, True), ((3, 6), Errors.NONE, False)]
)
def test_last_entry_counts_for_a_replica_that_is_stopped_twice_in_one_request(
    epochs: tuple[int, int], answered: Errors, hosted: bool
) -> None:
    async def stop_twice(stage: Stage) -> Any:
        stage.lead("orders", 0, leader_epoch=5)
        states = tuple(StopReplicaPartitionState(leader_epoch=epoch, delete_partition=True) for epoch in epochs)
        request = StopReplicaRequest(
            broker_epoch=BROKER_EPOCH,
            controller_epoch=1,
            topic_states=(StopReplicaTopicState(topic_name="orders", partition_states=states),),
        )
        return await stop_replica.handle(stage.services, request, stage.context(4))

    response, stage = played(stop_twice)
    assert [error.error_code for error in response.partition_errors] == [answered]
    assert (ORDERS_0 in stage.replicas.partitions) == hosted


def test_fence_that_is_off_accepts_the_request_and_records_the_hit() -> None:
    async def act(stage: Stage) -> Any:
        stage.services = _with_fences(stage, Fence.BROKER_CONTROLLER_EPOCH)
        await umr(stage, controller_epoch=5)
        return await lisr(stage, controller_epoch=4)

    response, stage = played(act)
    assert response.error_code == Errors.NONE
    assert ORDERS_0 in stage.replicas.partitions
    assert [hit["switched_off"] for hit in stage.recorder.of("FenceHit")] == [True]
    assert stage.replicas.controller_epoch == 5, "an accepted older epoch does not become the newest"


def _with_fences(stage: Stage, *switched_off: Fence) -> Any:
    return dataclasses.replace(stage.services, fences=Fences(stage.recorder.log, switched_off=switched_off))


def test_applied_states_are_recorded_as_the_controller_sent_them() -> None:
    _, stage = played(lambda stage: lisr(stage))
    applied = stage.recorder.of("LeaderAndIsrApplied")[0]
    assert applied["leaders"] == [["orders", 0, 1, 0, [1, 2], 0, 1, 0], ["orders", 1, 1, 0, [1, 2], 0, 1, 0]]
    assert (applied["controller_id"], applied["request_broker_epoch"]) == (9, BROKER_EPOCH)
