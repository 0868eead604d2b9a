"""DescribeTransactions (key 65): the transactions of transactional ids (KIP-664).

It is flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int16, int32, int64


class DescribeTransactionsRequest(Message, frozen=True, kw_only=True):
    transactional_ids: tuple[str, ...] = ()


class DescribeTransactionsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    transaction_states: tuple[TransactionState, ...] = ()


class TransactionState(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int32 = 0
    transaction_start_time_ms: int64 = 0
    """Milliseconds since 1970."""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    topics: tuple[TopicData, ...] = ()


class TopicData(Message, frozen=True, kw_only=True):
    topic: str = ""
    partitions: tuple[int32, ...] = ()
