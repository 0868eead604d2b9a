"""Invariants of what leaders append, commit and acknowledge for producers (R10 to R12).

See `log_checks` for what they read.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple, TypeAlias

import msgspec

from understudy.checks.check import Incarnation, InvariantCheck, broker_of, incarnation_of
from understudy.checks.facts import ClusterFacts
from understudy.checks.history import ZnodeTransaction
from understudy.checks.log_checks import NO_LEADER_EPOCH, LossAwareCheck
from understudy.checks.missing import RefutedBy
from understudy.checks.replica_logs import LogId, ReplicaLog
from understudy.checks.replication import ALL_IN_SYNC
from understudy.foundation.eventlog.records import (
    Envelope,
    HighWatermarkChanged,
    LoggedBatch,
    LogOpened,
    LogTruncated,
    RecordsAcknowledged,
    RecordsAppended,
)

MAX_SEQUENCE = 2**31 - 1
TOPIC_CONFIGS = "/config/topics/"
BROKER_CONFIGS = "/config/brokers/"


class AcknowledgedByEnoughReplicas(InvariantCheck):
    id = "R10"
    sentence = (
        "a record is acknowledged with acks=all only if the ISR had min.insync.replicas members when it was appended "
        "and when it was acknowledged"
    )
    refuted_by = RefutedBy.NOTHING
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
        "and begin with 0 in the next one, but for batches that compaction has removed"
    )
    refuted_by = RefutedBy.BROKERS

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
                compacted = (before.base_offset + 1, batch.base_offset) if _is_after(batch, before, expected) else None
                self.contradicted(record, what, log, NO_LEADER_EPOCH, data.leader_epoch, compacted=compacted)
        appended.append(_Sequences(batch.base_offset, batch.producer_epoch, batch.last_sequence))

    def may_have_lost(self, log_id: LogId, after: int, up_to: int) -> bool:
        return any(again == log_id and epoch <= up_to for again, epoch in self.losses.led_again)

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


def _is_after(batch: LoggedBatch, before: _Sequences, expected: int) -> bool:
    """Whether a batch may have come after others, which compaction has removed since `before`."""
    if batch.producer_epoch != before.producer_epoch:
        return batch.producer_epoch > before.producer_epoch
    return (batch.base_sequence - expected) & MAX_SEQUENCE <= MAX_SEQUENCE // 2


_Leadership: TypeAlias = tuple[Incarnation, LogId, int]
"""One process that leads a log in one leader epoch, in which the replicas of the partition stay the same."""


class _TopicConfigZNode(msgspec.Struct, frozen=True):
    config: dict[str, str]


class _Raised(NamedTuple):
    """A leader's rise of its high watermark with the fewest replicas."""

    replicas: tuple[int, ...]
    record: Envelope
    times: int
    """Number of times that the leader has raised it."""


class HighWatermarksRiseWithEnoughReplicas(InvariantCheck):
    """Checks the topics whose configuration has `min.insync.replicas` from the beginning, and keeps it (see KIP-966).

    A leader may read a change later. Until it has read the configuration for the first time, it requires every replica:
    its records then give their number as `min.insync.replicas`.
    """

    id = "R12"
    sentence = (
        "a leader raises its high watermark only while it and the replicas that it waits for are at least "
        "min.insync.replicas"
    )
    refuted_by = RefutedBy.ALL_OF_INCARNATION
    reads = (HighWatermarkChanged, RecordsAcknowledged)
    reads_transactions = True

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._raised: dict[_Leadership, _Raised] = {}
        self._min_insync_replicas: dict[_Leadership, int] = {}
        """Number of replicas that leaders have required: the configured one, or all replicas if these are fewer."""
        self._configured: dict[str, int | None] = {}
        """By topic; None if the configuration does not have it, or has changed it."""
        self._has_changed_brokers = False

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        for op in transaction.writes:
            if op.path.startswith(TOPIC_CONFIGS):
                topic, value = op.path.removeprefix(TOPIC_CONFIGS), _min_insync_replicas(op.data)
                if self._configured.setdefault(topic, value) != value:
                    self._configured[topic] = None
            self._has_changed_brokers |= op.path.startswith(BROKER_CONFIGS)

    def on_record(self, record: Envelope) -> None:
        data = record.data
        assert isinstance(data, HighWatermarkChanged | RecordsAcknowledged)
        log_id = data.topic, data.topic_id, data.partition
        if isinstance(data, RecordsAcknowledged):
            epoch = max(data.leader_epoch, data.answered_in_epoch)
            self._min_insync_replicas[incarnation_of(record), log_id, epoch] = data.min_insync_replicas
        elif data.role == "leader":
            replicas = tuple(sorted({broker_of(record), *(broker for broker, _ in data.replica_end_offsets)}))
            key = incarnation_of(record), log_id, data.leader_epoch
            before = self._raised.get(key)
            if before is None:
                self._raised[key] = _Raised(replicas, record, 1)
            elif len(replicas) < len(before.replicas):
                self._raised[key] = _Raised(replicas, record, before.times + 1)
            else:
                self._raised[key] = before._replace(times=before.times + 1)

    def at_end(self) -> None:
        for key, raised in self._raised.items():
            required, (topic, _, partition) = self._min_insync_replicas.get(key), key[1]
            configured = self._configured.get(topic)
            if required is None or configured is None or self._has_changed_brokers:
                continue
            needed = min(required, configured)
            self.times_tested += raised.times
            if len(raised.replicas) < needed:
                what = f"{topic}-{partition}: raised with {list(raised.replicas)}, and min.insync.replicas is {needed}"
                self.violated(raised.record, what)


def _min_insync_replicas(config: bytes | None) -> int | None:
    """Return the `min.insync.replicas` in the configuration of a topic; None if it has none."""
    with contextlib.suppress(msgspec.MsgspecError, KeyError, ValueError):
        return int(msgspec.json.decode(config or b"", type=_TopicConfigZNode).config["min.insync.replicas"])
    return None


CHECKS: tuple[type[InvariantCheck], ...] = (
    AcknowledgedByEnoughReplicas,
    SequencesHaveNoGaps,
    HighWatermarksRiseWithEnoughReplicas,
)
