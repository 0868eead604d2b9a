"""DeleteRecords (key 21): raise the log start offset of partitions, before which records are deleted (KIP-107).

Versions: 1 quotas answered before throttling; 2 flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int16, int32, int64


class DeleteRecordsRequest(Message, frozen=True, kw_only=True):
    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: int32 = 0
    """How long to wait until every replica has deleted the records."""


class DeleteRecordsTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[DeleteRecordsPartition, ...] = ()


class DeleteRecordsPartition(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    offset: int64 = 0
    """The first offset that is kept; -1: the high watermark."""


class DeleteRecordsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()


class DeleteRecordsTopicResult(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[DeleteRecordsPartitionResult, ...] = ()


class DeleteRecordsPartitionResult(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    low_watermark: int64 = 0
    """The smallest log start offset of all replicas; -1 with an error."""
    error_code: int16 = 0
