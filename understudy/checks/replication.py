"""Invariants of the records in the logs of replicas (R1, R2, R4 to R7).

Committed records may be lost by an unclean election, and by the election of a replica whose log is shorter after a loss
of power. What follows from such a loss is no violation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from understudy.checks.check import Incarnation, InvariantCheck, incarnation_of
from understudy.checks.facts import ClusterFacts
from understudy.checks.log_checks import NO_LEADER_EPOCH, LogCheck, LossAwareCheck
from understudy.checks.missing import RefutedBy
from understudy.checks.replica_logs import LeaderEpochCache, LogId, ReplicaLog, epoch_at
from understudy.foundation.eventlog.records import (
    Envelope,
    HighWatermarkChanged,
    LeaderStarted,
    LoggedBatch,
    LogOpened,
    LogTruncated,
    RecordsAcknowledged,
    RecordsAppended,
)

ALL_IN_SYNC = -1
"""`acks=all` of a producer."""


class _KnownBatch(NamedTuple):
    batch: LoggedBatch
    previous: tuple[int, int] | None
    """(leader epoch, base offset) of the batch before; None if that is unknown."""
    broker: int


class LogsMatch(LossAwareCheck):
    id = "R1"
    sentence = (
        "two batches of a partition with the same base offset and leader epoch are equal and follow equal batches, but "
        "for records that compaction has removed, and a batch is appended at the end of its log"
    )
    refuted_by = RefutedBy.BROKERS

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._known: dict[LogId, dict[tuple[int, int], _KnownBatch]] = {}

    def on_append(self, record: Envelope, log: ReplicaLog, data: RecordsAppended, batch: LoggedBatch) -> None:
        if log.is_known and batch.base_offset < log.end_offset:
            what = f"{log.name}: a batch at {batch.base_offset}, though the log ends at {log.end_offset}"
            self.violated(record, what, refuted_by=RefutedBy.EARLIER_OF_NODE)
        last = log.batches[-1] if log.batches else None
        previous = (last.leader_epoch, last.base_offset) if last and last.next_offset == batch.base_offset else None
        batches = self._known.setdefault(log.log_id, {})
        key = batch.leader_epoch, batch.base_offset
        known = batches.get(key)
        if known is None:
            batches[key] = _KnownBatch(batch, previous, log.broker)
            return
        self.times_tested += known.broker != log.broker
        at, epoch = f"at offset {batch.base_offset} and leader epoch {batch.leader_epoch}", batch.leader_epoch
        if not _is_equal(known.batch, batch):
            what = f"{_brokers(known, log)} had different batches {at}"
            self.contradicted(record, what, log, epoch, epoch, compacted=_compacted(known.batch, batch))
        elif previous is not None and known.previous is not None and previous != known.previous:
            what = f"{_brokers(known, log)} had batches {at} that follow different ones"
            # Only a leader that led again in the epoch of the followed batches can have written both.
            follows = max(previous, known.previous)[0]
            self.contradicted(record, what, log, follows, follows)


class _Committed(NamedTuple):
    batch: LoggedBatch
    leader_epoch: int
    """The leader epoch in which its replica learned that it was committed."""
    broker: int


class CommittedRecordsAgree(LossAwareCheck):
    id = "R2"
    sentence = (
        "replicas have equal batches at every offset that is below the high watermark of both, but for records that "
        "compaction has removed"
    )
    refuted_by = RefutedBy.BROKERS | RefutedBy.ZNODES

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._committed: dict[LogId, dict[int, _Committed]] = {}
        self._seen_up_to: dict[tuple[LogId, int], int] = {}

    def on_high_watermark(self, record: Envelope, log: ReplicaLog, data: HighWatermarkChanged) -> None:
        committed = self._committed.setdefault(log.log_id, {})
        seen = self._seen_up_to.get((log.log_id, log.broker), 0)
        for batch in log.batches_between(seen, data.high_watermark):
            new = _Committed(batch, data.leader_epoch, log.broker)
            known = committed.setdefault(batch.base_offset, new)
            if known is new:
                continue
            self.times_tested += known.broker != log.broker
            if known.batch.leader_epoch != batch.leader_epoch or not _is_equal(known.batch, batch):
                what = f"{_brokers(known, log)} committed different batches at {batch.base_offset}"
                if known.batch.leader_epoch == batch.leader_epoch:
                    # Only a leader that led again can have written both, whichever epochs they were committed in.
                    epoch, compacted = batch.leader_epoch, _compacted(known.batch, batch)
                    self.contradicted(record, what, log, epoch, epoch, compacted=compacted)
                else:
                    epochs = sorted((known.leader_epoch, data.leader_epoch))
                    # A leader that led again may have written the newer one, while another log keeps the older one.
                    newer = max(known.batch.leader_epoch, batch.leader_epoch)
                    self.contradicted(record, what, log, epochs[0], epochs[1], written_in=newer)
            if data.leader_epoch > known.leader_epoch:
                committed[batch.base_offset] = new
        self._seen_up_to[log.log_id, log.broker] = data.high_watermark

    def on_truncated(self, record: Envelope, log: ReplicaLog, data: LogTruncated, removed: list[LoggedBatch]) -> None:
        self._see_again_from(log, data.to_offset)

    def on_opened(self, record: Envelope, log: ReplicaLog, data: LogOpened) -> None:
        self._see_again_from(log, data.log_end_offset)

    def _see_again_from(self, log: ReplicaLog, offset: int) -> None:
        key = log.log_id, log.broker
        self._seen_up_to[key] = min(self._seen_up_to.get(key, 0), offset)


class _AcknowledgedEpoch(NamedTuple):
    """The records of one leader epoch that were acknowledged in one leader epoch."""

    answered_in: int
    epoch: int
    end_offset: int
    """The offset after the last acknowledged record."""


class _Acknowledged:
    """The offsets up to which each leader epoch's records were acknowledged with acks=all, by partition."""

    def __init__(self) -> None:
        self._up_to: dict[LogId, dict[tuple[int, int], int]] = {}
        """By (leader epoch of the answer, leader epoch of the records)."""

    def add(self, log_id: LogId, data: RecordsAcknowledged) -> None:
        if data.acks == ALL_IN_SYNC:
            offsets = self._up_to.setdefault(log_id, {})
            key = max(data.answered_in_epoch, data.leader_epoch), data.leader_epoch
            offsets[key] = max(offsets.get(key, 0), data.last_offset + 1)

    def before(self, log_id: LogId, leader_epoch: int) -> list[_AcknowledgedEpoch]:
        """Return what was acknowledged in the leader epochs below `leader_epoch`."""
        return [
            _AcknowledgedEpoch(answered_in, epoch, end)
            for (answered_in, epoch), end in self._up_to.get(log_id, {}).items()
            if answered_in < leader_epoch
        ]


class _StartedLeader(NamedTuple):
    record: Envelope
    log: ReplicaLog
    leader_epoch: int
    known_from: int
    end_offset: int
    ends: dict[int, int]
    """The end offset of each leader epoch's batches in the leader's log."""


class LeadersAreComplete(LossAwareCheck):
    id = "R4"
    sentence = (
        "a leader begins with every record that was acknowledged with acks=all in an earlier leader epoch, at its "
        "offset, or with a longer log where compaction may have removed it"
    )
    refuted_by = RefutedBy.BROKERS | RefutedBy.ZNODES

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._acknowledged = _Acknowledged()
        self._leaders: list[_StartedLeader] = []

    def on_acknowledged(self, record: Envelope, log: ReplicaLog, data: RecordsAcknowledged) -> None:
        self._acknowledged.add(log.log_id, data)

    def on_leader(self, record: Envelope, log: ReplicaLog, data: LeaderStarted) -> None:
        ends = {epochs.epoch: epochs.end_offset for epochs in log.epoch_ranges()}
        # Of a log of which no record was read before, everything up to its end is unknown.
        known_from = log.known_from if log.is_known else data.log_end_offset
        self._leaders.append(_StartedLeader(record, log, data.leader_epoch, known_from, data.log_end_offset, ends))

    def at_end(self) -> None:
        for leader in self._leaders:
            for known in self._acknowledged.before(leader.log.log_id, leader.leader_epoch):
                if known.end_offset <= leader.known_from:
                    continue
                self.times_tested += 1
                last = known.end_offset - 1, known.end_offset
                is_compacted = self.compactions.overlap(leader.log.log_id, *last) and last[1] <= leader.end_offset
                if leader.ends.get(known.epoch, 0) < known.end_offset and not is_compacted:
                    what = (
                        f"broker {leader.log.broker} leads at leader epoch {leader.leader_epoch} without the record at "
                        f"{known.end_offset - 1} of epoch {known.epoch}, which was acknowledged in epoch "
                        f"{known.answered_in}"
                    )
                    self.contradicted(leader.record, what, leader.log, known.answered_in, leader.leader_epoch)
        super().at_end()


class HighWatermarksAreReplicated(LogCheck):
    id = "R5"
    sentence = (
        "a leader's high watermark never decreases in a leader epoch and is not above the log end offset of any "
        "replica it waits for, and no high watermark is above the replica's own log end offset"
    )
    refuted_by = RefutedBy.EARLIER_OF_NODE

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._last: dict[tuple[Incarnation, LogId, int], int] = {}

    def on_leader(self, record: Envelope, log: ReplicaLog, data: LeaderStarted) -> None:
        self._last.setdefault((incarnation_of(record), log.log_id, data.leader_epoch), data.high_watermark)

    def on_high_watermark(self, record: Envelope, log: ReplicaLog, data: HighWatermarkChanged) -> None:
        self.times_tested += 1
        ends = [("its own", data.log_end_offset)]
        ends += [(f"broker {broker}'s", end) for broker, end in data.replica_end_offsets]
        whose, end = min(ends, key=lambda item: item[1])
        is_recorded = data.high_watermark > end
        if log.is_known and log.end_offset < end:
            whose, end = "its own", log.end_offset
        if data.high_watermark > end:
            what = f"{log.name}: high watermark {data.high_watermark} above {whose} log end offset {end}"
            self.violated(record, what, refuted_by=RefutedBy.NOTHING if is_recorded else self.refuted_by)
        if data.role != "leader":
            return
        key = incarnation_of(record), log.log_id, data.leader_epoch
        last = self._last.get(key, 0)
        if data.high_watermark < last:
            self.violated(record, f"{log.name}: high watermark {data.high_watermark} after {last} in one leader epoch")
        self._last[key] = data.high_watermark


class _Truncation(NamedTuple):
    """What a follower has removed from its log.

    Attributes:
        removed: the first removed batch of each leader epoch, as far as batches are known.
    """

    record: Envelope
    log: ReplicaLog
    data: LogTruncated
    high_watermark_epoch: int
    removed: dict[int, LoggedBatch]


class TruncationsKeepCommittedRecords(LossAwareCheck):
    """Compares each truncation with the high watermark and with what was acknowledged.

    A replica that has copied a compacted log may have no record of a leader epoch, and so its leader epoch cache lacks
    that epoch. A follower of it that has records of that epoch removes them; what compaction has left of them is in the
    epochs that the leader does have (`LeaderEpochFileCache.endOffsetFor`).
    """

    id = "R6"
    sentence = (
        "a follower truncates its log to no offset below its high watermark, and removes no record that was "
        "acknowledged with acks=all in an earlier leader epoch, unless compaction has left its leader without that "
        "epoch"
    )
    refuted_by = RefutedBy.BROKERS | RefutedBy.ZNODES

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._acknowledged = _Acknowledged()
        self._truncations: list[_Truncation] = []
        self._leaders: dict[tuple[LogId, int], list[LeaderEpochCache]] = {}
        """The caches with which a broker began to lead, by leader epoch."""

    def on_leader(self, record: Envelope, log: ReplicaLog, data: LeaderStarted) -> None:
        self._leaders.setdefault((log.log_id, data.leader_epoch), []).append(data.epochs)

    def on_acknowledged(self, record: Envelope, log: ReplicaLog, data: RecordsAcknowledged) -> None:
        self._acknowledged.add(log.log_id, data)

    def on_truncated(self, record: Envelope, log: ReplicaLog, data: LogTruncated, removed: list[LoggedBatch]) -> None:
        self.times_tested += 1
        firsts: dict[int, LoggedBatch] = {}
        for batch in removed:
            firsts.setdefault(batch.leader_epoch, batch)
        self._truncations.append(_Truncation(record, log, data, log.high_watermark_epoch, firsts))

    def at_end(self) -> None:
        for truncation in self._truncations:
            if not self._is_of_compacted_epochs(truncation):
                self._check(truncation)
        super().at_end()

    def _check(self, truncation: _Truncation) -> None:
        record, log, data, high_watermark_epoch, removed = truncation
        if data.to_offset < data.high_watermark:
            what = f"broker {log.broker} truncated to {data.to_offset} below its high watermark {data.high_watermark}"
            first_epoch = next(iter(removed), NO_LEADER_EPOCH)
            self.contradicted(record, what, log, high_watermark_epoch, data.leader_epoch, written_in=first_epoch)
        for known in self._acknowledged.before(log.log_id, data.leader_epoch) if removed else ():
            first = removed.get(known.epoch)
            if first is not None and first.next_offset <= known.end_offset:
                what = (
                    f"broker {log.broker} removed the record at {first.next_offset - 1} of leader epoch {known.epoch}, "
                    f"which was acknowledged in epoch {known.answered_in}"
                )
                self.contradicted(record, what, log, known.answered_in, data.leader_epoch)

    def _is_of_compacted_epochs(self, truncation: _Truncation) -> bool:
        """Return whether compaction may have removed all the records, and the leader had none of their epochs."""
        log_id, data = truncation.log.log_id, truncation.data
        if not self.compactions.cover(log_id, data.to_offset, data.log_end_offset):
            return False
        caches = self._leaders.get((log_id, data.leader_epoch), [])
        return any(truncation.removed.keys().isdisjoint(dict(cache)) for cache in caches)


class Descent(NamedTuple):
    """A batch that a follower has appended after one of a higher leader epoch."""

    record: Envelope
    witness: str
    log_id: LogId
    leader_epoch: int
    """The leader epoch in which the follower got the batch from its leader."""
    previous: LoggedBatch
    batch: LoggedBatch


class LeaderEpochCachesMatchLogs(LogCheck):
    """Compares each log with its leader epoch cache.

    After a loss of power a leader may lead again in its leader epoch, which then has two beginnings. If a follower has
    the epoch from the lower one and its leader from the higher one, the follower appends the leader's batches before
    that: Kafka compares only the end of the last epoch that both have (`Partition.readRecords`). The epochs of the
    follower's log descend there, and appending the batch removes the higher ones from its cache
    (`LeaderEpochFileCache.assign`). Both are accepted as far as the caches of the leaders show this.

    A cache that is made again from a compacted log has each epoch begin at the first batch that is left of it.
    """

    id = "R7"
    sentence = (
        "the epochs of a leader epoch cache increase, and each batch has the epoch that the cache has for its offset, "
        "unless compaction may have removed it; a leader adds its epoch at its log end offset and never moves it; and "
        "a truncation leaves no epoch that begins at the new end or after it"
    )
    refuted_by = RefutedBy.BROKERS

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._expected: dict[tuple[LogId, int], list[tuple[int, int]]] = {}
        """The cache that each broker has of a log after the records read so far."""
        self._leaders: dict[tuple[LogId, int], list[LeaderEpochCache]] = {}
        """The caches with which a broker began to lead, by leader epoch."""
        self._descents: list[Descent] = []

    def on_opened(self, record: Envelope, log: ReplicaLog, data: LogOpened) -> None:
        expected = [entry for entry in self._expected_of(log) if entry[1] < data.log_end_offset]
        noted: list[tuple[int, int]] = []
        for known in log.epoch_ranges():
            if known.epoch != NO_LEADER_EPOCH:
                _assign(noted, known.epoch, known.start_offset)
        self._check_cache(record, log, data.epochs, expected, noted)

    def on_leader(self, record: Envelope, log: ReplicaLog, data: LeaderStarted) -> None:
        self._leaders.setdefault((log.log_id, data.leader_epoch), []).append(data.epochs)
        self._check_cache(record, log, data.epochs, self._expected_of(log))
        if not data.epochs or data.epochs[-1][0] != data.leader_epoch:
            what = f"{log.name}: led at leader epoch {data.leader_epoch} with epochs {data.epochs}"
            self.violated(record, what, refuted_by=RefutedBy.NOTHING)
            return
        if log.epochs is None:
            return
        expected = dict(log.epochs).get(data.leader_epoch, data.log_end_offset)
        if data.epochs[-1][1] != expected:
            what = f"{log.name}: leader epoch {data.leader_epoch} begins at {data.epochs[-1][1]} instead of {expected}"
            self.violated(record, what, refuted_by=RefutedBy.EARLIER_OF_NODE)

    def on_append(self, record: Envelope, log: ReplicaLog, data: RecordsAppended, batch: LoggedBatch) -> None:
        if batch.leader_epoch == NO_LEADER_EPOCH:
            return
        self.times_tested += 1
        last = log.batches[-1].leader_epoch if log.batches else NO_LEADER_EPOCH
        is_own = batch.leader_epoch == data.leader_epoch
        if (data.role == "leader" and not is_own) or not last <= batch.leader_epoch <= data.leader_epoch:
            what = (
                f"{log.name}: a {data.role} at leader epoch {data.leader_epoch} appended a batch of epoch "
                f"{batch.leader_epoch} after one of epoch {last}"
            )
            if data.role == "follower" and batch.leader_epoch < last < data.leader_epoch:
                descent = Descent(record, what, log.log_id, data.leader_epoch, log.batches[-1], batch)
                self._descents.append(descent)
            else:
                is_of_batch = batch.leader_epoch > data.leader_epoch or (data.role == "leader" and not is_own)
                of_log = RefutedBy.EARLIER_OF_NODE
                self.violated(record, what, refuted_by=RefutedBy.NOTHING if is_of_batch else of_log)
        _assign(self._expected_of(log), batch.leader_epoch, batch.base_offset)

    def on_truncated(self, record: Envelope, log: ReplicaLog, data: LogTruncated, removed: list[LoggedBatch]) -> None:
        expected = [entry for entry in self._expected_of(log) if entry[1] < data.to_offset]
        self._check_cache(record, log, data.epochs, expected)
        if data.epochs and data.epochs[-1][1] >= data.to_offset:
            what = f"{log.name}: truncated to {data.to_offset} with leader epoch {data.epochs[-1]} left in the cache"
            self.violated(record, what, refuted_by=RefutedBy.NOTHING)

    def at_end(self) -> None:
        proven = {_neighbours(descent) for descent in self._descents if self.is_kept_by_loss(descent)}
        for descent in self._descents:
            # Others may have copied both batches.
            if _neighbours(descent) not in proven:
                self.violated(descent.record, descent.witness)

    def is_kept_by_loss(self, descent: Descent) -> bool:
        """Return whether the higher epoch was led again, and began in the leader only after the follower's batches."""
        higher, offset = descent.previous.leader_epoch, descent.batch.base_offset
        return (descent.log_id, higher) in self.losses.led_again and any(
            dict(cache).get(higher, offset) > offset and epoch_at(cache, offset) == descent.batch.leader_epoch
            for cache in self._leaders.get((descent.log_id, descent.leader_epoch), ())
        )

    def _expected_of(self, log: ReplicaLog) -> list[tuple[int, int]]:
        return self._expected.setdefault((log.log_id, log.broker), [])

    def _check_cache(
        self,
        record: Envelope,
        log: ReplicaLog,
        cache: LeaderEpochCache,
        *expected: Sequence[tuple[int, int]],
    ) -> None:
        """Compare a cache with the log.

        Args:
            expected: the cache after the records before, and one that is made again from the batches. They differ from
                the log only if its epochs descend, and from each other only if such batches were truncated.
        """
        self.times_tested += 1
        for before, after in pairwise(cache):
            if before[0] >= after[0] or before[1] > after[1]:
                self.violated(
                    record, f"{log.name}: leader epoch {after} follows {before}", refuted_by=RefutedBy.NOTHING
                )
        for known in log.epoch_ranges():
            for offset in (known.start_offset, known.end_offset - 1):
                epoch = epoch_at(cache, offset)
                # Entries before the beginning of the log are gone, and message format 2 has an epoch in every batch.
                if epoch is None or known.epoch in (epoch, NO_LEADER_EPOCH):
                    continue
                begins = next((entry[1] for entry in cache if entry[1] > offset), log.end_offset)
                if epoch < known.epoch and self.compactions.cover(log.log_id, offset, begins):
                    continue
                if epoch not in (epoch_at(each, offset) for each in expected):
                    what = (
                        f"{log.name}: the batch at {offset} is of leader epoch {known.epoch}, in the cache of {epoch}"
                    )
                    self.violated(record, what)
        self._expected[log.log_id, log.broker] = list(cache)


def _assign(cache: list[tuple[int, int]], epoch: int, start_offset: int) -> None:
    """Add an epoch to a cache when a batch is appended, as `LeaderEpochFileCache.assign` does."""
    if not cache or cache[-1][0] != epoch:
        while cache and (cache[-1][0] >= epoch or cache[-1][1] >= start_offset):
            del cache[-1]
        cache.append((epoch, start_offset))


def _neighbours(descent: Descent) -> tuple[LogId, LoggedBatch, LoggedBatch]:
    return descent.log_id, descent.previous, descent.batch


def _is_equal(one: LoggedBatch, other: LoggedBatch) -> bool:
    return one.crc == other.crc and one.next_offset == other.next_offset


def _compacted(one: LoggedBatch, other: LoggedBatch) -> tuple[int, int] | None:
    """Return the offsets of two batches that compaction may have made different; None if it cannot.

    It keeps the offsets of a batch, and the numbers of its producer.
    """
    are_alike = msgspec.structs.replace(one, crc=other.crc) == other
    return (one.base_offset, one.next_offset) if are_alike else None


def _brokers(known: _KnownBatch | _Committed, log: ReplicaLog) -> str:
    return f"broker {log.broker}" if known.broker == log.broker else f"brokers {known.broker} and {log.broker}"


CHECKS: tuple[type[InvariantCheck], ...] = (
    LogsMatch,
    CommittedRecordsAgree,
    LeadersAreComplete,
    HighWatermarksAreReplicated,
    TruncationsKeepCommittedRecords,
    LeaderEpochCachesMatchLogs,
)
