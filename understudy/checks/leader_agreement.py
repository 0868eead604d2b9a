"""Invariants that compare the log of a follower with its leader's log (R3a, R3b, R9).

Logs are compared by the leader epochs of their offsets. By R1, two batches with the same base offset and leader epoch
are equal, so equal epochs mean equal records. In this example broker 2 leads in leader epoch 3; each number in the
table is the leader epoch of the record at that offset:

    offset           0  1  2  3  4
    2, the leader    1  1  1  3  3    leader epoch cache: epoch 1 from offset 0, epoch 3 from offset 3
    1, a follower    1  1  1  3       agrees: it has not fetched offset 4 yet
    3, a follower    1  1  1  1       differs at offset 3: in the leader's log epoch 1 ends there

Broker 2 raises its high watermark to 4. R3a and R3b demand that each replica in the ISR had offsets 0 to 3 as the
leader has them, at some moment of leader epoch 3: broker 1 passes. R9 demands that broker 3 truncates to offset 3
before it takes over the high watermark 4.

The event logs of different brokers have no common order, so logs are compared at the end of the run, with the leader
epoch cache that the leader wrote when it began to lead. A leader may lose records with its power and lead again in
the same leader epoch. R1 excuses it, and so do these invariants. They also excuse differences that Kafka itself cannot
see in the leader epochs (`hidden_parts`, `LeaderLog.dropped`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from understudy.checks.check import InvariantCheck, broker_of
from understudy.checks.facts import ClusterFacts
from understudy.checks.history import ZnodeTransaction
from understudy.checks.log_checks import NO_LEADER_EPOCH, LogCheck
from understudy.checks.missing import RefutedBy
from understudy.checks.replica_logs import EpochRange, LeaderEpochCache, LogId, LogRecord, ReplicaLog, epoch_at
from understudy.foundation.eventlog.records import (
    Envelope,
    HighWatermarkChanged,
    LeaderStarted,
    LogOpened,
    LogTruncated,
    RecordsAcknowledged,
    StopReplicaApplied,
)

Leadership: TypeAlias = tuple[LogId, int]
"""A partition's log and a leader epoch, in which at most one broker leads the partition."""


class LeaderLog(NamedTuple):
    """A leader's log, with which the logs of followers are compared.

    Attributes:
        cache: the leader epoch cache with which the leader began.
        dropped: the batches in the leader's log whose leader epoch is not in the cache at their offsets. If the leader
            epochs of a log descend (R7), appending the lower epoch removes the higher ones from the cache, and also an
            earlier entry of the lower epoch (`LeaderEpochFileCache.assign`).
        led_again: the leader epochs in which a broker led again after it had lost records of that epoch.
        compacted: the parts that were compacted. A follower gets fewer batches of them, so a leader epoch may begin at
            a later offset in the follower's log and cache, as in Kafka.
    """

    cache: LeaderEpochCache
    dropped: tuple[EpochRange, ...] = ()
    led_again: frozenset[int] = frozenset()
    compacted: tuple[tuple[int, int], ...] = ()

    def first_difference(self, ranges: Sequence[EpochRange], starts: Iterable[tuple[int, int]]) -> int | None:
        """Return the first offset at which a follower's log differs without an excuse; None if there is none.

        Args:
            ranges: a part of the follower's log.
            starts: (leader epoch, its first offset) of its whole log.
        """
        hidden = hidden_parts(starts, self.cache, self.led_again)
        return first_difference(ranges, self.cache, [*hidden, *self._dropped_parts(ranges), *self.compacted])

    def _dropped_parts(self, ranges: Sequence[EpochRange]) -> Iterable[tuple[int, int]]:
        """Yield the excused offsets among the `dropped` batches, as (first offset, offset after the last).

        Kafka compares with the cache, in which these batches are missing. They are excused if the follower has them as
        the leader does, or if a broker led again in their leader epoch.
        """
        for of_leader in self.dropped:
            if of_leader.epoch in self.led_again:
                yield of_leader.start_offset, of_leader.end_offset
            for known in ranges:
                first = max(known.start_offset, of_leader.start_offset)
                end = min(known.end_offset, of_leader.end_offset)
                if known.epoch == of_leader.epoch and first < end:
                    yield first, end


class LeaderComparison(LogCheck):
    """Keeps the leader epochs in the log of every leader, for comparisons at the end of the run."""

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._leaders: dict[Leadership, LeaderLog] = {}

    def on_leader(self, record: Envelope, log: ReplicaLog, data: LeaderStarted) -> None:
        dropped = (known for known in log.epoch_ranges() if epoch_at(data.epochs, known.start_offset) != known.epoch)
        self._leaders.setdefault((log.log_id, data.leader_epoch), LeaderLog(data.epochs, tuple(dropped)))

    def leader_of(self, leadership: Leadership) -> LeaderLog | None:
        """Return the log with which a leader began; it is known only at the end of the run.

        None if the leader's event log does not have it, or if the leader led again after it had lost records.
        """
        log_id, _ = leadership
        leader = self._leaders.get(leadership)
        if leader is None or leadership in self.losses.led_again:
            return None
        led_again = frozenset(epoch for of_log, epoch in self.losses.led_again if of_log == log_id)
        return leader._replace(led_again=led_again, compacted=tuple(self.compactions.parts(log_id)))


def hidden_parts(
    starts: Iterable[tuple[int, int]], cache: LeaderEpochCache, led_again: Collection[int]
) -> list[tuple[int, int]]:
    """Return the parts in which two logs may always differ, as (first offset, offset after the last).

    In this example a broker leads in leader epoch 3 from offset 5 on. It loses records with its power, also those of
    epoch 2, and leads again in epoch 3, now from offset 3 on. A follower still has the records of the first time:

        offset          0  1  2  3  4  5
        the follower    1  1  1  2  2  3
        the leader      1  1  1  3  3  3    offsets 3 and 4 are a hidden part

    Kafka does not find the difference, in later leader epochs either: it compares only the end offset of the last
    leader epoch that both logs have (`AbstractFetcherThread.getOffsetTruncationState`; `Partition.readRecords` for a
    Fetch with that epoch).

    Args:
        starts: (leader epoch, its first offset) of a follower's log.
        cache: the leader's leader epoch cache.
        led_again: the leader epochs in which a broker led again after it had lost records.
    """
    of_leader = dict(cache)
    both = ((start, of_leader[epoch]) for epoch, start in starts if epoch in led_again and epoch in of_leader)
    return [(min(pair), max(pair)) for pair in both if pair[0] != pair[1]]


def first_difference(
    ranges: Iterable[EpochRange], cache: LeaderEpochCache, hidden: Sequence[tuple[int, int]] = ()
) -> int | None:
    """Return the first offset of `ranges` that has another leader epoch in a leader's cache; None if there is none.

    Offsets before the first entry of the cache are not compared, because retention has removed their entries. Offsets
    in a `hidden` part are not compared either. An empty cache belongs to a leader that has not noted its own leader
    epoch yet; nothing is compared with it.
    """
    if not cache:
        return None
    ends = {epoch: end for (epoch, _), (_, end) in zip(cache, (*cache[1:], (0, None)), strict=True)}
    starts = dict(cache)
    for known in _outside(ranges, hidden):
        first = max(known.start_offset, cache[0][1])
        if first >= known.end_offset or known.epoch == NO_LEADER_EPOCH:
            continue
        if known.epoch not in starts or first < starts[known.epoch]:
            return first
        end = ends[known.epoch]
        if end is not None and known.end_offset > end:
            return max(first, end)
    return None


def _outside(ranges: Iterable[EpochRange], hidden: Sequence[tuple[int, int]]) -> Iterable[EpochRange]:
    """Return the pieces of `ranges` that are in none of the `hidden` parts."""
    for first, end in hidden:
        ranges = [
            piece
            for known in ranges
            for piece in (
                known._replace(end_offset=min(known.end_offset, first)),
                known._replace(start_offset=max(known.start_offset, end)),
            )
            if piece.start_offset < piece.end_offset
        ]
    return ranges


class _LogState(NamedTuple):
    """A replica's log at one moment, and the leader epochs in which the replica may have had this log.

    Attributes:
        is_known: whether `end_offset` and `ranges` are known.
        up_to_epoch: the last of these leader epochs; None until a later record shows one.
    """

    is_known: bool
    end_offset: int
    ranges: tuple[EpochRange, ...]
    from_epoch: int
    up_to_epoch: int | None

    def has_records_below(self, offset: int, leader: LeaderLog) -> bool:
        """Whether the log has all of a leader's records below `offset`, as far as leader epochs show it."""
        if not self.is_known:
            return True
        below = [
            known._replace(end_offset=min(known.end_offset, offset))
            for known in self.ranges
            if known.start_offset < offset
        ]
        starts = [(known.epoch, known.start_offset) for known in self.ranges]
        return self.end_offset >= offset and leader.first_difference(below, starts) is None


@dataclass(slots=True)
class _Replica:
    """The history of one replica's log: its states just before it became shorter or entered a new leader epoch.

    The log only grows between two of these states, so every other state is the beginning of a later one.
    """

    log: ReplicaLog
    epoch: int = NO_LEADER_EPOCH
    states: list[_LogState] = field(default_factory=list)

    def keep_state(self) -> None:
        log = self.log
        self.states.append(_LogState(log.is_known, log.end_offset, tuple(log.epoch_ranges()), self.epoch, None))

    def enter_epoch(self, epoch: int) -> None:
        """Note the leader epoch of a record that the replica's broker wrote."""
        if epoch > self.epoch:
            self.keep_state()
            self.epoch = epoch
        if self.states and self.states[-1].up_to_epoch is None:
            self.states = [
                state._replace(up_to_epoch=epoch) if state.up_to_epoch is None else state for state in self.states
            ]

    def had_records_below(self, offset: int, leader_epoch: int, leader: LeaderLog) -> bool:
        """Whether the log had all records of a leader below `offset` at some moment of `leader_epoch`."""
        return any(
            state.has_records_below(offset, leader)
            for state in self.states
            if state.from_epoch <= leader_epoch and (state.up_to_epoch is None or leader_epoch <= state.up_to_epoch)
        )


class _Raised(NamedTuple):
    high_watermark: int
    record: Envelope


class _InSyncReplicasCheck(LeaderComparison):
    """Compares the logs of followers with that of a leader below the highest high watermark of its leader epoch."""

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._replicas: dict[tuple[LogId, int], _Replica] = {}

    def on_deleted(self, record: Envelope, data: StopReplicaApplied) -> None:
        broker = broker_of(record)
        for topic, partition, _, is_deleted in data.partitions:
            for (log_id, of_broker), replica in self._replicas.items():
                if is_deleted and of_broker == broker and (log_id[0], log_id[2]) == (topic, partition):
                    replica.keep_state()

    def before_record(self, record: Envelope, log: ReplicaLog, data: LogRecord) -> None:
        if isinstance(data, RecordsAcknowledged):
            return
        key = log.log_id, log.broker
        replica = self._replicas.get(key)
        if replica is None:
            replica = self._replicas[key] = _Replica(log)
        replica.log = log
        # A log that is opened empty was not there before; one that is not has a past that may be unknown.
        if isinstance(data, LogTruncated) or (isinstance(data, LogOpened) and (log.is_known or data.log_end_offset)):
            replica.keep_state()
        if not isinstance(data, LogOpened):
            replica.enter_epoch(data.leader_epoch)

    def at_end(self) -> None:
        for replica in self._replicas.values():
            replica.keep_state()

    def check_follower(self, leadership: Leadership, broker: int, raised: _Raised, why: str) -> None:
        """Check that a broker had the records below a leader's high watermark, if its log is known."""
        log_id, leader_epoch = leadership
        leader, replica = self.leader_of(leadership), self._replicas.get((log_id, broker))
        if leader is None or replica is None:
            return
        self.times_tested += 1
        if not replica.had_records_below(raised.high_watermark, leader_epoch, leader):
            what = (
                f"{log_id[0]}-{log_id[2]}: broker {broker}, {why} in leader epoch {leader_epoch}, never had all of the "
                f"leader's records below its high watermark {raised.high_watermark}"
            )
            self.violated(raised.record, what)


class AwaitedReplicasAgree(_InSyncReplicasCheck):
    """WeakIsr: compares the replicas in a leader's maximal ISR, its own ISR and the replicas that may join it."""

    id = "R3a"
    sentence = (
        "every replica that a leader waits for, those in its maximal ISR among them, has had the leader's records "
        "below the leader's high watermark in the same leader epoch"
    )
    refuted_by = RefutedBy.BROKERS

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._awaited: dict[tuple[Leadership, int], _Raised] = {}
        """The highest high watermark for which each leader has waited for each broker."""

    def on_high_watermark(self, record: Envelope, log: ReplicaLog, data: HighWatermarkChanged) -> None:
        if data.role != "leader":
            return
        for broker, _ in data.replica_end_offsets:
            key = (log.log_id, data.leader_epoch), broker
            known = self._awaited.get(key)
            if broker != log.broker and (known is None or data.high_watermark > known.high_watermark):
                self._awaited[key] = _Raised(data.high_watermark, record)

    def at_end(self) -> None:
        super().at_end()
        for (leadership, broker), raised in self._awaited.items():
            self.check_follower(leadership, broker, raised, "awaited by the leader")


class InSyncReplicasAgree(_InSyncReplicasCheck):
    """StrongIsr: compares the replicas in ZooKeeper's ISR, from which the next leader is elected.

    Only the last ISR of each leader epoch is compared. The event logs do not show which ISR ZooKeeper held when the
    high watermark rose earlier in the epoch: a record names a zxid that its broker has read, and there may be later
    ones.
    """

    id = "R3b"
    sentence = (
        "every member of the last ISR that ZooKeeper holds of a leader epoch has had all records below the leader's "
        "high watermark in that leader epoch"
    )
    refuted_by = RefutedBy.BROKERS
    reads_transactions = True

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._topic_ids: dict[str, str] = {}
        self._isr: dict[Leadership, tuple[int, ...]] = {}
        self._raised: dict[Leadership, tuple[int, _Raised]] = {}
        """The leader of each leadership, and its highest high watermark."""

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        self._topic_ids.update((topic.name, topic.id_after) for topic in self.facts.topics_written if topic.id_after)
        for write in self.facts.states_written:
            topic, partition = write.partition
            if write.leader is not None and topic in self._topic_ids:
                self._isr[(topic, self._topic_ids[topic], partition), write.leader_epoch] = write.isr

    def on_high_watermark(self, record: Envelope, log: ReplicaLog, data: HighWatermarkChanged) -> None:
        if data.role != "leader":
            return
        leadership = log.log_id, data.leader_epoch
        known = self._raised.get(leadership)
        if known is None or data.high_watermark > known[1].high_watermark:
            self._raised[leadership] = log.broker, _Raised(data.high_watermark, record)

    def at_end(self) -> None:
        super().at_end()
        for leadership, (leader, raised) in self._raised.items():
            for broker in self._isr.get(leadership, ()):
                if broker != leader:
                    self.check_follower(leadership, broker, raised, "in the last ISR in ZooKeeper")


class _CommittedRange(NamedTuple):
    """Records of one leader epoch that a follower has counted as committed."""

    known: EpochRange
    record: Envelope
    """The first record that shows it."""
    starts: LeaderEpochCache
    """The first offset of each leader epoch in the follower's whole log at that record."""


class FollowersTruncateFirst(LeaderComparison):
    id = "R9"
    sentence = (
        "a follower takes over a high watermark of its leader only when its own records below it are those of the "
        "leader: where the logs diverge it truncates first"
    )
    refuted_by = RefutedBy.BROKERS

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._committed: dict[tuple[Leadership, int], list[_CommittedRange]] = {}
        """The committed records of each follower in each leader epoch."""
        self._seen: dict[tuple[LogId, int], tuple[int, int]] = {}
        """(leader epoch, offset) up to which the log of a broker is in `_committed`."""

    def on_high_watermark(self, record: Envelope, log: ReplicaLog, data: HighWatermarkChanged) -> None:
        if data.role != "follower":
            return
        self.times_tested += 1
        replica = log.log_id, log.broker
        epoch, seen = self._seen.get(replica, (NO_LEADER_EPOCH, 0))
        if epoch != data.leader_epoch:
            seen = 0
        ranges = self._committed.setdefault(((log.log_id, data.leader_epoch), log.broker), [])
        new = log.batches_between(seen, data.high_watermark)
        starts = tuple((known.epoch, known.start_offset) for known in log.epoch_ranges()) if new else ()
        for batch in new:
            last = ranges[-1] if ranges else None
            if (
                last
                and (last.known.epoch, last.known.end_offset) == (batch.leader_epoch, batch.base_offset)
                and last.starts == starts
            ):
                known = EpochRange(batch.leader_epoch, last.known.start_offset, batch.next_offset)
                ranges[-1] = _CommittedRange(known, last.record, starts)
            else:
                known = EpochRange(batch.leader_epoch, batch.base_offset, batch.next_offset)
                ranges.append(_CommittedRange(known, record, starts))
        self._seen[replica] = data.leader_epoch, max(seen, data.high_watermark)

    def on_truncated(self, record: Envelope, log: ReplicaLog, data: LogTruncated, removed: object) -> None:
        self._see_again_from(log, data.to_offset)

    def on_opened(self, record: Envelope, log: ReplicaLog, data: LogOpened) -> None:
        self._see_again_from(log, data.log_end_offset)

    def _see_again_from(self, log: ReplicaLog, offset: int) -> None:
        epoch, seen = self._seen.get((log.log_id, log.broker), (NO_LEADER_EPOCH, 0))
        self._seen[log.log_id, log.broker] = epoch, min(seen, offset)

    def at_end(self) -> None:
        for (leadership, broker), ranges in self._committed.items():
            leader = self.leader_of(leadership)
            if leader is None:
                continue
            for committed in ranges:
                offset = leader.first_difference([committed.known], committed.starts)
                if offset is not None:
                    topic, _, partition = leadership[0]
                    what = (
                        f"{topic}-{partition}: broker {broker} took over a high watermark in leader epoch "
                        f"{leadership[1]} with a record of epoch {committed.known.epoch} at {offset}, where the leader "
                        "has another one"
                    )
                    self.violated(committed.record, what)


CHECKS: tuple[type[InvariantCheck], ...] = (AwaitedReplicasAgree, InSyncReplicasAgree, FollowersTruncateFirst)
