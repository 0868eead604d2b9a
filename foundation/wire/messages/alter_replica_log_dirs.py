"""AlterReplicaLogDirs (key 34): move replicas to other log directories of a broker (KIP-113).

Version 2 is flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int16, int32


class AlterReplicaLogDirsRequest(Message, frozen=True, kw_only=True):
    dirs: tuple[AlterReplicaLogDir, ...] = ()


class AlterReplicaLogDir(Message, frozen=True, kw_only=True):
    path: str = ""
    """The absolute path of the directory to move to."""
    topics: tuple[AlterReplicaLogDirTopic, ...] = ()


class AlterReplicaLogDirTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[int32, ...] = ()


class AlterReplicaLogDirsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...] = ()


class AlterReplicaLogDirTopicResult(Message, frozen=True, kw_only=True):
    topic_name: str = ""
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = ()


class AlterReplicaLogDirPartitionResult(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    error_code: int16 = 0
