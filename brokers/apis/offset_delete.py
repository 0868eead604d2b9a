"""OffsetDelete (key 47, version 0): an operator deletes committed offsets of a group (KIP-496).

Mirrors `KafkaApis.handleOffsetDeleteRequest`.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(
    services: BrokerServices, request: OffsetDeleteRequest, context: RequestContext
) -> OffsetDeleteResponse:
    asked = [TopicPartition(topic.name, each.partition_index) for topic in request.topics for each in topic.partitions]
    known = [partition for partition in asked if services.metadata.snapshot.partition(*partition) is not None]
    error, deleted = services.groups.administration.delete_offsets(request.group_id, known)
    if error is not Errors.NONE:
        return OffsetDeleteResponse(error_code=error)
    errors = dict.fromkeys(asked, Errors.UNKNOWN_TOPIC_OR_PARTITION) | deleted
    return OffsetDeleteResponse(
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=each.partition_index,
                        error_code=errors[TopicPartition(topic.name, each.partition_index)],
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


SERVES = Serves(request=OffsetDeleteRequest, versions=(0, 0), handle=handle)
