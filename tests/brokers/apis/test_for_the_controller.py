"""Requests that the controller answers, and how this broker hands them over."""

from __future__ import annotations

import asyncio

import pytest

from brokers.apis import alter_partition, controlled_shutdown, elect_leaders
from controller.events import ElectionType
from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.wire.messages.alter_partition import AlterPartitionRequest
from foundation.wire.messages.controlled_shutdown import ControlledShutdownRequest
from foundation.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from tests.brokers.services import Stage

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
NOT_NEEDED = ApiError(Errors.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


def results(response: ElectLeadersResponse) -> dict[TopicPartition, str]:
    return {
        TopicPartition(topic.topic, each.partition_id): Errors(each.error_code).name
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


@pytest.mark.spec("PE-5")
def test_the_answer_waits_for_the_metadata_cache_and_gives_up_per_partition() -> None:
    async def scene() -> tuple[bool, dict[TopicPartition, str]]:
        stage = Stage()
        stage.hear({"a": {0: 1, 1: 1}})
        stage.controller.elections = {A0: BrokerId(2), A1: BrokerId(3), B0: NOT_NEEDED}
        request = ElectLeadersRequest(
            timeout_ms=80,
            topic_partitions=(TopicPartitions(topic="b", partitions=(0,)), TopicPartitions(topic="a", partitions=(1, 0, 1))),
        )
        waiting = asyncio.create_task(elect_leaders.handle(stage.services, request, stage.context(2)))
        await asyncio.sleep(0.01)
        waited = not waiting.done()
        stage.hear({"a": {0: 2, 1: 1}})
        response = await waiting
        assert stage.controller.asked == [((A0, A1, B0), ElectionType.PREFERRED)]
        return waited, results(response)

    waited, answered = asyncio.run(scene())
    assert waited
    assert answered == {A0: "NONE", A1: "REQUEST_TIMED_OUT", B0: "ELECTION_NOT_NEEDED"}


@pytest.mark.spec("PE-1", "PE-5")
def test_a_null_list_is_all_this_broker_knows_without_those_that_needed_nothing() -> None:
    async def scene() -> tuple[object, dict[TopicPartition, str]]:
        stage = Stage()
        stage.hear({"b": {0: 1}, "a": {1: 1, 0: 1}})
        stage.controller.elections = {A0: BrokerId(1), A1: NOT_NEEDED, B0: ApiError(Errors.NOT_CONTROLLER, "")}
        request = ElectLeadersRequest(election_type=1, topic_partitions=None)
        response = await elect_leaders.handle(stage.services, request, stage.context(2))
        return stage.controller.asked[0], results(response)

    asked, answered = asyncio.run(scene())
    assert asked == ((A0, A1, B0), ElectionType.UNCLEAN)
    assert answered == {A0: "NONE", B0: "NOT_CONTROLLER"}


def test_an_election_nobody_knows() -> None:
    async def scene() -> int:
        stage = Stage()
        return (await elect_leaders.handle(stage.services, ElectLeadersRequest(election_type=7), stage.context(2))).error_code

    assert asyncio.run(scene()) == Errors.INVALID_REQUEST


@pytest.mark.spec("IS-7")
@pytest.mark.parametrize(("active", "error"), [(True, Errors.NONE), (False, Errors.NOT_CONTROLLER)])
def test_only_a_controller_is_asked_to_alter_a_partition(active: bool, error: Errors) -> None:
    async def scene() -> tuple[int, int]:
        stage = Stage()
        stage.controller.is_active = active
        response = await alter_partition.handle(stage.services, AlterPartitionRequest(), stage.context(3))
        return response.error_code, len(stage.controller.asked)

    assert asyncio.run(scene()) == (error, int(active))


@pytest.mark.spec("CS-3")
def test_controlled_shutdown_names_what_is_still_led() -> None:
    async def scene() -> None:
        stage = Stage()
        request = ControlledShutdownRequest(broker_id=2, broker_epoch=40)
        response = await controlled_shutdown.handle(stage.services, request, stage.context(3))
        assert stage.controller.asked == [(2, 40)]
        assert [(each.topic_name, each.partition_index) for each in response.remaining_partitions] == [("orders", 3)]

    asyncio.run(scene())
