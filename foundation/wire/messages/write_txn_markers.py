"""WriteTxnMarkers (key 27): a transaction coordinator ends transactions in partitions (KIP-98).

Version 1 is flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int16, int32, int64


class WriteTxnMarkersRequest(Message, frozen=True, kw_only=True):
    markers: tuple[WritableTxnMarker, ...] = ()


class WritableTxnMarker(Message, frozen=True, kw_only=True):
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    transaction_result: bool = False
    """True: committed; False: aborted."""
    topics: tuple[WritableTxnMarkerTopic, ...] = ()
    coordinator_epoch: int32 = 0
    """The leader epoch of the coordinator's partition of `__transaction_state`."""


class WritableTxnMarkerTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    partition_indexes: tuple[int32, ...] = ()


class WriteTxnMarkersResponse(Message, frozen=True, kw_only=True):
    markers: tuple[WritableTxnMarkerResult, ...] = ()


class WritableTxnMarkerResult(Message, frozen=True, kw_only=True):
    producer_id: int64 = 0
    topics: tuple[WritableTxnMarkerTopicResult, ...] = ()


class WritableTxnMarkerTopicResult(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = ()


class WritableTxnMarkerPartitionResult(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    error_code: int16 = 0
