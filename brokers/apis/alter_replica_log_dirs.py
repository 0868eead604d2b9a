"""AlterReplicaLogDirs (key 34, versions 0 to 2): a broker has one log directory, and each replica is in it already.

Mirrors `ReplicaManager.alterReplicaLogDirs` with one directory: another one is LOG_DIR_NOT_FOUND. A topic is refused
whose name is too long for the folder of a replica that moves.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

LONGEST_FOLDER = 255
"""Maximum length of a folder's name."""
SUFFIX_OF_A_MOVE = f".{'0' * 32}-future"
"""Suffix of such a folder's name: 32 characters that make it unique stand in it."""


async def handle(
    services: BrokerServices, request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    results = grouped(
        (
            topic.name,
            AlterReplicaLogDirPartitionResult(
                partition_index=index, error_code=_error(services, directory.path, TopicPartition(topic.name, index))
            ),
        )
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    )
    return AlterReplicaLogDirsResponse(
        results=tuple(
            AlterReplicaLogDirTopicResult(topic_name=topic, partitions=partitions)
            for topic, partitions in results.items()
        )
    )


def _error(services: BrokerServices, path: str, topic_partition: TopicPartition) -> Errors:
    if len(f"{topic_partition}{SUFFIX_OF_A_MOVE}") > LONGEST_FOLDER:
        return Errors.INVALID_TOPIC_EXCEPTION
    if path != services.disk.directory:
        return Errors.LOG_DIR_NOT_FOUND
    if topic_partition in services.replicas.partitions:
        return Errors.NONE
    if services.metadata.snapshot.partition(*topic_partition) is None:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    return Errors.REPLICA_NOT_AVAILABLE


SERVES = Serves(request=AlterReplicaLogDirsRequest, versions=(0, 2), handle=handle)
