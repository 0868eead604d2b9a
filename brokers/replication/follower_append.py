"""Appends what a leader has sent to a follower's log, also if that begins in the middle of a batch.

Mirrors `Partition.appendRecordsToFollowerOrFutureReplica`.
"""

from __future__ import annotations

import structlog

from understudy.brokers.log.log_validator import UnexpectedAppendOffset
from understudy.brokers.replication.log_events import LogEvents
from understudy.brokers.replication.partition import Partition
from understudy.foundation.records.varint import Buffer

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.cluster.Partition")


def append_to_follower(partition: Partition, data: Buffer, *, now_ms: float, log_events: LogEvents) -> None:
    """Append the leader's batches, and start an empty log earlier if the first one begins before it.

    A follower without records starts at the leader's log start offset. DeleteRecords may have moved that into the
    middle of a batch, which then begins before the follower's log: the log begins with that batch instead.

    Raises:
        ApiError, OSError: as `ReplicaManager.append_as_follower`.
    """
    replica = partition.log
    end_offset = replica.log_end_offset
    try:
        replica.append_as_follower(data, now_ms=now_ms)
    except UnexpectedAppendOffset as unexpected:
        start_offset = replica.log_start_offset
        is_empty = replica.log_end_offset == start_offset
        if not is_empty or not unexpected.first_offset < start_offset <= unexpected.last_offset:
            raise
        log.info(
            "starting the log before its start offset",
            partition=str(replica.topic_partition),
            base_offset=unexpected.first_offset,
            log_start_offset=start_offset,
        )
        end_offset = unexpected.first_offset
        with log_events.truncating(partition):
            replica.truncate_fully_and_start_at(end_offset, now_ms=now_ms, log_start_offset=start_offset)
        replica.append_as_follower(data, now_ms=now_ms)
    log_events.appended(partition, end_offset)
