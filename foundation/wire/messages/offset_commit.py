"""OffsetCommit (key 8): a member of a group, or a client without one, stores the offsets it has reached.

Versions: 1 generation, member and timestamp; 2 retention time instead of the timestamp; 3 throttle time; 5 no retention
time; 6 leader epochs (KIP-320); 7 static members (KIP-345); 8 flexible; 9 new error codes (KIP-848).
"""

from __future__ import annotations

from typing import Annotated, Final

from understudy.foundation.wire.schema import Message, between, ignorable, int16, int32, int64, since

DEFAULT_TIMESTAMP: Final = -1
DEFAULT_RETENTION_TIME_MS: Final = -1
"""Time that stands for the broker's `offsets.retention.minutes`."""


class OffsetCommitRequest(Message, frozen=True, kw_only=True):
    group_id: str = ""
    generation_id_or_member_epoch: Annotated[int32, since(1), ignorable] = -1
    """Negative from a client that is no member."""
    member_id: Annotated[str, since(1), ignorable] = ""
    group_instance_id: Annotated[str | None, since(7)] = None
    retention_time_ms: Annotated[int64, between(2, 4), ignorable] = DEFAULT_RETENTION_TIME_MS
    topics: tuple[OffsetCommitRequestTopic, ...] = ()


class OffsetCommitRequestTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


class OffsetCommitRequestPartition(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: Annotated[int32, since(6), ignorable] = -1
    """The leader epoch of the last record that was consumed; -1: unknown."""
    commit_timestamp: Annotated[int64, between(1, 1)] = DEFAULT_TIMESTAMP
    committed_metadata: str | None = None


class OffsetCommitResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[int32, since(3), ignorable] = 0
    topics: tuple[OffsetCommitResponseTopic, ...] = ()


class OffsetCommitResponseTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


class OffsetCommitResponsePartition(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    error_code: int16 = 0
