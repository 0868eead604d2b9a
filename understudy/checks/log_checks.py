"""`LogCheck`, the base class of the invariants of logs, and `LogFollower`, which follows the logs for all of them.

They read the records of logs, which brokers write with `understudy.events.logs=true`. A record is committed when it is
below a high watermark, and it is acknowledged when a producer with acks=all gets its answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from understudy.checks.check import InvariantCheck
from understudy.checks.facts import ClusterFacts, Partition
from understudy.checks.replica_logs import LogId, LogRecord, ReplicaLog, ReplicaLogs
from understudy.foundation.eventlog.records import (
    Envelope,
    HighWatermarkChanged,
    LeadershipWritten,
    LeaderStarted,
    LogCleaned,
    LoggedBatch,
    LogOpened,
    LogTruncated,
    RecordsAcknowledged,
    RecordsAppended,
    StopReplicaApplied,
)

NO_LEADER = -1
NO_LEADER_EPOCH = -1

_Check = TypeVar("_Check", bound="LogCheck")


class RecordLosses:
    """The elections of a run after which committed records may be missing."""

    def __init__(self, facts: ClusterFacts) -> None:
        self._facts = facts
        self._losing_epochs: dict[Partition, set[int]] = {}
        """The leader epochs whose leader may have lacked committed records when it was elected."""
        self._led: set[tuple[LogId, int, int]] = set()
        self.led_again: set[tuple[LogId, int]] = set()
        """The leader epochs in which a broker led again without records that it had lost. They may have two batches at
        one offset, and a follower that has the first one does not learn of the second."""

    def add_written(self, data: LeadershipWritten) -> None:
        if data.why == "unclean":
            for leadership in data.partitions:
                self._add_losing_epoch((leadership.topic, leadership.partition), leadership.leader_epoch)

    def add_leader(self, log: ReplicaLog, leader_epoch: int) -> None:
        if log.lacks_lost_records:
            self._add_losing_epoch(_partition(log.log_id), leader_epoch)
            if (log.log_id, log.broker, leader_epoch) in self._led:
                self.led_again.add((log.log_id, leader_epoch))
        self._led.add((log.log_id, log.broker, leader_epoch))

    def may_have_lost(self, log_id: LogId, after: int, up_to: int) -> bool:
        """Return whether a leader that lacked records was elected above leader epoch `after` and up to `up_to`.

        A broker that led again without its lost records may also have lost records of that leader epoch itself. Call
        it at the end, when all elections are known.
        """
        if any(again == log_id and after <= epoch <= up_to for again, epoch in self.led_again):
            return True
        partition = _partition(log_id)
        epochs = set(self._losing_epochs.get(partition, ()))
        for write in self._facts.states.get(partition, ()):
            before = write.replaced
            if before is not None and write.leader not in (None, NO_LEADER, before.leader, *before.isr):
                epochs.add(write.leader_epoch)
        return any(after < epoch <= up_to for epoch in epochs)

    def _add_losing_epoch(self, partition: Partition, leader_epoch: int) -> None:
        self._losing_epochs.setdefault(partition, set()).add(leader_epoch)


class Compactions:
    """The parts of logs that compaction has rewritten, on any replica: followers copy the rewritten parts."""

    def __init__(self) -> None:
        self._parts: dict[LogId, set[tuple[int, int]]] = {}

    def add(self, data: LogCleaned) -> None:
        log_id = data.topic, data.topic_id, data.partition
        self._parts.setdefault(log_id, set()).add((data.from_offset, data.to_offset))

    def parts(self, log_id: LogId) -> list[tuple[int, int]]:
        """Return the parts of a log, as (first offset, offset after the last)."""
        return sorted(self._parts.get(log_id, ()))

    def overlap(self, log_id: LogId, start_offset: int, end_offset: int) -> bool:
        """Return whether a record from `start_offset` on and below `end_offset` may have been removed.

        Call it at the end, when all compactions are known.
        """
        return any(begin < end_offset and start_offset < end for begin, end in self._parts.get(log_id, ()))

    def cover(self, log_id: LogId, start_offset: int, end_offset: int) -> bool:
        """Return whether each record from `start_offset` on and below `end_offset` may have been removed so far."""
        covered_up_to = start_offset
        for begin, end in self.parts(log_id):
            if begin <= covered_up_to:
                covered_up_to = max(covered_up_to, end)
        return covered_up_to >= end_offset


class LogCheck(InvariantCheck):
    """Has a method for each kind of record of a log. `LogFollower` calls it in place of `on_record`."""

    reads = (
        LeadershipWritten,
        StopReplicaApplied,
        LogOpened,
        LeaderStarted,
        RecordsAppended,
        HighWatermarkChanged,
        LogTruncated,
        RecordsAcknowledged,
        LogCleaned,
    )

    losses: RecordLosses
    compactions: Compactions
    """Both are set by the `LogFollower`, before the first record."""

    def before_record(self, record: Envelope, log: ReplicaLog, data: LogRecord) -> None:
        """Look at a log before any record about it."""

    def on_deleted(self, record: Envelope, data: StopReplicaApplied) -> None:
        """Look at a StopReplica before the logs that it deletes are removed."""

    def on_opened(self, record: Envelope, log: ReplicaLog, data: LogOpened) -> None:
        """Check a log that was opened; `log` has taken it over."""

    def on_leader(self, record: Envelope, log: ReplicaLog, data: LeaderStarted) -> None:
        """Check the beginning of a leader; `log` has the leader epoch cache from before."""

    def on_append(self, record: Envelope, log: ReplicaLog, data: RecordsAppended, batch: LoggedBatch) -> None:
        """Check a batch, which `log` does not have yet."""

    def on_high_watermark(self, record: Envelope, log: ReplicaLog, data: HighWatermarkChanged) -> None:
        """Check a new high watermark."""

    def on_truncated(self, record: Envelope, log: ReplicaLog, data: LogTruncated, removed: list[LoggedBatch]) -> None:
        """Check a truncation, which `log` has taken over."""

    def on_acknowledged(self, record: Envelope, log: ReplicaLog, data: RecordsAcknowledged) -> None:
        """Check the answer to a producer."""


class LogFollower:
    """Follows all logs of a run, and calls the methods of the checks for each record.

    Args:
        checks: each is called for the kinds of record that it has a method for.
    """

    reads = LogCheck.reads

    def __init__(self, facts: ClusterFacts, checks: Sequence[LogCheck]) -> None:
        self._logs = ReplicaLogs()
        self._losses = RecordLosses(facts)
        self._compactions = Compactions()
        for check in checks:
            check.losses = self._losses
            check.compactions = self._compactions
        self._before = _with_method("before_record", checks)
        self._deleted = _with_method("on_deleted", checks)
        self._opened = _with_method("on_opened", checks)
        self._leader = _with_method("on_leader", checks)
        self._append = _with_method("on_append", checks)
        self._high_watermark = _with_method("on_high_watermark", checks)
        self._truncated = _with_method("on_truncated", checks)
        self._acknowledged = _with_method("on_acknowledged", checks)

    def on_record(self, record: Envelope) -> None:
        """Take the next record of a node, of a type in `reads`."""
        data = record.data
        if isinstance(data, StopReplicaApplied):
            for check in self._deleted:
                check.on_deleted(record, data)
            self._logs.remove_deleted(record, data)
            return
        if isinstance(data, LeadershipWritten):
            self._losses.add_written(data)
            return
        if isinstance(data, LogCleaned):
            self._compactions.add(data)
            return
        assert isinstance(
            data,
            LogOpened | LeaderStarted | RecordsAppended | HighWatermarkChanged | LogTruncated | RecordsAcknowledged,
        )
        log = self._logs.of(record, data)
        for check in self._before:
            check.before_record(record, log, data)
        match data:
            case LogOpened():
                log.open(data)
                for check in self._opened:
                    check.on_opened(record, log, data)
            case LeaderStarted():
                self._losses.add_leader(log, data.leader_epoch)
                for check in self._leader:
                    check.on_leader(record, log, data)
                log.epochs = list(data.epochs)
            case RecordsAppended():
                for batch in data.batches:
                    for check in self._append:
                        check.on_append(record, log, data, batch)
                    log.append(batch)
            case HighWatermarkChanged():
                for check in self._high_watermark:
                    check.on_high_watermark(record, log, data)
                log.set_high_watermark(data.high_watermark, data.leader_epoch)
            case LogTruncated():
                removed = log.truncate(data)
                for check in self._truncated:
                    check.on_truncated(record, log, data, removed)
            case RecordsAcknowledged():
                for check in self._acknowledged:
                    check.on_acknowledged(record, log, data)


class _Contradiction(NamedTuple):
    """A contradiction of an invariant, unless records may have been lost between two leader epochs.

    Attributes:
        compacted: (first offset, offset after the last) of the part whose compaction excuses it; None if none does.
    """

    record: Envelope
    witness: str
    log_id: LogId
    after: int
    up_to: int
    written_in: int
    compacted: tuple[int, int] | None


class LossAwareCheck(LogCheck):
    """A check that waits for the end of the run, when all elections that may have lost records are known."""

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._contradictions: dict[tuple[LogId, int, int, int, tuple[int, int] | None], _Contradiction] = {}
        """The first contradiction of each log between the same epochs and, if compaction may excuse it, offsets."""

    def contradicted(
        self,
        record: Envelope,
        witness: str,
        log: ReplicaLog,
        after: int,
        up_to: int,
        written_in: int = NO_LEADER_EPOCH,
        compacted: tuple[int, int] | None = None,
    ) -> None:
        """Keep a contradiction, a violation unless records were lost above leader epoch `after` and up to `up_to`.

        If both are one leader epoch, only a leader that led again in it excuses the contradiction. A leader that led
        again in `written_in` also excuses it, and so does compaction that may have removed a record between the two
        offsets `compacted`.
        """
        found = _Contradiction(record, f"{log.name}: {witness}", log.log_id, after, up_to, written_in, compacted)
        self._contradictions.setdefault((log.log_id, after, up_to, written_in, compacted), found)

    def may_have_lost(self, log_id: LogId, after: int, up_to: int) -> bool:
        """Return `RecordLosses.may_have_lost`; overridden by checks that other losses excuse."""
        return self.losses.may_have_lost(log_id, after, up_to)

    def at_end(self) -> None:
        for found in self._contradictions.values():
            is_excused = (found.log_id, found.written_in) in self.losses.led_again or (
                found.compacted is not None and self.compactions.overlap(found.log_id, *found.compacted)
            )
            if not is_excused and not self.may_have_lost(found.log_id, found.after, found.up_to):
                self.violated(found.record, found.witness)


def _with_method(name: str, checks: Iterable[_Check]) -> tuple[_Check, ...]:
    """Return the checks that override this method."""
    return tuple(check for check in checks if getattr(type(check), name) is not getattr(LogCheck, name))


def _partition(log_id: LogId) -> Partition:
    return log_id[0], log_id[2]
