"""DescribeLogDirs (key 35): where a broker keeps its replicas, and how much room there is.

Versions: 2 flexible; 3 an error of the whole request; 4 the size of the volume (KIP-827).
"""

from __future__ import annotations

from typing import Annotated

from foundation.wire.schema import Message, ignorable, int16, int32, int64, since


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
    """Of the volume the directory is in; −1 where that cannot be told."""
    usable_bytes: Annotated[int64, since(4), ignorable] = -1


class DescribeLogDirsTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


class DescribeLogDirsPartition(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    partition_size: int64 = 0
    """Bytes of its segments."""
    offset_lag: int64 = 0
    """How far its end lies behind the high watermark, or a future log behind the current one."""
    is_future_key: bool = False
    """A log that will replace the current one when it has caught up."""
