"""Converts control requests to the forms of older versions. Pure. Mirrors the builders of Kafka's
`LeaderAndIsrRequest`, `UpdateMetadataRequest` and `StopReplicaRequest`.

Inside the controller a request has the form of the newest version: partitions by topic, and in StopReplica an epoch and
a deletion flag for each. So coalescing, deletion and records handle one form. Fields that a version lacks are left out
by the codec; here are the older versions that use other fields instead.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar, assert_never

from msgspec.structs import replace

from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest
from understudy.foundation.wire.messages.stop_replica import (
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)

ControlMessage: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
M = TypeVar("M", LeaderAndIsrRequest, UpdateMetadataRequest)

LEADER_AND_ISR_BY_TOPIC = 2
UPDATE_METADATA_BY_TOPIC = 5
UPDATE_METADATA_WITH_ENDPOINTS = 1
STOP_REPLICA_BY_TOPIC = 1
STOP_REPLICA_BY_PARTITION = 3
"""First version in which each partition has a deletion flag; before, the whole request has one."""

_OLDEST_LISTENER = "PLAINTEXT"


def in_version(message: ControlMessage, version: int) -> ControlMessage:
    """Return `message` in the form of `version`; the same object if the form is the same.

    A StopReplica below version 3 must have deletions only, or none: see `split_by_deletion`.
    """
    match message:
        case LeaderAndIsrRequest():
            return message if version >= LEADER_AND_ISR_BY_TOPIC else _ungrouped(message)
        case UpdateMetadataRequest():
            return message if version >= UPDATE_METADATA_BY_TOPIC else _ungrouped_update_metadata(message, version)
        case StopReplicaRequest():
            return message if version >= STOP_REPLICA_BY_PARTITION else _stop_replica_without_states(message, version)
        case _:
            assert_never(message)


def split_by_deletion(message: StopReplicaRequest, version: int) -> tuple[StopReplicaRequest, ...]:
    """Split a StopReplica below version 3 into one with the deletions and one with the rest, in this order (RB-9)."""
    if version >= STOP_REPLICA_BY_PARTITION:
        return (message,)
    parts = (_with_deletion(message, delete=True), _with_deletion(message, delete=False))
    return tuple(part for part in parts if part.topic_states)


def _ungrouped(message: M) -> M:
    """Return a request with its partitions in one list, each with the name of its topic."""
    ungrouped = tuple(
        replace(state, topic_name=topic.topic_name)
        for topic in message.topic_states
        for state in topic.partition_states
    )
    return replace(message, topic_states=(), ungrouped_partition_states=ungrouped)


def _ungrouped_update_metadata(message: UpdateMetadataRequest, version: int) -> UpdateMetadataRequest:
    brokers = message.live_brokers
    if version < UPDATE_METADATA_WITH_ENDPOINTS:
        # This version has no field for a broker without a PLAINTEXT listener; Kafka throws.
        addressed = ((broker, _oldest_address(broker)) for broker in brokers)
        brokers = tuple(replace(broker, v0_host=at.host, v0_port=at.port) for broker, at in addressed if at is not None)
    return _ungrouped(replace(message, live_brokers=brokers))


def _oldest_address(broker: UpdateMetadataBroker) -> UpdateMetadataEndpoint | None:
    return next((endpoint for endpoint in broker.endpoints if endpoint.listener == _OLDEST_LISTENER), None)


def _stop_replica_without_states(message: StopReplicaRequest, version: int) -> StopReplicaRequest:
    delete = {state.delete_partition for topic in message.topic_states for state in topic.partition_states}
    assert len(delete) < 2, "a StopReplica below version 3 is split by deletion first"
    bare = replace(message, topic_states=(), delete_partitions=True in delete)
    if version >= STOP_REPLICA_BY_TOPIC:
        topics = tuple(
            StopReplicaTopicV1(
                name=topic.topic_name,
                partition_indexes=tuple(state.partition_index for state in topic.partition_states),
            )
            for topic in message.topic_states
        )
        return replace(bare, topics=topics)
    partitions = tuple(
        StopReplicaPartitionV0(topic_name=topic.topic_name, partition_index=state.partition_index)
        for topic in message.topic_states
        for state in topic.partition_states
    )
    return replace(bare, ungrouped_partitions=partitions)


def _with_deletion(message: StopReplicaRequest, *, delete: bool) -> StopReplicaRequest:
    topics = (
        StopReplicaTopicState(
            topic_name=topic.topic_name,
            partition_states=tuple(state for state in topic.partition_states if state.delete_partition is delete),
        )
        for topic in message.topic_states
    )
    return replace(message, topic_states=tuple(topic for topic in topics if topic.partition_states))
