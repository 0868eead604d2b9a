"""Keeps the groups of the partitions of `__consumer_offsets` that this broker leads, and stores them there.

Mirrors `kafka.coordinator.group.GroupMetadataManager`. What a record says counts when the high watermark has passed it.
A new leader reads its partition in the background; a follower forgets it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial

import structlog

from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.coordinator.coordinators import partition_for
from understudy.brokers.coordinator.group.group_events import GroupEvents
from understudy.brokers.coordinator.group.group_loading import GroupLoader
from understudy.brokers.coordinator.group.group_metadata import GroupMetadata
from understudy.brokers.coordinator.group.group_metrics import GroupMeters
from understudy.brokers.coordinator.group.group_offsets import OffsetAndMetadata
from understudy.brokers.coordinator.group.group_records import (
    FIRST_SEQUENCE,
    KeyAndValue,
    group_key,
    group_value,
    offset_key,
    offset_value,
)
from understudy.brokers.coordinator.group.group_state import GroupState
from understudy.brokers.coordinator.group.group_writer import GroupWriter, offsets_partition
from understudy.brokers.replication.partition import Partition
from understudy.brokers.replication.replica_manager import ReplicaManager
from understudy.brokers.world import Offload
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.coordinator.group.GroupMetadataManager")

MINUTE_MS = 60_000
LOADED_AT_ONCE_BYTES = 1_000_000
"""Maximum number of bytes read at a time, so that loading a large partition does not hold up other requests for
long."""
GROUPS_WITHOUT_PAUSE = 200
"""Number of groups that are searched for expired offsets before other requests may proceed."""

OffsetsRemover = Callable[[GroupMetadata], dict[TopicPartition, OffsetAndMetadata]]

_COMMIT_ERRORS: Mapping[Errors, Errors] = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
    Errors.KAFKA_STORAGE_ERROR: Errors.NOT_COORDINATOR,
    Errors.MESSAGE_TOO_LARGE: Errors.INVALID_COMMIT_OFFSET_SIZE,
    Errors.RECORD_LIST_TOO_LARGE: Errors.INVALID_COMMIT_OFFSET_SIZE,
}
"""Errors for a client whose offsets could not be stored, by the error of the append."""

_STORE_ERRORS: Mapping[Errors, Errors] = {
    **_COMMIT_ERRORS,
    Errors.REQUEST_TIMED_OUT: Errors.REBALANCE_IN_PROGRESS,
    Errors.MESSAGE_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.RECORD_LIST_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
}
"""Errors for a client whose group could not be stored, by the error of the append."""


class GroupMetadataManager:
    """Owns the groups of this broker.

    Args:
        partitions: how many `__consumer_offsets` has, or is to have.
        spawn: runs a coroutine as a task of the broker, under a name.

    Attributes:
        events: writes what happens to groups into the event log.
        meters: counts it for the metrics.
    """

    def __init__(
        self,
        *,
        partitions: int,
        config: Callable[[], KafkaConfig],
        replicas: ReplicaManager,
        clock: Clock,
        events: GroupEvents,
        spawn: Callable[[Coroutine[object, object, None], str], object],
        offload: Offload,
    ) -> None:
        self.events = events
        self.meters = GroupMeters(clock)
        self._partitions = partitions
        self._config = config
        self._replicas = replicas
        self._clock = clock
        self._spawn = spawn
        self._offload = offload
        self._writer = GroupWriter(config=config, replicas=replicas, clock=clock, spawn=spawn)
        self._groups: dict[str, GroupMetadata] = {}
        self._owned: dict[int, dict[str, GroupMetadata]] = {}
        """The groups of each partition that this broker leads and has loaded."""
        self._loading: dict[int, int] = {}
        """The leader epoch in which each partition is being loaded."""
        self._epochs: dict[int, int] = {}
        """The newest leader epoch in which each partition was loaded or unloaded (`epochForPartitionId`)."""
        self._one_load = asyncio.Semaphore(1)

    @property
    def groups(self) -> Mapping[str, GroupMetadata]:
        return self._groups

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    def now_ms(self) -> int:
        """Wall time."""
        return int(self._clock.wall_ms())

    # ------------------------------------------------------------------ groups

    def partition_of(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` that stores a group (CO-1)."""
        known = self._groups.get(group_id)
        return partition_for(group_id, self._partitions) if known is None else known.partition

    def status(self, group_id: str) -> Errors:
        """Return NONE if this broker coordinates a group, whether it exists or not; or why it does not (CO-4)."""
        if group_id in self._groups:
            return Errors.NONE
        number = partition_for(group_id, self._partitions)
        if number in self._loading:
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        return Errors.NONE if number in self._owned else Errors.NOT_COORDINATOR

    def get(self, group_id: str) -> GroupMetadata | None:
        return self._groups.get(group_id)

    def get_or_create(self, group_id: str) -> GroupMetadata:
        """Return a group that this broker coordinates; a new one is Empty, and stored with its first generation."""
        group = self._groups.get(group_id)
        if group is None:
            group = GroupMetadata(group_id, partition_for(group_id, self._partitions), now_ms=self.now_ms())
            self._put(group)
        return group

    def drop_if_unused(self, group: GroupMetadata) -> None:
        """Forget a group that was made for a request and then not used, so that refused requests leave nothing."""
        is_new = group.generation_id == 0 and group.state is GroupState.EMPTY
        if is_new and not group.members and not group.pending_members and group.offsets.is_empty:
            self._forget(group)

    def _put(self, group: GroupMetadata) -> None:
        self._groups[group.group_id] = group
        self._owned[group.partition][group.group_id] = group

    def _forget(self, group: GroupMetadata) -> None:
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]
            self._owned[group.partition].pop(group.group_id, None)

    # ------------------------------------------------------------------ storing

    def store_group(
        self, group: GroupMetadata, assignment: Mapping[str, bytes], done: Callable[[Errors], None]
    ) -> None:
        """Append a group in its present generation; call `done` with the error for its members.

        Args:
            assignment: by member id; it has all members.
            done: called when the in-sync replicas have the group or it is known why not; never before this returns.
        """
        stored = (group_key(group.group_id), group_value(group, assignment, self._config().metadata_version))
        self._writer.write(group.partition, (stored,), partial(self._group_stored, group, done))

    def _group_stored(self, group: GroupMetadata, done: Callable[[Errors], None], error: Errors, _offset: int) -> None:
        answered = _STORE_ERRORS.get(error, error)
        if answered is Errors.UNKNOWN_SERVER_ERROR:
            log.error(
                "appending metadata message for group failed",
                group=group.group_id,
                generation=group.generation_id,
                error=error.name,
            )
        done(answered)

    async def store_offsets(self, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Errors:
        """Append offsets of a group, and commit them when the in-sync replicas have them; return the client's error.

        They are committed also if the client does not wait any more. A new group that this leaves without offsets
        is forgotten.
        """
        if self._writer.is_full:
            log.warning("a commit is to be sent again: too much waits to be replicated", group=group.group_id)
            self.drop_if_unused(group)
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        protocol = self._config().metadata_version
        stored = [
            (offset_key(group.group_id, partition), offset_value(value, protocol))
            for partition, value in offsets.items()
        ]
        answer: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()
        group.offsets.prepare(offsets)
        done = partial(self._offsets_stored, group, offsets, answer)
        self._writer.write(group.partition, stored, done, base_sequence=FIRST_SEQUENCE)
        return await answer

    def _offsets_stored(
        self,
        group: GroupMetadata,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        answer: asyncio.Future[Errors],
        error: Errors,
        offset: int,
    ) -> None:
        if error is Errors.NONE:
            self.meters.commits.record(len(offsets))
        # A group that was unloaded meanwhile is read again by its next coordinator.
        if error is Errors.NONE and group.state is not GroupState.DEAD:
            group.offsets.complete(offsets, offset)
            self.events.offsets_committed(group, offsets, appended_at=offset)
        else:
            group.offsets.fail(offsets)
            self.drop_if_unused(group)
        # It is cancelled if the connection was closed meanwhile.
        if not answer.done():
            answer.set_result(_COMMIT_ERRORS.get(error, error))

    def remove_offsets(self, group: GroupMetadata, remover: OffsetsRemover, *, reason: str) -> int:
        """Remove offsets of a group, and the group if it has none left and no members; return how many offsets.

        Tombstones are appended without waiting: if they are lost, the next coordinator removes the same again.
        """
        removed = remover(group)
        stored: list[KeyAndValue] = [(offset_key(group.group_id, partition), None) for partition in removed]
        if group.state is GroupState.EMPTY and group.offsets.is_empty:
            log.info("group transitioned to Dead", group=group.group_id, generation=group.generation_id)
            source = group.state
            group.transition_to(GroupState.DEAD, now_ms=self.now_ms())
            self.events.transition(group, source, reason)
        if group.state is GroupState.DEAD:
            self._forget(group)
            if group.generation_id > 0:
                stored.append((group_key(group.group_id), None))
        if removed:
            self.events.offsets_removed(group, removed, reason)
        if not stored:
            return 0
        try:
            self._writer.write_tombstones(group.partition, stored)
        except ApiError as refused:
            log.error(
                "failed to append tombstones for expired or deleted offsets",
                group=group.group_id,
                count=len(stored),
                error=refused.error.name,
                why=refused.message,
            )
            return 0
        return len(removed)

    # ------------------------------------------------------------------ expiry

    async def run_expiration(self) -> None:
        """Remove expired offsets, now and every `offsets.retention.check.interval.ms` (`cleanupGroupMetadata`)."""
        while True:
            await self.remove_expired()
            await asyncio.sleep(self._config().offsets_retention_check_interval_ms / 1000)

    async def remove_expired(self) -> int:
        """Remove the offsets whose time is over, and the groups that have none left; return how many offsets."""
        now_ms = self.now_ms()
        retention_ms = self._config().offsets_retention_minutes * MINUTE_MS
        removed = 0
        for count, group in enumerate(tuple(self._groups.values()), 1):
            if group.state is not GroupState.DEAD:
                remover = partial(GroupMetadata.remove_expired_offsets, now_ms=now_ms, retention_ms=retention_ms)
                removed += self.remove_offsets(group, remover, reason="expired")
            if count % GROUPS_WITHOUT_PAUSE == 0:
                await asyncio.sleep(0)
        if removed:
            self.meters.expirations.record(removed)
            log.info("removed expired offsets", offsets=removed)
        return removed

    # ------------------------------------------------------------------ loading and unloading

    def load(self, number: int, leader_epoch: int, on_loaded: Callable[[GroupMetadata], None]) -> None:
        """Read a partition that this broker leads from now on, in the background (CO-4).

        Args:
            on_loaded: called with each group when all have been read.
        """
        about = {"partition": str(offsets_partition(number)), "leader_epoch": leader_epoch}
        if not self._takes_epoch(number, leader_epoch):
            newest = self._epochs[number]
            log.info("not loading offsets and group metadata", **about, current_leader_epoch=newest)
        elif number in self._owned or number in self._loading:
            log.info("already loading offsets and group metadata", **about)
        else:
            log.info("scheduling loading of offsets and group metadata", **about)
            self._loading[number] = leader_epoch
            self._spawn(self._load(number, leader_epoch, on_loaded), f"group-metadata-manager-{number}")

    def unload(self, number: int, leader_epoch: int | None, on_unloaded: Callable[[GroupMetadata], None]) -> None:
        """Forget the groups of a partition that this broker leads no more (CO-4).

        Args:
            leader_epoch: None if the partition is deleted; then its next leader epoch may be any.
            on_unloaded: called with each group before it is forgotten.
        """
        about = {"partition": str(offsets_partition(number)), "leader_epoch": leader_epoch}
        if leader_epoch is None:
            self._epochs.pop(number, None)
        elif not self._takes_epoch(number, leader_epoch):
            newest = self._epochs[number]
            log.info("not removing offsets and group metadata", **about, current_leader_epoch=newest)
            return
        self._writer.abandon(number)
        was_loading = self._loading.pop(number, None) is not None
        owned = self._owned.pop(number, None)
        if owned is None and not was_loading:
            return
        groups = tuple((owned or {}).values())
        for group in groups:
            on_unloaded(group)
            del self._groups[group.group_id]
        offsets = sum(len(group.offsets) for group in groups)
        log.info("finished unloading", **about, offsets=offsets, groups=len(groups))
        self.events.unloaded(number, leader_epoch, groups=len(groups), offsets=offsets)

    async def _load(self, number: int, leader_epoch: int, on_loaded: Callable[[GroupMetadata], None]) -> None:
        started_ms = self._clock.monotonic_ms()
        async with self._one_load:
            loader = await self._read(number, leader_epoch)
            if loader is None:
                return
            groups = await self._offload(partial(loader.groups, now_ms=self.now_ms()))
            if self._loading.get(number) != leader_epoch:
                return
            self._report(loader)
            del self._loading[number]
            self._owned[number] = {}
            for group in groups:
                self._put(group)
            offsets = sum(len(group.offsets) for group in groups)
            self.events.loaded(number, leader_epoch, groups=len(groups), offsets=offsets, unreadable=loader.unreadable)
            for group in groups:
                on_loaded(group)
            took_ms = round(self._clock.monotonic_ms() - started_ms)
            self.meters.load_times.record(took_ms)
            log.info(
                "finished loading offsets and group metadata",
                partition=str(offsets_partition(number)),
                leader_epoch=leader_epoch,
                groups=len(groups),
                offsets=offsets,
                records=loader.records,
                took_ms=took_ms,
            )

    async def _read(self, number: int, leader_epoch: int) -> GroupLoader | None:
        """Read a partition to its end; None if it is led no more."""
        size = min(self._config().offsets_load_buffer_size, LOADED_AT_ONCE_BYTES)
        loader: GroupLoader | None = None
        while self._loading.get(number) == leader_epoch:
            partition = self._replicas.partitions.get(offsets_partition(number))
            if partition is None or not partition.is_leader:
                log.warning("attempted to load groups, but found no log", partition=str(offsets_partition(number)))
                del self._loading[number]
                return None
            begin = partition.log.log_start_offset
            if loader is None:
                loader = GroupLoader(number, begin=begin)
            loader.next_offset = max(loader.next_offset, begin)
            before = loader.next_offset
            if before >= partition.log.log_end_offset:
                return loader
            await self._offload(partial(loader.add, self._read_log(partition, before, size)))
            if loader.next_offset == before:
                return loader
        return None

    def _read_log(self, partition: Partition, offset: int, size: int) -> bytes:
        try:
            return bytes(partition.log.read(offset, size, end_offset=partition.log.log_end_offset, min_one=True))
        except OSError as error:
            raise self._replicas.storage_error(partition, error) from error

    def _report(self, loader: GroupLoader) -> None:
        """Log what could not be read, and is left out."""
        at = str(offsets_partition(loader.partition))
        for problem in loader.problems:
            log.error("error loading offsets: a record is left out", partition=at, why=problem)
        if loader.unreadable > len(loader.problems):
            log.error("error loading offsets: records are left out", partition=at, unreadable=loader.unreadable)
        for version in sorted(loader.unknown_versions):
            log.warning("unknown message key while loading offsets", partition=at, key_version=version)
        if loader.open_transactions:
            log.warning("offsets of open transactions are left out", partition=at, producers=loader.open_transactions)

    def _takes_epoch(self, number: int, leader_epoch: int) -> bool:
        """Note a leader epoch; return whether none newer was noted before (`maybeUpdateCoordinatorEpoch`)."""
        newest = self._epochs[number] = max(self._epochs.get(number, leader_epoch), leader_epoch)
        return newest == leader_epoch
