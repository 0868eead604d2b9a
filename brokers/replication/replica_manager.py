"""The partitions this broker hosts, and how control requests change them. Mirrors `kafka.server.ReplicaManager`.

`leader_and_isr_step` and `stop_replica_step` decide: hosted partitions and a request go in, and the changes and the
answers come out; they change nothing. `ReplicaManager` owns the partitions and applies a step as a whole, without
waiting, so that two control requests never interleave. Produce and the group coordinator append by `append_as_leader`
and wait in `wait_until_replicated`, Kafka's `appendRecords` and `DelayedProduce`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from understudy.brokers.log.append_info import LogAppendInfo
from understudy.brokers.log.log_validator import CheckedBatches
from understudy.brokers.log.partition_log import PartitionLog
from understudy.brokers.replication import isr
from understudy.brokers.replication.delayed_operations import DelayedOperationPurgatory
from understudy.brokers.replication.follower_append import append_to_follower
from understudy.brokers.replication.leader_and_isr_step import (
    LeaderAndIsrStep,
    RequestedState,
    leader_and_isr_step,
)
from understudy.brokers.replication.log_events import LogEvents
from understudy.brokers.replication.partition import (
    UNKNOWN_OFFSET,
    LocalPartitionState,
    Partition,
    Role,
    StaleLeaderEpoch,
)
from understudy.brokers.replication.stop_replica_step import StopReplicaStep, stop_replica_step
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from understudy.foundation.cluster.leadership import NO_LEADER_EPOCH
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.fences import Fence, Fences
from understudy.foundation.records.varint import Buffer
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest

ALL_ACKS: Final = -1
"""Number of acknowledgements in Produce that stands for the whole ISR."""

LOGS_CREATED_AT_ONCE: Final = 50


class Appended(NamedTuple):
    """The batches appended to one partition, or the earlier append of a batch that is sent again."""

    partition: Partition
    info: LogAppendInfo
    isr: tuple[int, ...]
    """The committed ISR at that time."""

    @property
    def end_offset(self) -> int:
        return self.info.last_offset + 1


class FetcherManager(Protocol):
    """What the replica manager needs of `ReplicaFetcherManager`."""

    def follow(self, partitions: Iterable[Partition]) -> None:
        """Fetch `partitions` from their leaders."""

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch `partitions` no more."""

    def note_change(self, topic_partition: TopicPartition) -> None:
        """Name a partition in the next Fetch, if it is followed: its log has changed otherwise than by a Fetch."""


class Logs(Protocol):
    """What the replica manager needs of `LogManager`."""

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """The logs in this broker's directory, of hosted partitions and others."""

    def get_or_create(self, topic_partition: TopicPartition) -> PartitionLog:
        """Return the log of a partition; create it if there is none."""

    def delete(self, topic_partition: TopicPartition) -> None:
        """Remove the log of a partition; harmless if there is none."""


class ReplicaManager:
    """Owns the partitions this broker hosts. They change only within a call of a method, never across a wait.

    Args:
        is_alive: whether a broker is in the metadata cache.
        max_lag_ms: `replica.lag.time.max.ms`.
        on_disk_failure: called with the failure of the disk under a request; the broker has to stop.
        log_events: writes what happens to the logs; by default nothing.

    Attributes:
        controller_epoch: the highest epoch of a controller that this broker has accepted a request from.
        delayed_fetches: the Fetch requests that wait for their partitions.
        delayed_produces: the Produce requests that wait until their records are replicated.
        delayed_deletes: the DeleteRecords requests that wait until all replicas have deleted the records.
        state_change_lock: held by a control request from its first effect to its last (`replicaStateChangeLock`).
    """

    def __init__(
        self,
        broker_id: int,
        *,
        fences: Fences,
        fetchers: FetcherManager,
        logs: Logs,
        clock: Clock,
        is_alive: Callable[[int], bool],
        max_lag_ms: float,
        on_disk_failure: Callable[[OSError], None],
        log_events: LogEvents | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.controller_epoch = 0
        self.delayed_fetches = DelayedOperationPurgatory()
        self.delayed_produces = DelayedOperationPurgatory()
        self.delayed_deletes = DelayedOperationPurgatory()
        self.state_change_lock = asyncio.Lock()
        self.log_events = log_events or LogEvents()
        self._partitions: dict[TopicPartition, Partition] = {}
        self._fences = fences
        self._rules = fences.rules
        self._fetchers = fetchers
        self._logs = logs
        self._clock = clock
        self._is_alive = is_alive
        self._max_lag_ms = max_lag_ms
        self._on_disk_failure = on_disk_failure

    @property
    def partitions(self) -> Mapping[TopicPartition, Partition]:
        return self._partitions

    # ------------------------------------------------------------------ control requests

    def partitions_without_log(self, requested: Iterable[RequestedState]) -> list[TopicPartition]:
        """Return the partitions that a LeaderAndIsr request assigns to this broker and that have no log yet."""
        return [
            topic_partition
            for topic_partition, _, state in requested
            if self.broker_id in state.replicas
            and topic_partition not in self._logs.logs
            and topic_partition not in self._partitions
        ]

    async def create_logs(self, partitions: Iterable[TopicPartition]) -> None:
        """Create logs; other tasks run in between, because each takes files to be created.

        Raises:
            OSError: the disk fails or is full; the broker has to stop.
        """
        for number, topic_partition in enumerate(partitions, 1):
            self._logs.get_or_create(topic_partition)
            if number % LOGS_CREATED_AT_ONCE == 0:
                await asyncio.sleep(0)

    def become_leader_or_follower(
        self, requested: Sequence[RequestedState], *, is_alive: Callable[[int], bool], now_ms: float
    ) -> LeaderAndIsrStep:
        """Apply a LeaderAndIsr request: its states, then fetching, then the requests that wait for its partitions.

        Raises:
            OSError: the disk fails or is full; the broker has to stop.
        """
        step = leader_and_isr_step(
            self._partitions,
            requested,
            broker_id=self.broker_id,
            is_alive=is_alive,
            now_ms=now_ms,
            stored_topic_id=self._stored_topic_id,
            refuses_older_epochs=self._fences.is_on(Fence.BROKER_LEADER_EPOCH),
            leaderless_keep_epoch=self._rules.follower_that_cannot_fetch_keeps_old_epoch.holds,
        )
        self._record_stale("LeaderAndIsr", step.stale)
        for topic_partition in step.leaderless:
            self._rules.follower_that_cannot_fetch_keeps_old_epoch.holds_for(topic_partition)
        self._fetchers.stop(step.changed)
        with_log = {*step.follow, *step.leaderless}
        for topic_partition, state in step.changed.items():
            partition = self._partitions.get(topic_partition)
            if partition is None:
                partition = self._partitions[topic_partition] = Partition(
                    LocalPartitionState(topic_partition=topic_partition)
                )
            if partition.local_log is None and (state.role is not Role.NONE or topic_partition in with_log):
                partition.local_log = self._logs.get_or_create(topic_partition)
            leader_epoch = partition.leader_epoch
            if leader_epoch == NO_LEADER_EPOCH != state.leader_epoch:
                self.log_events.opened(partition, state.topic_id)
            starts_epoch = state.is_leader and state.leader_epoch != leader_epoch
            notes_start = not starts_epoch or self._rules.new_leader_notes_epoch_start.holds_for(topic_partition)
            partition.apply(state, now_ms, notes_epoch_start=notes_start)
            if partition.is_leader:
                if partition.leader_epoch != leader_epoch:
                    self.log_events.leader_started(partition)
                self.maybe_increment_high_watermark(partition)
        self._fetchers.follow(self._partitions[topic_partition] for topic_partition in step.follow)
        self._complete_delayed(step.changed)
        return step

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaStep:
        """Apply a StopReplica request: fetching ends, and with `delete` the partition is hosted no more (BK-15).

        The log of a deleted partition is deleted as well, even if only its folder was left.

        Raises:
            OSError: the disk fails; the broker has to stop.
        """
        is_fenced = self._fences.is_on(Fence.BROKER_LEADER_EPOCH)
        rule = self._rules.stop_replica_of_old_epoch_is_refused
        step = stop_replica_step(self._partitions, request, refuses_older_epochs=is_fenced and rule.holds)
        self._record_stale("StopReplica", step.stale)
        if is_fenced:
            for stale in step.stale:
                rule.holds_for(stale.topic_partition)
        self._fetchers.stop(stopped.topic_partition for stopped in step.accepted)
        for stopped in step.accepted:
            if stopped.delete:
                self._partitions.pop(stopped.topic_partition, None)
                self._logs.delete(stopped.topic_partition)
        self._complete_delayed(stopped.topic_partition for stopped in step.accepted)
        return step

    def _stored_topic_id(self, topic_partition: TopicPartition) -> TopicId:
        found = self._logs.logs.get(topic_partition)
        return NO_TOPIC_ID if found is None else found.topic_id

    def _complete_delayed(self, partitions: Iterable[TopicPartition]) -> None:
        changed = tuple(partitions)
        self.delayed_fetches.check_and_complete(changed)
        self.delayed_produces.check_and_complete(changed)
        self.delayed_deletes.check_and_complete(changed)

    # ------------------------------------------------------------------ records

    def append_as_leader(
        self, partition: Partition, data: Buffer | CheckedBatches, *, required_acks: int, from_client: bool = True
    ) -> Appended:
        """Append batches to a partition that this broker leads. Mirrors `appendRecordsToLeader`.

        Args:
            required_acks: -1 for all, as in Produce.
            from_client: whether a client produced the batches, and no coordinator of this broker.

        Raises:
            ApiError: they are refused, or with acks=all the ISR is smaller than `min.insync.replicas`; or the disk
                fails or is full, and the broker stops.
        """
        state = partition.state
        is_refused = required_acks == ALL_ACKS and partition.is_under_min_isr
        if is_refused and self._rules.acks_all_needs_min_isr.holds_for(partition.topic_partition):
            raise ApiError(
                Errors.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR : {len(state.isr)} is insufficient to satisfy the min.isr requirement of "
                f"{partition.effective_min_isr} for partition {partition.topic_partition}, live replica(s) broker.id "
                f"are : {state.isr}",
            )
        end_offset = partition.log.log_end_offset
        try:
            info = partition.log.append_as_leader(
                data, state.leader_epoch, now_ms=self._clock.wall_ms(), from_client=from_client
            )
        except OSError as error:
            raise self.storage_error(partition, error) from error
        if not info.is_duplicate:
            self.log_events.appended(partition, end_offset)
            self.delayed_fetches.check_and_complete((partition.topic_partition,))
        # Also of a duplicate: a replica outside the ISR, for which the watermark waited, may have ended meanwhile.
        self.maybe_increment_high_watermark(partition)
        return Appended(partition, info, state.isr)

    def led_partition(self, topic_partition: TopicPartition) -> Partition:
        """Return a partition that this broker leads.

        Raises:
            ApiError: NOT_LEADER_OR_FOLLOWER.
        """
        partition = self._partitions.get(topic_partition)
        if partition is None or not partition.is_leader:
            raise ApiError(Errors.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {topic_partition}")
        return partition

    def record_acknowledgement(self, appended: Appended, acks: int) -> None:
        """Write into the event log that records are acknowledged, before their producer is answered."""
        self.log_events.acknowledged(appended.partition, appended.info, acks=acks, isr_at_append=appended.isr)

    async def wait_until_replicated(
        self, appended: Mapping[TopicPartition, Appended], *, timeout_ms: float
    ) -> dict[TopicPartition, Errors]:
        """Wait until the records of every partition are replicated or cannot be; return how it ended for each.

        Records that have been appended stay in the log, however it ended: NONE; REQUEST_TIMED_OUT after `timeout_ms`;
        NOT_LEADER_OR_FOLLOWER; NOT_ENOUGH_REPLICAS_AFTER_APPEND.
        """
        pending = dict(appended)
        results: dict[TopicPartition, Errors] = {}

        def settle() -> bool:
            for topic_partition, each in tuple(pending.items()):
                error = self.replication_error(topic_partition, each.end_offset)
                if error is not None:
                    del pending[topic_partition]
                    results[topic_partition] = error
                    if error is Errors.NONE:
                        self.record_acknowledgement(each, ALL_ACKS)
            return not pending

        await self.delayed_produces.wait_until(tuple(pending), settle, timeout_ms=timeout_ms)
        return results | dict.fromkeys(pending, Errors.REQUEST_TIMED_OUT)

    def storage_error(self, partition: Partition, error: OSError) -> ApiError:
        """Stop the broker because its disk has failed; return the error for the request that met the failure."""
        self._on_disk_failure(error)
        return ApiError(Errors.KAFKA_STORAGE_ERROR, f"Disk error on the log of {partition.topic_partition}: {error}")

    def append_as_follower(
        self, partition: Partition, data: Buffer, high_watermark: int, log_start_offset: int
    ) -> None:
        """Append what the leader has sent, and take over its high watermark and log start offset.

        Raises:
            ApiError: the batches are damaged or not in order; nothing was appended.
            OSError: the disk fails or is full; the broker has to stop.
        """
        replica = partition.log
        if len(data):
            append_to_follower(partition, data, now_ms=self._clock.wall_ms(), log_events=self.log_events)
        before = replica.high_watermark
        if replica.update_high_watermark(high_watermark) != before:
            self.log_events.high_watermark_changed(partition)
            self.delayed_fetches.check_and_complete((partition.topic_partition,))
        if replica.log_start_offset < log_start_offset <= replica.high_watermark:
            replica.maybe_increment_log_start_offset(log_start_offset)

    def log_start_offset_raised(self, topic_partition: TopicPartition) -> None:
        """Have the followers of a partition, or its leader, learn that retention has deleted records here."""
        self.delayed_fetches.check_and_complete((topic_partition,))
        self._fetchers.note_change(topic_partition)

    def maybe_increment_high_watermark(self, partition: Partition) -> None:
        """Raise the high watermark of a partition led here as far as its replicas allow.

        It stays if the ISR is smaller than `min.insync.replicas` (KIP-966).
        """
        state = partition.state
        is_joining = state.proposal is not None and state.proposal.joining
        if is_joining and not self._rules.high_watermark_waits_for_proposed_isr.holds_for(partition.topic_partition):
            state = isr.with_proposal(state, None)
        leader_log = partition.log
        now_ms = self._clock.monotonic_ms()
        allowed = isr.high_watermark(
            state,
            partition.followers,
            broker_id=self.broker_id,
            leader_end_offset=leader_log.log_end_offset,
            now_ms=now_ms,
            max_lag_ms=self._max_lag_ms,
            is_alive=self._is_alive,
        )
        if allowed <= leader_log.high_watermark:
            return
        if partition.is_under_min_isr and self._rules.high_watermark_needs_min_isr.holds_for(partition.topic_partition):
            return
        leader_log.update_high_watermark(allowed)
        self.log_events.high_watermark_changed(
            partition, now_ms=now_ms, max_lag_ms=self._max_lag_ms, is_alive=self._is_alive
        )
        self._complete_delayed((partition.topic_partition,))

    def low_watermark(self, topic_partition: TopicPartition) -> int | None:
        """Return the smallest log start offset of the live replicas; None if this broker does not lead.

        The offset of a follower that has not fetched from this leader yet is not known, and counts as -1.
        """
        partition = self._partitions.get(topic_partition)
        if partition is None or not partition.is_leader:
            return None
        lowest = partition.log.log_start_offset
        for replica in partition.state.replicas:
            if replica != self.broker_id and self._is_alive(replica):
                known = partition.followers.get(replica)
                lowest = min(lowest, UNKNOWN_OFFSET if known is None else known.log_start_offset)
        return lowest

    def replication_error(self, topic_partition: TopicPartition, required_offset: int) -> Errors | None:
        """Return how a Produce with acks=all ends for a partition; None while its records are not replicated yet.

        Mirrors `checkEnoughReplicasReachOffset`: the ISR is judged as it may be when the pending change is decided.

        Args:
            required_offset: the offset after the last record.
        """
        partition = self._partitions.get(topic_partition)
        if partition is None or not partition.is_leader:
            return Errors.NOT_LEADER_OR_FOLLOWER
        if partition.log.high_watermark < required_offset:
            return None
        if len(partition.state.maximal_isr) < partition.effective_min_isr:
            return Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return Errors.NONE

    def _record_stale(self, api: str, stale: Iterable[StaleLeaderEpoch]) -> None:
        for topic_partition, offered, known in stale:
            self._fences.record_hit(
                Fence.BROKER_LEADER_EPOCH, what=f"{api} {topic_partition}", offered=offered, known=known
            )
