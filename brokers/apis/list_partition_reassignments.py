"""ListPartitionReassignments (key 46, version 0): the partitions that are being reassigned (KIP-455). Only the
controller answers.

Requested partitions that are not being reassigned, or do not exist, are left out of the response.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import ApiError
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from understudy.foundation.wire.nested_topics import nested


async def handle(
    services: BrokerServices, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    requested = None
    if request.topics is not None:
        requested = sorted(
            {TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
        )
    ongoing = await services.controller.list_partition_reassignments(requested)
    if isinstance(ongoing, ApiError):
        return ListPartitionReassignmentsResponse(error_code=ongoing.error, error_message=ongoing.message or None)
    answers = {
        at: OngoingPartitionReassignment(
            partition_index=at.partition,
            replicas=assignment.replicas,
            adding_replicas=assignment.adding_replicas,
            removing_replicas=assignment.removing_replicas,
        )
        for at, assignment in ongoing.items()
    }
    return ListPartitionReassignmentsResponse(error_message="", topics=nested(OngoingTopicReassignment, answers))


SERVES = Serves(request=ListPartitionReassignmentsRequest, versions=(0, 0), handle=handle)
