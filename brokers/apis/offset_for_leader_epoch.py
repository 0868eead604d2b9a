"""OffsetForLeaderEpoch (key 23, versions 0 to 4): where a leader epoch ends in the leader's log (KIP-101, KIP-320)."""

from __future__ import annotations

from understudy.brokers.apis.partition_access import epoch_end, readable_partition
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


async def handle(
    services: BrokerServices, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    _end(services, TopicPartition(topic.topic, asked.partition), asked) for asked in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _end(services: BrokerServices, topic_partition: TopicPartition, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        if services.metadata.snapshot.partition(*topic_partition) is None:
            raise ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_partition} does not exist")
        partition = readable_partition(
            services, "OffsetForLeaderEpoch", topic_partition, asked.current_leader_epoch, only_leader=True
        )
    except ApiError as refused:
        return EpochEndOffset(partition=asked.partition, error_code=refused.error)
    end = epoch_end(services, partition.log, asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=end.epoch, end_offset=end.end_offset)


SERVES = Serves(request=OffsetForLeaderEpochRequest, versions=(0, 4), handle=handle)
