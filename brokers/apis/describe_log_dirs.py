"""DescribeLogDirs (key 35, versions 0 to 4): this broker's one log directory, the replicas in it, the free space.

A replica has the size of its segments, and lags by what its high watermark is ahead of its end. Version 3 adds an error
for the whole request, version 4 the size of the volume.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from understudy.foundation.wire.nested_topics import nested

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.ReplicaManager")


async def handle(
    services: BrokerServices, request: DescribeLogDirsRequest, context: RequestContext
) -> DescribeLogDirsResponse:
    directory = services.disk.directory
    try:
        volume = services.disk.volume()
    except OSError as error:
        log.warning("unable to describe replica dirs", directory=directory, why=str(error))
        return DescribeLogDirsResponse(
            results=(DescribeLogDirsResult(error_code=Errors.KAFKA_STORAGE_ERROR, log_dir=directory),)
        )
    result = DescribeLogDirsResult(
        log_dir=directory,
        topics=_topics(services, requested_partitions(services.replicas.partitions, request)),
        total_bytes=volume.total_bytes,
        usable_bytes=volume.usable_bytes,
    )
    return DescribeLogDirsResponse(results=(result,))


def requested_partitions(hosted: Iterable[TopicPartition], request: DescribeLogDirsRequest) -> list[TopicPartition]:
    """The requested partitions that this broker hosts, sorted; all of them if the request names no topics."""
    if request.topics is None:
        return sorted(hosted)
    requested = {TopicPartition(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
    return sorted(partition for partition in hosted if partition in requested)


def _topics(services: BrokerServices, partitions: Iterable[TopicPartition]) -> tuple[DescribeLogDirsTopic, ...]:
    described = {
        each: DescribeLogDirsPartition(
            partition_index=each.partition,
            partition_size=replica.size,
            offset_lag=max(replica.high_watermark - replica.log_end_offset, 0),
        )
        for each in partitions
        if (replica := services.replicas.partitions[each].local_log) is not None
    }
    return nested(DescribeLogDirsTopic, described)


SERVES = Serves(request=DescribeLogDirsRequest, versions=(0, 4), handle=handle, reading=lambda request: request)
