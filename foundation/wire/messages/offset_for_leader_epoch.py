"""OffsetForLeaderEpoch (key 23): the end offset of a leader epoch in the leader's log (KIP-101).

A follower truncates its log to it, and a consumer finds out by it whether its position was truncated.

Versions: 1 the answered leader epoch (KIP-279); 2 current leader epoch (KIP-320) and throttle time; 3 replica id; 4
flexible.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, ignorable, int16, int32, int64, since


class OffsetForLeaderEpochRequest(Message, frozen=True, kw_only=True):
    replica_id: Annotated[int32, since(3), ignorable] = -2
    """Broker id of the follower; -1: a consumer; -2: a consumer that may see records above the high watermark."""
    topics: tuple[OffsetForLeaderTopic, ...] = ()


class OffsetForLeaderTopic(Message, frozen=True, kw_only=True):
    topic: str = ""
    partitions: tuple[OffsetForLeaderPartition, ...] = ()


class OffsetForLeaderPartition(Message, frozen=True, kw_only=True):
    partition: int32 = 0
    current_leader_epoch: Annotated[int32, since(2), ignorable] = -1
    """The leader epoch that the sender knows; a wrong one is refused. -1 is not checked."""
    leader_epoch: int32 = 0
    """The epoch whose end offset is wanted."""


class OffsetForLeaderEpochResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[int32, since(2), ignorable] = 0
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()


class OffsetForLeaderTopicResult(Message, frozen=True, kw_only=True):
    topic: str = ""
    partitions: tuple[EpochEndOffset, ...] = ()


class EpochEndOffset(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    partition: int32 = 0
    leader_epoch: Annotated[int32, since(1), ignorable] = -1
    """The largest epoch of the leader's log that is not above the wanted one; -1: none."""
    end_offset: int64 = -1
    """The offset after the last record of that epoch; -1: unknown."""
