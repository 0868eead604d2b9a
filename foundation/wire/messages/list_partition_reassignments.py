"""ListPartitionReassignments (key 46): the reassignments in progress (KIP-455).

There is one version, and it is flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int16, int32


class ListPartitionReassignmentsRequest(Message, frozen=True, kw_only=True):
    timeout_ms: int32 = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None
    """None: all topics."""


class ListPartitionReassignmentsTopics(Message, frozen=True, kw_only=True):
    name: str = ""
    partition_indexes: tuple[int32, ...] = ()


class ListPartitionReassignmentsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    topics: tuple[OngoingTopicReassignment, ...] = ()


class OngoingTopicReassignment(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[OngoingPartitionReassignment, ...] = ()


class OngoingPartitionReassignment(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    replicas: tuple[int32, ...] = ()
    """All replicas, those being added and removed included."""
    adding_replicas: tuple[int32, ...] = ()
    removing_replicas: tuple[int32, ...] = ()
