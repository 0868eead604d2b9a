"""DescribeLogDirs (key 35): the log directories of a broker, their replicas and sizes.

Versions: 2 flexible; 3 an error of the whole request; 4 the size of the volume (KIP-827).
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, ignorable, int16, int32, int64, since


class DescribeLogDirsRequest(Message, frozen=True, kw_only=True):
    topics: tuple[DescribableLogDirTopic, ...] | None = ()
    """None: all."""


class DescribableLogDirTopic(Message, frozen=True, kw_only=True):
    topic: str = ""
    partitions: tuple[int32, ...] = ()


class DescribeLogDirsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: Annotated[int16, since(3), ignorable] = 0
    results: tuple[DescribeLogDirsResult, ...] = ()


class DescribeLogDirsResult(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    log_dir: str = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: Annotated[int64, since(4), ignorable] = -1
    """Bytes of the directory's volume; −1 if they are not known."""
    usable_bytes: Annotated[int64, since(4), ignorable] = -1


class DescribeLogDirsTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


class DescribeLogDirsPartition(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    partition_size: int64 = 0
    """Bytes of the replica's segments."""
    offset_lag: int64 = 0
    """Offsets from its end to the high watermark, or from a future log's end to the current log's."""
    is_future_key: bool = False
    """True for a log that will replace the current one when it has caught up."""
