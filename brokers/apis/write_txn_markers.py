"""WriteTxnMarkers (key 27, versions 0 and 1): no marker is written, because transactional batches are refused here.

In a cluster with Kafka's brokers a coordinator of theirs sends it. UNSUPPORTED_VERSION for a partition without a
transaction of the producer lets that coordinator complete the others. If the transaction is open in a log that this
broker took over, the connection is closed: the coordinator sends the markers again, until another broker leads.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import CloseConnection, Serves
from understudy.brokers.replication.partition import Role
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from understudy.foundation.wire.nested_topics import nested

NO_TRANSACTION = -1


async def handle(
    services: BrokerServices, request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(markers=tuple(_result(services, marker) for marker in request.markers))


def _result(services: BrokerServices, marker: WritableTxnMarker) -> WritableTxnMarkerResult:
    results = {
        TopicPartition(topic.name, index): WritableTxnMarkerPartitionResult(
            partition_index=index, error_code=_error(services, TopicPartition(topic.name, index), marker.producer_id)
        )
        for topic in marker.topics
        for index in topic.partition_indexes
    }
    return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=nested(WritableTxnMarkerTopicResult, results))


def _error(services: BrokerServices, topic_partition: TopicPartition, producer_id: int) -> Errors:
    """Return why there is no marker.

    Raises:
        CloseConnection: this broker leads a partition with an open transaction of the producer.
    """
    partition = services.replicas.partitions.get(topic_partition)
    if partition is None and services.metadata.snapshot.partition(*topic_partition) is None:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    if partition is None or partition.state.role is not Role.LEADER:
        return Errors.NOT_LEADER_OR_FOLLOWER
    if any(
        producer.producer_id == producer_id and producer.transaction_start_offset != NO_TRANSACTION
        for producer in partition.log.producers.entries()
    ):
        raise CloseConnection(
            f"a transaction of producer {producer_id} is open in {topic_partition}, and this broker cannot end it: "
            "move the leader to a broker of Kafka"
        )
    return Errors.UNSUPPORTED_VERSION


SERVES = Serves(request=WriteTxnMarkersRequest, versions=(0, 1), handle=handle)
