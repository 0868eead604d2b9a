"""ListOffsets (key 2): the offset of the first record at or after a timestamp, and the ends of a log.

Versions: 1 one offset with its timestamp instead of several offsets; 2 isolation level and throttle time; 4 leader
epochs (KIP-320); 5 OFFSET_NOT_AVAILABLE; 6 flexible; 7 the largest timestamp (KIP-734); 8 the local log start offset
(KIP-405); 9 the last tiered offset (KIP-1005).
"""

from __future__ import annotations

from typing import Annotated, Final

from understudy.foundation.wire.schema import Message, ignorable, int8, int16, int32, int64, since, until

LATEST_TIMESTAMP: Final = -1
"""The timestamp that stands for the end of the log: the high watermark or last stable offset for a consumer."""
EARLIEST_TIMESTAMP: Final = -2
"""The timestamp that stands for the log start offset."""
MAX_TIMESTAMP: Final = -3
"""The timestamp that stands for the record with the largest timestamp; since version 7."""
EARLIEST_LOCAL_TIMESTAMP: Final = -4
"""The timestamp that stands for the first offset that is not in tiered storage only; since version 8."""
LATEST_TIERED_TIMESTAMP: Final = -5
"""The timestamp that stands for the last offset in tiered storage; since version 9."""


class ListOffsetsRequest(Message, frozen=True, kw_only=True):
    replica_id: int32 = 0
    """Broker id of the follower; -1: a consumer; -2: a consumer that may see records above the high watermark."""
    isolation_level: Annotated[int8, since(2)] = 0
    """0 read uncommitted, 1 read committed."""
    topics: tuple[ListOffsetsTopic, ...] = ()


class ListOffsetsTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


class ListOffsetsPartition(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    current_leader_epoch: Annotated[int32, since(4), ignorable] = -1
    """The leader epoch that the sender knows; a wrong one is refused. -1 is not checked."""
    timestamp: int64 = 0
    """Milliseconds since 1970, or one of the negative constants of this module."""
    max_num_offsets: Annotated[int32, until(0)] = 1


class ListOffsetsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[int32, since(2), ignorable] = 0
    topics: tuple[ListOffsetsTopicResponse, ...] = ()


class ListOffsetsTopicResponse(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


class ListOffsetsPartitionResponse(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    error_code: int16 = 0
    old_style_offsets: Annotated[tuple[int64, ...], until(0)] = ()
    """The base offsets of segments before the timestamp, the largest first."""
    timestamp: Annotated[int64, since(1)] = -1
    offset: Annotated[int64, since(1)] = -1
    leader_epoch: Annotated[int32, since(4)] = -1
    """The leader epoch of the record at the offset; -1: unknown."""
