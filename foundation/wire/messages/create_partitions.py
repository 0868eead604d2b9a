"""CreatePartitions (key 37): raise a topic's partition count.

Versions: 2 flexible; 3 throttling as an error (KIP-599).
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int16, int32


class CreatePartitionsRequest(Message, frozen=True, kw_only=True):
    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: int32 = 0
    validate_only: bool = False


class CreatePartitionsTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    count: int32 = 0
    """The total number of partitions afterwards."""
    assignments: tuple[CreatePartitionsAssignment, ...] | None = None
    """The replicas of each new partition; None: the broker chooses them."""


class CreatePartitionsAssignment(Message, frozen=True, kw_only=True):
    broker_ids: tuple[int32, ...] = ()


class CreatePartitionsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    results: tuple[CreatePartitionsTopicResult, ...] = ()


class CreatePartitionsTopicResult(Message, frozen=True, kw_only=True):
    name: str = ""
    error_code: int16 = 0
    error_message: str | None = None
