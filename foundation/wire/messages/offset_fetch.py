"""OffsetFetch (key 9): the committed offsets of a group.

Versions: 1 offsets from `__consumer_offsets` rather than from ZooKeeper; 2 all topics, and an error of the whole
request; 3 throttle time; 5 leader epochs (KIP-320); 6 flexible; 7 only stable offsets (KIP-447); 8 any number of groups
(KIP-709); 9 member and epoch (KIP-848).
"""

from __future__ import annotations

from typing import Annotated, Final

from understudy.foundation.wire.schema import (
    Message,
    between,
    ignorable,
    int16,
    int32,
    int64,
    nullable_since,
    since,
    until,
)

INVALID_OFFSET: Final = -1
"""The committed offset of a partition that has none."""


class OffsetFetchRequest(Message, frozen=True, kw_only=True):
    group_id: Annotated[str, until(7)] = ""
    topics: Annotated[tuple[OffsetFetchRequestTopic, ...] | None, until(7), nullable_since(2)] = ()
    """None: all topics of the group."""
    groups: Annotated[tuple[OffsetFetchRequestGroup, ...], since(8)] = ()
    require_stable: Annotated[bool, since(7)] = False
    """Offsets of transactions that are not decided yet are refused."""


class OffsetFetchRequestTopic(Message, frozen=True, kw_only=True):
    name: Annotated[str, until(7)] = ""
    partition_indexes: Annotated[tuple[int32, ...], until(7)] = ()


class OffsetFetchRequestGroup(Message, frozen=True, kw_only=True):
    group_id: Annotated[str, since(8)] = ""
    member_id: Annotated[str | None, since(9), ignorable] = None
    member_epoch: Annotated[int32, since(9), ignorable] = -1
    topics: Annotated[tuple[OffsetFetchRequestTopics, ...] | None, since(8)] = ()
    """None: all topics of the group."""


class OffsetFetchRequestTopics(Message, frozen=True, kw_only=True):
    name: Annotated[str, since(8)] = ""
    partition_indexes: Annotated[tuple[int32, ...], since(8)] = ()


class OffsetFetchResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[int32, since(3), ignorable] = 0
    topics: Annotated[tuple[OffsetFetchResponseTopic, ...], until(7)] = ()
    error_code: Annotated[int16, between(2, 7), ignorable] = 0
    groups: Annotated[tuple[OffsetFetchResponseGroup, ...], since(8)] = ()


class OffsetFetchResponseTopic(Message, frozen=True, kw_only=True):
    name: Annotated[str, until(7)] = ""
    partitions: Annotated[tuple[OffsetFetchResponsePartition, ...], until(7)] = ()


class OffsetFetchResponsePartition(Message, frozen=True, kw_only=True):
    partition_index: Annotated[int32, until(7)] = 0
    committed_offset: Annotated[int64, until(7)] = INVALID_OFFSET
    committed_leader_epoch: Annotated[int32, between(5, 7), ignorable] = -1
    metadata: Annotated[str | None, until(7)] = ""
    error_code: Annotated[int16, until(7)] = 0


class OffsetFetchResponseGroup(Message, frozen=True, kw_only=True):
    group_id: Annotated[str, since(8)] = ""
    topics: Annotated[tuple[OffsetFetchResponseTopics, ...], since(8)] = ()
    error_code: Annotated[int16, since(8)] = 0


class OffsetFetchResponseTopics(Message, frozen=True, kw_only=True):
    name: Annotated[str, since(8)] = ""
    partitions: Annotated[tuple[OffsetFetchResponsePartitions, ...], since(8)] = ()


class OffsetFetchResponsePartitions(Message, frozen=True, kw_only=True):
    partition_index: Annotated[int32, since(8)] = 0
    committed_offset: Annotated[int64, since(8)] = INVALID_OFFSET
    committed_leader_epoch: Annotated[int32, since(8), ignorable] = -1
    metadata: Annotated[str | None, since(8)] = ""
    error_code: Annotated[int16, since(8)] = 0
