"""ListOffsets (key 2, versions 0 to 9): where a log begins and ends, and which record is the first of a time.

Consumers get offsets up to the high watermark, or the last stable offset; followers get offsets of the whole log.
Version 0 answers with the base offsets of segments. Mirrors `Partition.fetchOffsetForTimestamp`.
"""

from __future__ import annotations

from collections import Counter

import structlog

from understudy.brokers.apis.partition_access import readable_partition
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.log.offsets_by_time import TimestampAndOffset, first_at_or_after, newest
from understudy.brokers.log.partition_log import PartitionLog
from understudy.brokers.log.record_errors import api_error
from understudy.brokers.replication.partition import Partition
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import NO_TIMESTAMP
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord
from understudy.foundation.wire.messages.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.ReplicaManager")

CONSUMER, DEBUGGING_CONSUMER = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
WITH_LEADER_EPOCH = 4
WITH_OFFSET_NOT_AVAILABLE = 5

_SINCE_VERSION = {
    LATEST_TIMESTAMP: 0,
    EARLIEST_TIMESTAMP: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
}
"""Timestamps that stand for a place in the log, and the versions that define them."""


async def handle(services: BrokerServices, request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    named = Counter(
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    topics = []
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            topic_partition = TopicPartition(topic.name, asked.partition_index)
            try:
                if named[topic_partition] > 1 and context.api_version > 0:
                    raise ApiError(Errors.INVALID_REQUEST, f"{topic_partition} is named more than once")
                answers.append(_answer(services, request, topic_partition, asked, context.api_version))
            except ApiError as refused:
                error = refused.error
                if error is Errors.OFFSET_NOT_AVAILABLE and context.api_version < WITH_OFFSET_NOT_AVAILABLE:
                    error = Errors.LEADER_NOT_AVAILABLE
                answers.append(ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(answers)))
    return ListOffsetsResponse(topics=tuple(topics))


def _answer(
    services: BrokerServices,
    request: ListOffsetsRequest,
    topic_partition: TopicPartition,
    asked: ListOffsetsPartition,
    version: int,
) -> ListOffsetsPartitionResponse:
    """Return the offset of one partition.

    Raises:
        ApiError: the partition cannot be read here, or the offset is not known.
    """
    if asked.timestamp < 0 and version < _SINCE_VERSION.get(asked.timestamp, version + 1):
        raise ApiError(Errors.UNSUPPORTED_VERSION, f"version {version} has no timestamp {asked.timestamp}")
    if request.replica_id == CONSUMER and request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise ApiError(Errors.UNKNOWN_SERVER_ERROR, f"Unknown isolation level {request.isolation_level}")
    partition = readable_partition(
        services,
        "ListOffsets",
        topic_partition,
        asked.current_leader_epoch,
        only_leader=request.replica_id != DEBUGGING_CONSUMER,
    )
    index = asked.partition_index
    try:
        if version == 0:
            offsets = segment_offsets(
                partition.log,
                asked.timestamp,
                most=asked.max_num_offsets,
                is_consumer=request.replica_id == CONSUMER,
                now_ms=services.clock.wall_ms(),
            )
            return ListOffsetsPartitionResponse(partition_index=index, old_style_offsets=offsets)
        found = offset_for_timestamp(
            partition, asked.timestamp, replica_id=request.replica_id, isolation=request.isolation_level
        )
    except (CorruptRecord, InvalidRecord) as error:
        log.error("a damaged log cannot be read", partition=str(topic_partition), why=str(error))
        raise api_error(error) from error
    except OSError as error:
        raise services.replicas.storage_error(partition, error) from error
    if found is None:
        return ListOffsetsPartitionResponse(partition_index=index)
    leader_epoch = found.leader_epoch if version >= WITH_LEADER_EPOCH else None
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=-1 if leader_epoch is None else leader_epoch,
    )


def offset_for_timestamp(
    partition: Partition, timestamp: int, *, replica_id: int, isolation: int
) -> TimestampAndOffset | None:
    """Return the record or place that a timestamp stands for; None if no record that may be read is as late.

    Raises:
        ApiError: OFFSET_NOT_AVAILABLE, a new leader's high watermark is still below the beginning of its epoch, so that
            an offset below what consumers have seen could be answered (KIP-207).
    """
    replica = partition.log
    end_offset = replica.log_end_offset
    is_lagging = False
    if replica_id == CONSUMER:
        end_offset = replica.last_stable_offset if isolation == READ_COMMITTED else replica.high_watermark
        is_lagging = partition.is_leader and partition.leader_epoch_start_offset > replica.high_watermark
    match timestamp:
        case _ if timestamp == LATEST_TIMESTAMP:
            if is_lagging:
                raise _not_available(partition)
            return TimestampAndOffset(NO_TIMESTAMP, end_offset, partition.leader_epoch)
        case _ if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            start_offset = replica.log_start_offset
            return TimestampAndOffset(NO_TIMESTAMP, start_offset, replica.epochs.epoch_of(start_offset))
        case _ if timestamp == LATEST_TIERED_TIMESTAMP:
            found: TimestampAndOffset | None = TimestampAndOffset(NO_TIMESTAMP, -1, None)
        case _ if timestamp == MAX_TIMESTAMP:
            found = newest(replica.segments)
        case _:
            found = first_at_or_after(replica.segments, timestamp, log_start_offset=replica.log_start_offset)
    if found is not None and found.offset < end_offset:
        return found
    if is_lagging:
        raise _not_available(partition)
    return None


def _not_available(partition: Partition) -> ApiError:
    return ApiError(
        Errors.OFFSET_NOT_AVAILABLE,
        f"Failed to fetch offsets for partition {partition.topic_partition} with leader epoch "
        f"{partition.leader_epoch} as this partition's high watermark ({partition.log.high_watermark}) is lagging "
        f"behind the start offset from the beginning of this epoch ({partition.leader_epoch_start_offset}).",
    )


def segment_offsets(
    replica: PartitionLog, timestamp: int, *, most: int, is_consumer: bool, now_ms: float
) -> tuple[int, ...]:
    """Return the base offsets of segments that were written before `timestamp`, the largest first (version 0).

    Mirrors `legacyFetchOffsetsBefore`; a consumer gets the high watermark for all above it.
    """
    segments = replica.segments
    found = [(max(each.base_offset, replica.log_start_offset), float(each.largest_timestamp_ms)) for each in segments]
    if segments[-1].size:
        found.append((replica.log_end_offset, now_ms))
    if timestamp == EARLIEST_TIMESTAMP:
        del found[1:]
    elif timestamp != LATEST_TIMESTAMP:
        while found and found[-1][1] > timestamp:
            found.pop()
    offsets = [offset for offset, _ in reversed(found)][: max(most, 0)]
    if is_consumer and offsets and offsets[0] > replica.high_watermark:
        offsets = [replica.high_watermark, *(offset for offset in offsets if offset <= replica.high_watermark)]
    return tuple(offsets)


SERVES = Serves(request=ListOffsetsRequest, versions=(0, 9), handle=handle)
