"""Produce (key 0): records that a producer appends.

Versions: 1 throttle time; 2 log append time; 3 transactional id and message format 2; 5 log start offset; 7 zstd
(KIP-110); 8 record errors (KIP-467); 9 flexible; 10 current leader and node endpoints (KIP-951); 11
TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from understudy.foundation.wire.schema import Message, ignorable, int16, int32, int64, since, tag


class ProduceRequest(Message, frozen=True, kw_only=True):
    transactional_id: Annotated[str | None, since(3)] = None
    acks: int16 = 0
    """0 no response, 1 the leader's append, -1 the append of every in-sync replica."""
    timeout_ms: int32 = 0
    topic_data: tuple[TopicProduceData, ...] = ()


class TopicProduceData(Message, frozen=True, kw_only=True):
    name: str = ""
    partition_data: tuple[PartitionProduceData, ...] = ()


class PartitionProduceData(Message, frozen=True, kw_only=True):
    index: int32 = 0
    records: bytes | None = None
    """From version 3 on one record batch; before, a message set."""


class ProduceResponse(Message, frozen=True, kw_only=True):
    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], since(10), tag(0)] = ()
    """The endpoints of the leaders in `current_leader`."""


class TopicProduceResponse(Message, frozen=True, kw_only=True):
    name: str = ""
    partition_responses: tuple[PartitionProduceResponse, ...] = ()


class PartitionProduceResponse(Message, frozen=True, kw_only=True):
    index: int32 = 0
    error_code: int16 = 0
    base_offset: int64 = 0
    """The offset of the first record."""
    log_append_time_ms: Annotated[int64, since(2), ignorable] = -1
    """The timestamp of the records if the topic has LogAppendTime; -1 otherwise."""
    log_start_offset: Annotated[int64, since(5), ignorable] = -1
    record_errors: Annotated[tuple[BatchIndexAndErrorMessage, ...], since(8), ignorable] = ()
    """The records because of which the batch was refused."""
    error_message: Annotated[str | None, since(8), ignorable] = None
    current_leader: Annotated[LeaderIdAndEpoch, since(10), tag(0)] = LeaderIdAndEpoch()
    """Set with NOT_LEADER_OR_FOLLOWER."""


class BatchIndexAndErrorMessage(Message, frozen=True, kw_only=True):
    batch_index: int32 = 0
    """The record's place in the batch; 0 is the first."""
    batch_index_error_message: str | None = None
