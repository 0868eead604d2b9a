"""OffsetDelete (key 47): an operator deletes committed offsets of a group (KIP-496)."""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, ignorable, int16, int32


class OffsetDeleteRequest(Message, frozen=True, kw_only=True):
    group_id: str = ""
    topics: tuple[OffsetDeleteRequestTopic, ...] = ()


class OffsetDeleteRequestTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[OffsetDeleteRequestPartition, ...] = ()


class OffsetDeleteRequestPartition(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0


class OffsetDeleteResponse(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    throttle_time_ms: Annotated[int32, ignorable] = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()


class OffsetDeleteResponseTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


class OffsetDeleteResponsePartition(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    error_code: int16 = 0
