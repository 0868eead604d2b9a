"""AlterPartitionReassignments (key 45): reassign partitions to other brokers, or cancel reassignments (KIP-455).

There is one version, and it is flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int16, int32


class AlterPartitionReassignmentsRequest(Message, frozen=True, kw_only=True):
    timeout_ms: int32 = 60000
    """Kafka's controller in ZooKeeper mode ignores it."""
    topics: tuple[ReassignableTopic, ...] = ()


class ReassignableTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[ReassignablePartition, ...] = ()


class ReassignablePartition(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    replicas: tuple[int32, ...] | None = None
    """The target replicas, the preferred leader first; None cancels the reassignment in progress."""


class AlterPartitionReassignmentsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    """Other than 0: no reassignment was attempted."""
    error_message: str | None = None
    responses: tuple[ReassignableTopicResponse, ...] = ()


class ReassignableTopicResponse(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[ReassignablePartitionResponse, ...] = ()


class ReassignablePartitionResponse(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
