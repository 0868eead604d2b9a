"""`LogEvents` writes the records of the logs of partitions to the event log, if `understudy.events.logs` is set.

They are what the checks of the data read: appends, high watermarks, truncations and acknowledgements. Under load they
are thousands per second, so that they are not written unless asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypedDict

from understudy.brokers.log.append_info import LogAppendInfo
from understudy.brokers.log.cleaning import Cleaned
from understudy.brokers.log.partition_log import PartitionLog
from understudy.brokers.replication.isr import is_awaited
from understudy.brokers.replication.partition import Partition
from understudy.foundation.cluster.identifiers import TopicId
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import (
    HighWatermarkChanged,
    LeaderStarted,
    LogCleaned,
    LoggedBatch,
    LogOpened,
    LogTruncated,
    RecordsAcknowledged,
    RecordsAppended,
)
from understudy.foundation.records.batch import BatchHeader, batches

_WHOLE = 1 << 31
"""Number of bytes that no append reaches."""


class LogEvents:
    """Writes what happens to the logs that this broker hosts.

    Args:
        events: None to write nothing.
    """

    def __init__(self, events: EventLog | None = None) -> None:
        self._events = events

    def opened(self, partition: Partition, topic_id: TopicId) -> None:
        """Write with which log a partition is hosted, before its first leader or follower role is applied."""
        if self._events is not None:
            log = partition.log
            self._events.append(
                LogOpened(
                    **_names(partition, topic_id),
                    log_start_offset=log.log_start_offset,
                    log_end_offset=log.log_end_offset,
                    high_watermark=log.high_watermark,
                    epochs=_epochs(log),
                )
            )

    def leader_started(self, partition: Partition) -> None:
        """Write that a leader epoch begins here."""
        if self._events is not None:
            self._events.append(
                LeaderStarted(
                    **_names(partition, partition.topic_id),
                    leader_epoch=partition.leader_epoch,
                    log_end_offset=partition.log.log_end_offset,
                    high_watermark=partition.log.high_watermark,
                    epochs=_epochs(partition.log),
                )
            )

    def appended(self, partition: Partition, from_offset: int) -> None:
        """Write the batches that one append has added from `from_offset` on. They are read from the log again."""
        log = partition.log
        if self._events is not None and log.log_end_offset > from_offset:
            added = log.read(from_offset, _WHOLE, end_offset=log.log_end_offset, min_one=True)
            self._events.append(
                RecordsAppended(
                    **_names(partition, partition.topic_id),
                    role=partition.state.role.value,
                    leader_epoch=partition.leader_epoch,
                    batches=tuple(_logged(batch.header) for batch in batches(added)),
                )
            )

    def high_watermark_changed(
        self,
        partition: Partition,
        *,
        now_ms: float = 0.0,
        max_lag_ms: float = 0.0,
        is_alive: Callable[[int], bool] = bool,
    ) -> None:
        """Write a new high watermark; of a leader, also the ends of the replicas that it has waited for.

        Args:
            now_ms, max_lag_ms, is_alive: as in `isr.is_awaited`; a follower waits for none, and needs none of them.
        """
        if self._events is not None:
            end_offset = partition.log.log_end_offset
            awaited = tuple(
                (broker, known.log_end_offset)
                for broker, known in sorted(partition.followers.items())
                if is_awaited(
                    broker,
                    known,
                    partition=partition.state,
                    leader_end_offset=end_offset,
                    now_ms=now_ms,
                    max_lag_ms=max_lag_ms,
                    is_alive=is_alive,
                )
            )
            self._events.append(
                HighWatermarkChanged(
                    **_names(partition, partition.topic_id),
                    role=partition.state.role.value,
                    leader_epoch=partition.leader_epoch,
                    high_watermark=partition.log.high_watermark,
                    log_end_offset=end_offset,
                    replica_end_offsets=awaited,
                )
            )

    @contextlib.contextmanager
    def truncating(self, partition: Partition) -> Iterator[None]:
        """Write the truncation of a follower's log that is made within the block."""
        log = partition.log
        end_offset, high_watermark = log.log_end_offset, log.high_watermark
        yield
        if self._events is not None:
            self._events.append(
                LogTruncated(
                    **_names(partition, partition.topic_id),
                    leader_epoch=partition.leader_epoch,
                    to_offset=log.log_end_offset,
                    is_full=log.log_start_offset >= log.log_end_offset,
                    log_end_offset=end_offset,
                    high_watermark=high_watermark,
                    epochs=_epochs(log),
                )
            )

    def acknowledged(
        self, partition: Partition, info: LogAppendInfo, *, acks: int, isr_at_append: tuple[int, ...]
    ) -> None:
        """Write that a producer is answered that its records are there."""
        if self._events is not None and info.last_offset >= 0:
            leader_epoch = partition.log.epochs.epoch_of(info.last_offset)
            self._events.append(
                RecordsAcknowledged(
                    **_names(partition, partition.topic_id),
                    leader_epoch=partition.leader_epoch if leader_epoch is None else leader_epoch,
                    base_offset=info.first_offset,
                    last_offset=info.last_offset,
                    acks=acks,
                    isr_at_append=isr_at_append,
                    isr=tuple(sorted(partition.state.maximal_isr)),
                    min_insync_replicas=partition.effective_min_isr,
                    answered_in_epoch=partition.leader_epoch,
                )
            )

    def cleaned(self, log: PartitionLog, cleaned: Cleaned) -> None:
        """Write that segments of a log are replaced by a compacted one."""
        if self._events is not None:
            topic, number = log.topic_partition
            self._events.append(
                LogCleaned(
                    topic=topic,
                    topic_id=log.topic_id,
                    partition=number,
                    from_offset=cleaned.segment.base_offset,
                    to_offset=cleaned.end_offset,
                    segments=len(cleaned.base_offsets),
                    records_read=cleaned.counts.records_read,
                    records_kept=cleaned.counts.records_kept,
                    bytes_read=cleaned.counts.bytes_read,
                    bytes_written=cleaned.counts.bytes_written,
                )
            )


class _Names(TypedDict):
    """The fields that name a partition in a record."""

    topic: str
    topic_id: str
    partition: int


def _names(partition: Partition, topic_id: TopicId) -> _Names:
    topic, number = partition.topic_partition
    return _Names(topic=topic, topic_id=topic_id, partition=number)


def _epochs(log: PartitionLog) -> tuple[tuple[int, int], ...]:
    return tuple((entry.epoch, entry.start_offset) for entry in log.epochs.entries)


def _logged(header: BatchHeader) -> LoggedBatch:
    return LoggedBatch(
        base_offset=header.base_offset,
        next_offset=header.next_offset,
        leader_epoch=header.partition_leader_epoch,
        crc=header.crc,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_sequence=header.last_sequence,
    )
