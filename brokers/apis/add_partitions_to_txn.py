"""AddPartitionsToTxn (key 24, versions 0 to 5): NOT_COORDINATOR, because no broker of ours coordinates transactions.

If a partition does not exist, the others are OPERATION_NOT_ATTEMPTED. Since version 4, which brokers send to each
other, a request has many transactions. Mirrors `KafkaApis.handleAddPartitionsToTxnRequest`.
"""

from __future__ import annotations

from collections.abc import Iterable

from understudy.brokers.apis.no_transactions import coordinator_error, partition_errors
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)

FIRST_VERSION_OF_BROKERS = 4


async def handle(
    services: BrokerServices, request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    if context.api_version < FIRST_VERSION_OF_BROKERS:
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=_results(
                services, request.v3_and_below_transactional_id, request.v3_and_below_topics
            )
        )
    return AddPartitionsToTxnResponse(
        results_by_transaction=tuple(
            AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=_results(services, each.transactional_id, each.topics),
            )
            for each in request.transactions
        )
    )


def _results(
    services: BrokerServices, transactional_id: str, topics: Iterable[AddPartitionsToTxnTopic]
) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    partitions = [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]
    errors = partition_errors(services, partitions, coordinator_error(transactional_id))
    if Errors.UNKNOWN_TOPIC_OR_PARTITION in errors.values():
        errors = partition_errors(services, partitions, Errors.OPERATION_NOT_ATTEMPTED)
    results = grouped(
        (at.topic, AddPartitionsToTxnPartitionResult(partition_index=at.partition, partition_error_code=error))
        for at, error in errors.items()
    )
    return tuple(
        AddPartitionsToTxnTopicResult(name=topic, results_by_partition=of_topic) for topic, of_topic in results.items()
    )


SERVES = Serves(request=AddPartitionsToTxnRequest, versions=(0, 5), handle=handle)
