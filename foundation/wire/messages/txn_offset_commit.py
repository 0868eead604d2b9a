"""TxnOffsetCommit (key 28): offsets of a group that are committed with a transaction (KIP-98).

Versions: 2 leader epochs; 3 flexible, the member of the group (KIP-447); 4 a new error code (KIP-890).
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, ignorable, int16, int32, int64, since


class TxnOffsetCommitRequest(Message, frozen=True, kw_only=True):
    transactional_id: str = ""
    group_id: str = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    generation_id: Annotated[int32, since(3)] = -1
    """-1: the offsets are committed without a member."""
    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()


class TxnOffsetCommitRequestTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


class TxnOffsetCommitRequestPartition(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: Annotated[int32, since(2), ignorable] = -1
    committed_metadata: str | None = None


class TxnOffsetCommitResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()


class TxnOffsetCommitResponseTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


class TxnOffsetCommitResponsePartition(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    error_code: int16 = 0
