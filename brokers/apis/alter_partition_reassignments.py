"""AlterPartitionReassignments (key 45, version 0): move partitions to other brokers, or cancel such moves (KIP-455).

The controller answers when the reassignments have begun, long before data has moved; `ListPartitionReassignments`
shows when they are complete. Of a partition that is named twice the last assignment counts. `timeout_ms` is ignored, as
in Kafka's ZooKeeper mode.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import ApiError
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from understudy.foundation.wire.nested_topics import by_partition, nested


async def handle(
    services: BrokerServices, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    reassignments = {
        at: None if asked.replicas is None else tuple(map(BrokerId, asked.replicas))
        for at, asked in by_partition(request.topics).items()
    }
    results = await services.controller.alter_partition_reassignments(reassignments)
    if isinstance(results, ApiError):
        return AlterPartitionReassignmentsResponse(error_code=results.error, error_message=results.message or None)
    answers = {at: _answer(at.partition, error) for at, error in results.items()}
    return AlterPartitionReassignmentsResponse(error_message="", responses=nested(ReassignableTopicResponse, answers))


def _answer(index: int, error: ApiError | None) -> ReassignablePartitionResponse:
    if error is None:
        return ReassignablePartitionResponse(partition_index=index)
    return ReassignablePartitionResponse(
        partition_index=index, error_code=error.error, error_message=error.message or None
    )


SERVES = Serves(request=AlterPartitionReassignmentsRequest, versions=(0, 0), handle=handle, recorded=True)
