"""Invariants of what leaders append and acknowledge for producers (R10, R11). See `replication` for what they read."""

from __future__ import annotations

from typing import NamedTuple

from foundation.eventlog.records import (
    Envelope,
    LoggedBatch,
    LogOpened,
    LogTruncated,
    RecordsAcknowledged,
    RecordsAppended,
)
from understudy.checkers.check import InvariantCheck
from understudy.checkers.facts import ClusterFacts
from understudy.checkers.replica_logs import LogId, ReplicaLog
from understudy.checkers.replication import ALL_IN_SYNC, NO_LEADER_EPOCH, LossAwareCheck

MAX_SEQUENCE = 2**31 - 1


class AcknowledgedByEnoughReplicas(InvariantCheck):
    id = "R10"
    sentence = (
        "a record is acknowledged with acks=all only if the ISR had min.insync.replicas members when it was appended "
        "and when it was acknowledged"
    )
    reads = (RecordsAcknowledged,)

    def on_record(self, record: Envelope) -> None:
        data = record.data
        assert isinstance(data, RecordsAcknowledged)
        if data.acks != ALL_IN_SYNC:
            return
        self.times_tested += 1
        for when, isr in (("appended", data.isr_at_append), ("acknowledged", data.isr)):
            if len(isr) < data.min_insync_replicas:
                what = (
                    f"{data.topic}-{data.partition}: {data.last_offset} was {when} with ISR {list(isr)}, and "
                    f"min.insync.replicas is {data.min_insync_replicas}"
                )
                self.violated(record, what)


class _Sequences(NamedTuple):
    base_offset: int
    producer_epoch: int
    last_sequence: int


class SequencesHaveNoGaps(LossAwareCheck):
    id = "R11"
    sentence = (
        "the sequence numbers of an idempotent producer in a log have neither gaps nor repeats in one producer epoch, "
        "and begin with 0 in the next one"
    )

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._sequences: dict[tuple[LogId, int], dict[int, list[_Sequences]]] = {}
        """By log and broker the batches of each producer id."""

    def on_append(self, record: Envelope, log: ReplicaLog, data: RecordsAppended, batch: LoggedBatch) -> None:
        if batch.producer_id < 0 or batch.base_sequence < 0:
            return
        producers = self._sequences.setdefault((log.log_id, log.broker), {})
        appended = producers.setdefault(batch.producer_id, [])
        if appended:
            self.times_tested += 1
            before = appended[-1]
            is_same_epoch = batch.producer_epoch == before.producer_epoch
            expected = (before.last_sequence + 1) & MAX_SEQUENCE if is_same_epoch else 0
            if batch.producer_epoch < before.producer_epoch or batch.base_sequence != expected:
                what = (
                    f"producer {batch.producer_id} at epoch {batch.producer_epoch} appended sequence "
                    f"{batch.base_sequence} at offset {batch.base_offset}, after sequence {before.last_sequence} at "
                    f"epoch {before.producer_epoch}"
                )
                self.contradicted(record, what, log, NO_LEADER_EPOCH, data.leader_epoch)
        appended.append(_Sequences(batch.base_offset, batch.producer_epoch, batch.last_sequence))

    def may_have_lost(self, log_id: LogId, after: int, up_to: int) -> bool:
        return any(again == log_id and epoch <= up_to for again, epoch in self.led_again)

    def on_truncated(self, record: Envelope, log: ReplicaLog, data: LogTruncated, removed: list[LoggedBatch]) -> None:
        self._cut(log)

    def on_opened(self, record: Envelope, log: ReplicaLog, data: LogOpened) -> None:
        self._cut(log)

    def _cut(self, log: ReplicaLog) -> None:
        """Forget the batches that the log does not have any more."""
        first = log.batches[0].base_offset if log.batches else log.end_offset
        producers = self._sequences.get((log.log_id, log.broker), {})
        for producer_id, appended in producers.items():
            producers[producer_id] = [batch for batch in appended if first <= batch.base_offset < log.end_offset]


CHECKS: tuple[type[InvariantCheck], ...] = (AcknowledgedByEnoughReplicas, SequencesHaveNoGaps)
