"""`ReplicaLogs` follows the log of every replica through the records that its broker has written.

A log outlives the processes of its broker, so it is kept by broker and not by incarnation. If records are missing,
as before they were switched on, the batches up to that offset are unknown and are not checked.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from understudy.checks.check import broker_of
from understudy.checks.facts import Partition
from understudy.checks.partition_state import RECOVERING
from understudy.foundation.eventlog.records import (
    ContextLoaded,
    Envelope,
    HighWatermarkChanged,
    LeadershipWritten,
    LeaderStarted,
    LoggedBatch,
    LogOpened,
    LogTruncated,
    RecordsAcknowledged,
    RecordsAppended,
    StopReplicaApplied,
)

LogId: TypeAlias = tuple[str, str, int]
"""(topic, topic id, partition)."""

LeaderEpochCache: TypeAlias = tuple[tuple[int, int], ...]
"""(leader epoch, its first offset), ascending."""

LogRecord: TypeAlias = (
    LogOpened | LeaderStarted | RecordsAppended | HighWatermarkChanged | LogTruncated | RecordsAcknowledged
)

_NEXT_OFFSET = attrgetter("next_offset")


class EpochRange(NamedTuple):
    """Consecutive batches of one leader epoch."""

    epoch: int
    start_offset: int
    end_offset: int


def epoch_at(cache: Sequence[tuple[int, int]], offset: int) -> int | None:
    """Return the leader epoch that a leader epoch cache has for an offset; None before its first entry."""
    return next((epoch for epoch, start in reversed(cache) if start <= offset), None)


class ReplicaLog:
    """The log of one replica after the records read so far."""

    def __init__(self, log_id: LogId, broker: int) -> None:
        self.log_id = log_id
        self.broker = broker
        self.is_known = False
        """Whether `end_offset` is known: the log was opened or appended to since the first record."""
        self.known_from = 0
        """The offset at which the known batches begin."""
        self.end_offset = 0
        self.batches: list[LoggedBatch] = []
        """The batches from `known_from` on."""
        self._ranges: list[EpochRange] = []
        """The leader epochs of `batches`, kept because they are read much more often than a log is cut."""
        self.epochs: list[tuple[int, int]] | None = None
        """The leader epoch cache in the latest record that has it, (leader epoch, first offset); None without one."""
        self.high_watermark_epoch = -1
        """The leader epoch in which the high watermark was set last. A checkpoint may bring an earlier one back."""
        self._high_watermarks: list[tuple[int, int]] = []
        """(high watermark, leader epoch), each lower than those before it: what a checkpoint may hold."""
        self.lost_up_to = 0
        """The end offset before a loss of power cut the log; not above `end_offset` once the log has grown again."""

    @property
    def name(self) -> str:
        return f"{self.log_id[0]}-{self.log_id[2]}"

    @property
    def lacks_lost_records(self) -> bool:
        return self.lost_up_to > self.end_offset

    def epoch_ranges(self) -> list[EpochRange]:
        """Return the leader epochs of the known batches, in order of their offsets."""
        return list(self._ranges)

    def batches_between(self, after: int, up_to: int) -> list[LoggedBatch]:
        """Return the known batches that end above offset `after` and not above `up_to`."""
        first = bisect_right(self.batches, after, key=_NEXT_OFFSET)
        return self.batches[first : bisect_right(self.batches, up_to, key=_NEXT_OFFSET)]

    def open(self, data: LogOpened) -> list[LoggedBatch]:
        """Take the state with which a broker has opened the log; return the batches that a loss of power removed."""
        removed: list[LoggedBatch] = []
        if self.is_known and data.log_end_offset <= self.end_offset:
            if data.log_end_offset < self.end_offset:
                self.lost_up_to = max(self.lost_up_to, self.end_offset)
            removed = self._cut(data.log_end_offset)
        else:
            self._forget(data.log_end_offset)
        self.is_known, self.end_offset, self.epochs = True, data.log_end_offset, list(data.epochs)
        held = (epoch for value, epoch in reversed(self._high_watermarks) if value >= data.high_watermark)
        self.high_watermark_epoch = next(held, self.high_watermark_epoch)
        return removed

    def set_high_watermark(self, high_watermark: int, leader_epoch: int) -> None:
        """Take a high watermark of a running broker."""
        while self._high_watermarks and self._high_watermarks[-1][0] <= high_watermark:
            del self._high_watermarks[-1]
        self._high_watermarks.append((high_watermark, leader_epoch))
        self.high_watermark_epoch = leader_epoch

    def append(self, batch: LoggedBatch) -> None:
        if not self.is_known:
            self.is_known, self.known_from = True, batch.base_offset
        self.batches.append(batch)
        self._extend_ranges(batch)
        self.end_offset = batch.next_offset

    def truncate(self, data: LogTruncated) -> list[LoggedBatch]:
        """Remove the batches that a truncation has removed, and return them."""
        removed = self._cut(data.to_offset)
        if data.is_full:
            self._forget(data.to_offset)
        self.is_known, self.end_offset, self.epochs = True, data.to_offset, list(data.epochs)
        self.lost_up_to = 0
        return removed

    def _cut(self, end_offset: int) -> list[LoggedBatch]:
        kept = bisect_right(self.batches, end_offset, key=_NEXT_OFFSET)
        removed = self.batches[kept:]
        del self.batches[kept:]
        self.known_from = min(self.known_from, end_offset)
        if removed:
            self._ranges = []
            for batch in self.batches:
                self._extend_ranges(batch)
        return removed

    def _forget(self, end_offset: int) -> None:
        """Forget everything below the end of the log."""
        self.batches, self._ranges, self.known_from = [], [], end_offset

    def _extend_ranges(self, batch: LoggedBatch) -> None:
        last = self._ranges[-1] if self._ranges else None
        if last is not None and last.epoch == batch.leader_epoch:
            self._ranges[-1] = EpochRange(last.epoch, last.start_offset, batch.next_offset)
        else:
            self._ranges.append(EpochRange(batch.leader_epoch, batch.base_offset, batch.next_offset))


class ReplicaLogs:
    """The logs of all replicas."""

    def __init__(self) -> None:
        self._logs: dict[tuple[int, LogId], ReplicaLog] = {}

    def of(self, record: Envelope, data: LogRecord) -> ReplicaLog:
        """Return the log that a record is about."""
        key = broker_of(record), (data.topic, data.topic_id, data.partition)
        if (log := self._logs.get(key)) is None:
            log = self._logs[key] = ReplicaLog(key[1], key[0])
        return log

    def remove_deleted(self, record: Envelope, data: StopReplicaApplied) -> None:
        """Forget the logs that a StopReplica has deleted: the broker may get an empty one of that name."""
        deleted = {(topic, partition) for topic, partition, _, is_deleted in data.partitions if is_deleted}
        broker = broker_of(record)
        for key in [key for key in self._logs if key[0] == broker and (key[1][0], key[1][2]) in deleted]:
            del self._logs[key]


def partitions_that_may_have_lost(records: Iterable[Envelope]) -> set[Partition]:
    """Return the partitions that may have lost acknowledged records.

    These are the partitions that had an unclean election, or a leader that began after a loss of power had removed
    records from its log. A controller that loses ZooKeeper before it knows whether an unclean election is written does
    not record it. The next controller reads it, and the leader recovery state shows what it was (in protocols from 3.2
    on, which have one).

    Args:
        records: all records, each node's in the order in which it has written them.
    """
    found: set[Partition] = set()
    logs = ReplicaLogs()
    for record in records:
        data = record.data
        match data:
            case LeadershipWritten():
                if data.why == "unclean":
                    found.update((each.topic, each.partition) for each in data.partitions)
            case ContextLoaded(partitions=partitions):
                recovering = (each for each in partitions if each.leader_recovery_state == RECOVERING)
                found.update((each.topic, each.partition) for each in recovering)
            case StopReplicaApplied():
                logs.remove_deleted(record, data)
            case LogOpened():
                logs.of(record, data).open(data)
            case LogTruncated():
                logs.of(record, data).truncate(data)
            case RecordsAppended():
                for batch in data.batches:
                    logs.of(record, data).append(batch)
            case LeaderStarted():
                if logs.of(record, data).lacks_lost_records:
                    found.add((data.topic, data.partition))
            case _:
                pass
    return found
