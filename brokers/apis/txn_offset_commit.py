"""TxnOffsetCommit (key 28, versions 0 to 4): refused, because no transaction is open on this broker.

The group's coordinator answers INVALID_PRODUCER_ID_MAPPING, as Kafka's does for a transactional id that is unknown to
the transaction coordinator, other brokers NOT_COORDINATOR. Mirrors `KafkaApis.handleTxnOffsetCommitRequest`.
"""

from __future__ import annotations

from understudy.brokers.apis.no_transactions import partition_errors
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from understudy.foundation.wire.nested_topics import by_partition, nested


async def handle(
    services: BrokerServices, request: TxnOffsetCommitRequest, context: RequestContext
) -> TxnOffsetCommitResponse:
    error = services.groups.error_for(request.group_id)
    if error is Errors.NONE:
        error = Errors.INVALID_PRODUCER_ID_MAPPING
    answers = {
        at: TxnOffsetCommitResponsePartition(partition_index=at.partition, error_code=code)
        for at, code in partition_errors(services, by_partition(request.topics), error).items()
    }
    return TxnOffsetCommitResponse(topics=nested(TxnOffsetCommitResponseTopic, answers))


SERVES = Serves(request=TxnOffsetCommitRequest, versions=(0, 4), handle=handle)
