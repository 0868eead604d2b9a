"""DescribeProducers (key 61, version 0): the producers that a replica's log remembers (KIP-664)."""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.metadata.topic_names import why_invalid
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


async def handle(
    services: BrokerServices, request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=tuple(
            TopicResponse(
                name=topic.name,
                partitions=tuple(
                    _producers(services, TopicPartition(topic.name, at)) for at in topic.partition_indexes
                ),
            )
            for topic in request.topics
        )
    )


def _producers(services: BrokerServices, topic_partition: TopicPartition) -> PartitionResponse:
    index = topic_partition.partition
    invalid = why_invalid(topic_partition.topic)
    if invalid is not None:
        return PartitionResponse(
            partition_index=index, error_code=Errors.INVALID_TOPIC_EXCEPTION, error_message=invalid
        )
    if services.metadata.snapshot.partition(*topic_partition) is None:
        return PartitionResponse(
            partition_index=index,
            error_code=Errors.UNKNOWN_TOPIC_OR_PARTITION,
            error_message="This server does not host this topic-partition.",
        )
    partition = services.replicas.partitions.get(topic_partition)
    if partition is None or partition.local_log is None:
        return PartitionResponse(partition_index=index, error_code=Errors.NOT_LEADER_OR_FOLLOWER)
    return PartitionResponse(
        partition_index=index,
        active_producers=tuple(
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_start_offset,
            )
            for producer in partition.log.producers.entries()
        ),
    )


SERVES = Serves(request=DescribeProducersRequest, versions=(0, 0), handle=handle)
