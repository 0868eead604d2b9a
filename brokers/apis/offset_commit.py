"""OffsetCommit (key 8, versions 0 to 9): a member of a group, or a client without one, stores the offsets it reached.

Partitions that the metadata cache does not have are answered UNKNOWN_TOPIC_OR_PARTITION, the others do not suffer.
Version 0 stores in ZooKeeper. Mirrors `KafkaApis.handleOffsetCommitRequest`.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.apis.static_members import is_refused
from understudy.brokers.coordinator.group.group_offsets import OffsetAndMetadata
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.offset_commit import (
    DEFAULT_RETENTION_TIME_MS,
    DEFAULT_TIMESTAMP,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from understudy.foundation.wire.nested_topics import by_partition, nested
from understudy.foundation.zk.consumer_offsets import is_path_component
from understudy.foundation.zk.kafka_zk_client import SessionLost, ZooKeeperFailure

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.KafkaApis")

NO_EPOCH = -1


async def handle(
    services: BrokerServices, request: OffsetCommitRequest, context: RequestContext
) -> OffsetCommitResponse:
    asked = by_partition(request.topics)
    if is_refused(services, request.group_instance_id):
        return _response(dict.fromkeys(asked, Errors.UNSUPPORTED_VERSION))
    snapshot = services.metadata.snapshot
    known = {at: partition for at, partition in asked.items() if snapshot.partition(*at) is not None}
    errors = dict.fromkeys(asked, Errors.UNKNOWN_TOPIC_OR_PARTITION)
    if known and context.api_version == 0:
        errors |= await _store_in_zookeeper(services, request.group_id, known)
    elif known:
        now_ms = int(services.clock.wall_ms())
        retention_ms = request.retention_time_ms
        expire_ms = None if retention_ms == DEFAULT_RETENTION_TIME_MS else now_ms + retention_ms
        errors |= await services.groups.commit_offsets(
            request.group_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation_id=request.generation_id_or_member_epoch,
            offsets={at: offset_of(partition, now_ms, expire_ms) for at, partition in known.items()},
        )
    return _response(errors)


def offset_of(partition: OffsetCommitRequestPartition, now_ms: int, expire_ms: int | None) -> OffsetAndMetadata:
    """Return what a request commits for a partition.

    Args:
        expire_ms: wall time at which the offset expires; None for the broker's retention.
    """
    timestamp = partition.commit_timestamp
    return OffsetAndMetadata(
        offset=partition.committed_offset,
        leader_epoch=max(partition.committed_leader_epoch, NO_EPOCH),
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms if timestamp == DEFAULT_TIMESTAMP else timestamp,
        expire_timestamp=expire_ms,
    )


async def _store_in_zookeeper(
    services: BrokerServices, group_id: str, asked: Mapping[TopicPartition, OffsetCommitRequestPartition]
) -> dict[TopicPartition, Errors]:
    if not is_path_component(group_id):
        return dict.fromkeys(asked, Errors.INVALID_GROUP_ID)
    errors = dict.fromkeys(asked, Errors.NONE)
    for at, partition in asked.items():
        if len(partition.committed_metadata or "") > services.config.offset_metadata_max_bytes:
            errors[at] = Errors.OFFSET_METADATA_TOO_LARGE
            continue
        try:
            await services.zk().consumer_offsets.write(group_id, at, partition.committed_offset)
        except (SessionLost, ZooKeeperFailure) as failure:
            log.error("an offset could not be stored in ZooKeeper", group=group_id, partition=str(at), why=str(failure))
            errors[at] = Errors.UNKNOWN_SERVER_ERROR
    return errors


def _response(errors: Mapping[TopicPartition, Errors]) -> OffsetCommitResponse:
    answers = {
        at: OffsetCommitResponsePartition(partition_index=at.partition, error_code=error)
        for at, error in errors.items()
    }
    return OffsetCommitResponse(topics=nested(OffsetCommitResponseTopic, answers))


SERVES = Serves(request=OffsetCommitRequest, versions=(0, 9), handle=handle)
