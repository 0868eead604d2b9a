"""Tests of requests that the controller handles: how the handlers pass them on and make the responses."""

from __future__ import annotations

import asyncio

import pytest

from tests.brokers.harness import BrokerHarness
from understudy.brokers.apis import (
    allocate_producer_ids,
    alter_partition,
    alter_partition_reassignments,
    controlled_shutdown,
    elect_leaders,
    list_partition_reassignments,
    update_features,
)
from understudy.controller.events import NOT_THE_CONTROLLER, ElectionType, FeatureUpdate, UpgradeType
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from understudy.foundation.wire.messages.alter_partition import AlterPartitionRequest
from understudy.foundation.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from understudy.foundation.wire.messages.controlled_shutdown import ControlledShutdownRequest
from understudy.foundation.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from understudy.foundation.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from understudy.foundation.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
NOT_NEEDED = ApiError(Errors.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


def results(response: ElectLeadersResponse) -> dict[TopicPartition, str]:
    return {
        TopicPartition(topic.topic, each.partition_id): Errors(each.error_code).name
        for topic in response.replica_election_results
        for each in topic.partition_result
    }


@pytest.mark.spec("PE-5")
def test_elect_leaders_waits_for_the_metadata_cache_and_times_out_by_partition() -> None:
    async def scenario() -> tuple[bool, dict[TopicPartition, str]]:
        harness = BrokerHarness()
        harness.update_metadata({"a": {0: 1, 1: 1}})
        harness.controller.elections = {A0: BrokerId(2), A1: BrokerId(3), B0: NOT_NEEDED}
        request = ElectLeadersRequest(
            timeout_ms=80,
            topic_partitions=(
                TopicPartitions(topic="b", partitions=(0,)),
                TopicPartitions(topic="a", partitions=(1, 0, 1)),
            ),
        )
        waiting = asyncio.create_task(elect_leaders.handle(harness.services, request, harness.context(2)))
        await asyncio.sleep(0.01)
        waited = not waiting.done()
        harness.update_metadata({"a": {0: 2, 1: 1}})
        response = await waiting
        assert harness.controller.asked == [((A0, A1, B0), ElectionType.PREFERRED)]
        return waited, results(response)

    waited, answered = asyncio.run(scenario())
    assert waited
    assert answered == {A0: "NONE", A1: "REQUEST_TIMED_OUT", B0: "ELECTION_NOT_NEEDED"}


@pytest.mark.spec("PE-1", "PE-5")
def test_null_list_elects_all_known_partitions_and_leaves_out_elections_not_needed() -> None:
    async def scenario() -> tuple[object, dict[TopicPartition, str]]:
        harness = BrokerHarness()
        harness.update_metadata({"b": {0: 1}, "a": {1: 1, 0: 1}})
        harness.controller.elections = {A0: BrokerId(1), A1: NOT_NEEDED, B0: ApiError(Errors.NOT_CONTROLLER, "")}
        request = ElectLeadersRequest(election_type=1, topic_partitions=None)
        response = await elect_leaders.handle(harness.services, request, harness.context(2))
        return harness.controller.asked[0], results(response)

    asked, answered = asyncio.run(scenario())
    assert asked == ((A0, A1, B0), ElectionType.UNCLEAN)
    assert answered == {A0: "NONE", B0: "NOT_CONTROLLER"}


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (None, []),
        ((TopicPartitions(topic="a", partitions=(1, 1)),), [("a", [(1, Errors.UNKNOWN_SERVER_ERROR)] * 2)]),
    ],
)
def test_an_unknown_election_type_is_refused(
    asked: tuple[TopicPartitions, ...] | None, answered: list[tuple[str, list[tuple[int, Errors]]]]
) -> None:
    async def scenario() -> ElectLeadersResponse:
        harness = BrokerHarness()
        request = ElectLeadersRequest(election_type=7, topic_partitions=asked)
        response = await elect_leaders.handle(harness.services, request, harness.context(2))
        assert harness.controller.asked == []
        return response

    response = asyncio.run(scenario())
    assert response.error_code == Errors.UNKNOWN_SERVER_ERROR
    assert [
        (topic.topic, [(each.partition_id, each.error_code) for each in topic.partition_result])
        for topic in response.replica_election_results
    ] == answered


@pytest.mark.spec("IS-7")
@pytest.mark.parametrize(("active", "error"), [(True, Errors.NONE), (False, Errors.NOT_CONTROLLER)])
def test_alter_partition_is_passed_to_the_active_controller_only(active: bool, error: Errors) -> None:
    async def scenario() -> tuple[int, int]:
        harness = BrokerHarness()
        harness.controller.is_active = active
        response = await alter_partition.handle(harness.services, AlterPartitionRequest(), harness.context(3))
        return response.error_code, len(harness.controller.asked)

    assert asyncio.run(scenario()) == (error, int(active))


@pytest.mark.spec("CS-3")
def test_controlled_shutdown_lists_remaining_partitions() -> None:
    async def scenario() -> None:
        harness = BrokerHarness()
        request = ControlledShutdownRequest(broker_id=2, broker_epoch=40)
        response = await controlled_shutdown.handle(harness.services, request, harness.context(3))
        assert harness.controller.asked == [(2, 40)]
        assert [(each.topic_name, each.partition_index) for each in response.remaining_partitions] == [("orders", 3)]

    asyncio.run(scenario())


@pytest.mark.spec("RA-1", "RA-5")
def test_reassignments_are_passed_on_and_answered_by_topic() -> None:
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=0,
        topics=(
            ReassignableTopic(
                name="a",
                partitions=(
                    ReassignablePartition(partition_index=1, replicas=(3, 1)),
                    ReassignablePartition(partition_index=0, replicas=None),
                ),
            ),
            ReassignableTopic(name="b", partitions=(ReassignablePartition(partition_index=0, replicas=()),)),
        ),
    )

    async def scenario() -> AlterPartitionReassignmentsResponse:
        harness = BrokerHarness()
        refused = ApiError(Errors.INVALID_REPLICA_ASSIGNMENT, "Empty replica list specified in partition reassignment.")
        harness.controller.reassignments = {A1: None, A0: ApiError(Errors.NO_REASSIGNMENT_IN_PROGRESS, ""), B0: refused}
        response = await alter_partition_reassignments.handle(harness.services, request, harness.context())
        assert harness.controller.asked == [{A1: (3, 1), A0: None, B0: ()}]
        return response

    response = asyncio.run(scenario())
    answered = {
        (topic.name, each.partition_index): (Errors(each.error_code), each.error_message)
        for topic in response.responses
        for each in topic.partitions
    }
    assert (response.error_code, response.error_message) == (0, "")
    assert answered == {
        ("a", 1): (Errors.NONE, None),
        ("a", 0): (Errors.NO_REASSIGNMENT_IN_PROGRESS, None),
        ("b", 0): (Errors.INVALID_REPLICA_ASSIGNMENT, "Empty replica list specified in partition reassignment."),
    }


@pytest.mark.spec("RA-1", "RA-7")
def test_a_broker_that_is_not_controller_refuses_all_reassignments() -> None:
    async def scenario() -> list[tuple[int, str | None]]:
        harness = BrokerHarness()
        refused = ApiError(Errors.NOT_CONTROLLER, NOT_THE_CONTROLLER)
        harness.controller.reassignments = harness.controller.moving = refused
        altered = await alter_partition_reassignments.handle(
            harness.services, AlterPartitionReassignmentsRequest(), harness.context()
        )
        listed = await list_partition_reassignments.handle(
            harness.services, ListPartitionReassignmentsRequest(), harness.context()
        )
        assert (altered.responses, listed.topics) == ((), ())
        return [(altered.error_code, altered.error_message), (listed.error_code, listed.error_message)]

    assert asyncio.run(scenario()) == [(Errors.NOT_CONTROLLER, NOT_THE_CONTROLLER)] * 2


@pytest.mark.spec("RA-7")
@pytest.mark.parametrize("named", [True, False])
def test_ongoing_reassignments_are_listed_by_topic(named: bool) -> None:
    asked = (
        ListPartitionReassignmentsTopics(name="b", partition_indexes=(0,)),
        ListPartitionReassignmentsTopics(name="a", partition_indexes=(1, 0, 1)),
    )

    async def scenario() -> tuple[object, ListPartitionReassignmentsResponse]:
        harness = BrokerHarness()
        ids = tuple(map(BrokerId, (3, 1, 2)))
        harness.controller.moving = {A1: ReplicaAssignment(ids, ids[:1], ids[2:])}
        request = ListPartitionReassignmentsRequest(topics=asked if named else None)
        response = await list_partition_reassignments.handle(harness.services, request, harness.context())
        return harness.controller.asked[0], response

    handed_over, response = asyncio.run(scenario())
    assert handed_over == ([A0, A1, B0] if named else None)
    moving = OngoingPartitionReassignment(
        partition_index=1, replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(2,)
    )
    assert response.topics == (OngoingTopicReassignment(name="a", partitions=(moving,)),)


@pytest.mark.spec("IO-7", "CO-6")
def test_a_block_of_producer_ids_is_passed_on_from_the_controller() -> None:
    async def scenario() -> tuple[AllocateProducerIdsResponse, ...]:
        harness = BrokerHarness()
        request = AllocateProducerIdsRequest(broker_id=2, broker_epoch=40)
        given = await allocate_producer_ids.handle(harness.services, request, harness.context(0))
        assert harness.controller.asked == [(2, 40)]
        harness.controller.producer_ids = ApiError(Errors.STALE_BROKER_EPOCH, "")
        stale = await allocate_producer_ids.handle(harness.services, request, harness.context(0))
        harness.controller.is_active = False
        elsewhere = await allocate_producer_ids.handle(harness.services, request, harness.context(0))
        assert len(harness.controller.asked) == 2, "an inactive controller gets no request"
        return given, stale, elsewhere

    assert asyncio.run(scenario()) == (
        AllocateProducerIdsResponse(producer_id_start=5_000, producer_id_len=1_000),
        AllocateProducerIdsResponse(error_code=Errors.STALE_BROKER_EPOCH),
        AllocateProducerIdsResponse(error_code=Errors.NOT_CONTROLLER),
    )


@pytest.mark.parametrize(
    ("version", "asked", "update"),
    [
        (0, FeatureUpdateKey(feature="f", max_version_level=3), FeatureUpdate("f", 3, UpgradeType.UPGRADE)),
        (0, FeatureUpdateKey(feature="f", allow_downgrade=True), FeatureUpdate("f", 0, UpgradeType.SAFE_DOWNGRADE)),
        (1, FeatureUpdateKey(feature="f", upgrade_type=1), FeatureUpdate("f", 0, UpgradeType.UPGRADE)),
        (1, FeatureUpdateKey(feature="f", upgrade_type=3), FeatureUpdate("f", 0, UpgradeType.UNSAFE_DOWNGRADE)),
        (1, FeatureUpdateKey(feature="f", upgrade_type=0), FeatureUpdate("f", 0, None)),
        (1, FeatureUpdateKey(feature="f", upgrade_type=4), FeatureUpdate("f", 0, None)),
    ],
)
def test_upgrade_type_of_a_feature_update_follows_the_version(
    version: int, asked: FeatureUpdateKey, update: FeatureUpdate
) -> None:
    async def scenario() -> list[object]:
        harness = BrokerHarness()
        request = UpdateFeaturesRequest(feature_updates=(asked,))
        await update_features.handle(harness.services, request, harness.context(version))
        return harness.controller.asked

    assert asyncio.run(scenario()) == [(update,)]


def test_feature_updates_are_answered_one_by_one_or_as_a_whole() -> None:
    async def scenario() -> tuple[UpdateFeaturesResponse, ...]:
        harness = BrokerHarness()
        harness.controller.feature_results = {"f": ApiError(Errors.INVALID_REQUEST, "no")}
        one = await update_features.handle(harness.services, UpdateFeaturesRequest(), harness.context(1))
        harness.controller.feature_results = ApiError(Errors.INVALID_REQUEST, "never")
        whole = await update_features.handle(harness.services, UpdateFeaturesRequest(), harness.context(1))
        harness.controller.is_active = False
        elsewhere = await update_features.handle(harness.services, UpdateFeaturesRequest(), harness.context(1))
        return one, whole, elsewhere

    assert asyncio.run(scenario()) == (
        UpdateFeaturesResponse(
            results=(UpdatableFeatureResult(feature="f", error_code=Errors.INVALID_REQUEST, error_message="no"),)
        ),
        UpdateFeaturesResponse(error_code=Errors.INVALID_REQUEST, error_message="never"),
        UpdateFeaturesResponse(
            error_code=Errors.NOT_CONTROLLER, error_message="This is not the correct controller for this cluster."
        ),
    )
