"""DeleteRecords (key 21, versions 0 to 2): logs begin later from now on (KIP-107).

The leader's log start offset moves at once, and followers take it over with their Fetch. The answer waits until all
live replicas have, at most `timeout_ms`. Mirrors `deleteRecordsOnLeader` and `DelayedDeleteRecords`.
"""

from __future__ import annotations

from msgspec.structs import replace

from understudy.brokers.apis.partition_access import NO_EPOCH, readable_partition
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.metadata.topic_names import is_internal
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from understudy.foundation.wire.nested_topics import nested

HIGH_WATERMARK = -1
NO_WATERMARK = -1


async def handle(
    services: BrokerServices, request: DeleteRecordsRequest, context: RequestContext
) -> DeleteRecordsResponse:
    results: dict[TopicPartition, DeleteRecordsPartitionResult] = {}
    pending: dict[TopicPartition, int] = {}
    for topic in request.topics:
        for asked in topic.partitions:
            topic_partition = TopicPartition(topic.name, asked.partition_index)
            try:
                pending[topic_partition] = _delete(services, topic_partition, asked.offset)
                results[topic_partition] = _result(topic_partition, Errors.REQUEST_TIMED_OUT)
            except ApiError as refused:
                results[topic_partition] = _result(topic_partition, refused.error)
    await _wait(services, results, pending, request.timeout_ms)
    return DeleteRecordsResponse(topics=nested(DeleteRecordsTopicResult, results))


def _delete(services: BrokerServices, topic_partition: TopicPartition, offset: int) -> int:
    """Let the leader's log begin at an offset; return it.

    Raises:
        ApiError: this broker does not lead the partition, the topic may not be deleted from, or the offset is beyond
            the high watermark.
    """
    if is_internal(topic_partition.topic):
        reason = f"Cannot delete records of internal topic {topic_partition.topic}"
        raise ApiError(Errors.INVALID_TOPIC_EXCEPTION, reason)
    partition = readable_partition(services, "DeleteRecords", topic_partition, NO_EPOCH, only_leader=True)
    replica = partition.log
    if not replica.config.is_deleted:
        reason = f"Records of partition {topic_partition} can not be deleted due to the configured policy"
        raise ApiError(Errors.POLICY_VIOLATION, reason)
    wanted = replica.high_watermark if offset == HIGH_WATERMARK else offset
    if wanted < 0:
        reason = f"The offset {wanted} for partition {topic_partition} is not valid"
        raise ApiError(Errors.OFFSET_OUT_OF_RANGE, reason)
    try:
        if replica.maybe_increment_log_start_offset(wanted):
            services.replicas.delayed_fetches.check_and_complete((topic_partition,))
    except OSError as error:
        raise services.replicas.storage_error(partition, error) from error
    return wanted


async def _wait(
    services: BrokerServices,
    results: dict[TopicPartition, DeleteRecordsPartitionResult],
    pending: dict[TopicPartition, int],
    timeout_ms: int,
) -> None:
    """Wait until all live replicas of every partition begin at its offset; enter how each ended into `results`."""
    replicas = services.replicas

    def settle() -> bool:
        for topic_partition, offset in tuple(pending.items()):
            low_watermark = replicas.low_watermark(topic_partition)
            if low_watermark is None:
                del pending[topic_partition]
                results[topic_partition] = _result(topic_partition, Errors.NOT_LEADER_OR_FOLLOWER)
                continue
            known = results[topic_partition]
            results[topic_partition] = replace(known, low_watermark=low_watermark)
            if low_watermark >= offset:
                del pending[topic_partition]
                results[topic_partition] = replace(known, low_watermark=low_watermark, error_code=Errors.NONE)
        return not pending

    await replicas.delayed_deletes.wait_until(tuple(pending), settle, timeout_ms=timeout_ms)


def _result(topic_partition: TopicPartition, error: Errors) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=topic_partition.partition, low_watermark=NO_WATERMARK, error_code=error
    )


SERVES = Serves(request=DeleteRecordsRequest, versions=(0, 2), handle=handle)
