"""DescribeProducers (key 61): the producers with a state in partitions' logs (KIP-664)."""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int16, int32, int64


class DescribeProducersRequest(Message, frozen=True, kw_only=True):
    topics: tuple[TopicRequest, ...] = ()


class TopicRequest(Message, frozen=True, kw_only=True):
    name: str = ""
    partition_indexes: tuple[int32, ...] = ()


class DescribeProducersResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    topics: tuple[TopicResponse, ...] = ()


class TopicResponse(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[PartitionResponse, ...] = ()


class PartitionResponse(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...] = ()


class ProducerState(Message, frozen=True, kw_only=True):
    producer_id: int64 = 0
    producer_epoch: int32 = 0
    last_sequence: int32 = -1
    """The sequence number of the producer's last record; -1: none."""
    last_timestamp: int64 = -1
    """Milliseconds since 1970, of the producer's last record."""
    coordinator_epoch: int32 = 0
    current_txn_start_offset: int64 = -1
    """The first offset of its open transaction; -1: none."""
