"""AddPartitionsToTxn (key 24): partitions join transactions (KIP-98).

Versions: 2 a new error code; 3 flexible; 4 any number of transactions, and requests that only verify, which brokers
send to each other (KIP-890); 5 a new error code.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, ignorable, int16, int32, int64, since, until


class AddPartitionsToTxnRequest(Message, frozen=True, kw_only=True):
    transactions: Annotated[tuple[AddPartitionsToTxnTransaction, ...], since(4)] = ()
    v3_and_below_transactional_id: Annotated[str, until(3)] = ""
    v3_and_below_producer_id: Annotated[int64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[int16, until(3)] = 0
    v3_and_below_topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], until(3)] = ()


class AddPartitionsToTxnTransaction(Message, frozen=True, kw_only=True):
    transactional_id: Annotated[str, since(4)] = ""
    producer_id: Annotated[int64, since(4)] = 0
    producer_epoch: Annotated[int16, since(4)] = 0
    verify_only: Annotated[bool, since(4)] = False
    """Whether to check that the partitions are in the transaction, and to add none."""
    topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], since(4)] = ()


class AddPartitionsToTxnTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[int32, ...] = ()


class AddPartitionsToTxnResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: Annotated[int16, since(4), ignorable] = 0
    results_by_transaction: Annotated[tuple[AddPartitionsToTxnResult, ...], since(4)] = ()
    results_by_topic_v3_and_below: Annotated[tuple[AddPartitionsToTxnTopicResult, ...], until(3)] = ()


class AddPartitionsToTxnResult(Message, frozen=True, kw_only=True):
    transactional_id: Annotated[str, since(4)] = ""
    topic_results: Annotated[tuple[AddPartitionsToTxnTopicResult, ...], since(4)] = ()


class AddPartitionsToTxnTopicResult(Message, frozen=True, kw_only=True):
    name: str = ""
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = ()


class AddPartitionsToTxnPartitionResult(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    partition_error_code: int16 = 0
