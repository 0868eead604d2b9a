"""ElectLeaders (key 43, versions 0 to 2): preferred or unclean leader elections on request (KIP-183, KIP-460).

The controller's event queue elects. The response is sent when this broker's metadata cache has each new leader; others
get REQUEST_TIMED_OUT (PE-5). A null list stands for every partition of the metadata cache, and then those that need no
election are left out of the response. Version 0 has preferred elections only.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.metadata.metadata_cache import MetadataSnapshot
from understudy.controller.events import ElectionType
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from understudy.foundation.wire.nested_topics import nested


async def handle(
    services: BrokerServices, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse:
    try:
        election_type = ElectionType(request.election_type)
    except ValueError:
        return unknown_type(request)
    partitions = requested_partitions(request, services.metadata.snapshot)
    outcomes = await services.controller.elect_leaders(partitions, election_type)
    expected = {partition: leader for partition, leader in outcomes.items() if not isinstance(leader, ApiError)}
    await services.metadata.wait_until(
        lambda snapshot: all(leads(snapshot, partition, leader) for partition, leader in expected.items()),
        timeout_ms=request.timeout_ms,
    )
    results: dict[TopicPartition, ApiError | None] = {}
    for partition, outcome in outcomes.items():
        if isinstance(outcome, ApiError):
            results[partition] = outcome
        elif leads(services.metadata.snapshot, partition, outcome):
            results[partition] = None
        else:
            results[partition] = ApiError(Errors.REQUEST_TIMED_OUT, "")
    if request.topic_partitions is None:
        results = {
            partition: result
            for partition, result in results.items()
            if result is None or result.error is not Errors.ELECTION_NOT_NEEDED
        }
    return ElectLeadersResponse(replica_election_results=grouped(results))


def unknown_type(request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Return the response to an unknown election type: an error for the request, and for each partition in it."""
    refused = PartitionResult(
        error_code=Errors.UNKNOWN_SERVER_ERROR,
        error_message=f"Unknown election type {request.election_type}; 0 stands for preferred, 1 for unclean.",
    )
    results = (
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=tuple(replace(refused, partition_id=partition) for partition in topic.partitions),
        )
        for topic in request.topic_partitions or ()
    )
    return ElectLeadersResponse(error_code=Errors.UNKNOWN_SERVER_ERROR, replica_election_results=tuple(results))


def requested_partitions(request: ElectLeadersRequest, snapshot: MetadataSnapshot) -> tuple[TopicPartition, ...]:
    """Return the partitions of the request, sorted; all of the metadata cache for a null list."""
    if request.topic_partitions is None:
        asked = {TopicPartition(topic, index) for topic, states in snapshot.topics.items() for index in states}
    else:
        asked = {TopicPartition(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions}
    return tuple(sorted(asked))


def leads(snapshot: MetadataSnapshot, partition: TopicPartition, leader: int) -> bool:
    state = snapshot.partition(*partition)
    return state is not None and state.leader == leader


def grouped(results: Mapping[TopicPartition, ApiError | None]) -> tuple[ReplicaElectionResult, ...]:
    answers = {
        at: PartitionResult(partition_id=at.partition)
        if error is None
        else PartitionResult(partition_id=at.partition, error_code=error.error, error_message=error.message or None)
        for at, error in results.items()
    }
    return nested(lambda name, partitions: ReplicaElectionResult(topic=name, partition_result=partitions), answers)


SERVES = Serves(request=ElectLeadersRequest, versions=(0, 2), handle=handle, recorded=True)
