"""OffsetDelete (key 47, version 0): an operator deletes committed offsets of a group (KIP-496).

Mirrors `KafkaApis.handleOffsetDeleteRequest`.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from understudy.foundation.wire.nested_topics import by_partition, nested


async def handle(
    services: BrokerServices, request: OffsetDeleteRequest, context: RequestContext
) -> OffsetDeleteResponse:
    asked = by_partition(request.topics)
    known = [partition for partition in asked if services.metadata.snapshot.partition(*partition) is not None]
    error, deleted = services.groups.administration.delete_offsets(request.group_id, known)
    if error is not Errors.NONE:
        return OffsetDeleteResponse(error_code=error)
    errors = dict.fromkeys(asked, Errors.UNKNOWN_TOPIC_OR_PARTITION) | deleted
    answers = {
        at: OffsetDeleteResponsePartition(partition_index=at.partition, error_code=error)
        for at, error in errors.items()
    }
    return OffsetDeleteResponse(topics=nested(OffsetDeleteResponseTopic, answers))


SERVES = Serves(request=OffsetDeleteRequest, versions=(0, 0), handle=handle)
