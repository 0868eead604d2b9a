"""The log of one partition: its segments, offsets, leader epochs and producers. Mirrors `kafka.log.UnifiedLog`.

Offsets are ordered: log start offset <= last stable offset <= high watermark <= log end offset. Nothing is flushed
before an append returns: what was appended survives the end of the process, and `FlushPlan` makes it survive a loss of
power. Calls do not wait, so that each sees and leaves the log in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from operator import attrgetter
from typing import Final, Unpack

import structlog

from understudy.brokers.config.log_config import LogConfig
from understudy.brokers.log.append_info import LogAppendInfo
from understudy.brokers.log.checkpoint_file import encode_epochs
from understudy.brokers.log.flush_plan import FlushPlan, plan_of, unflushed
from understudy.brokers.log.leader_epoch_cache import LeaderEpochCache
from understudy.brokers.log.log_checks import answer_to_duplicate, check_fits_segment, check_in_range, check_new_start
from understudy.brokers.log.log_files import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from understudy.brokers.log.log_loader import Checkpoints, LoadedLog, LogLoader
from understudy.brokers.log.log_segments import (
    DeletedFiles,
    delete_last_first,
    parts_of,
    place_of,
    read_from,
    rename_to_deleted,
    swap_in,
)
from understudy.brokers.log.log_validator import CheckedBatches, validate, validate_replicated
from understudy.brokers.log.partition_metadata import encode_topic_id
from understudy.brokers.log.producer_snapshots import ProducerSnapshots, note_producers
from understudy.brokers.log.producer_state import ProducerStateManager
from understudy.brokers.log.retention import deletable_segments
from understudy.brokers.log.segment import MAX_RELATIVE_OFFSET, LogSegment, roll_jitter_ms
from understudy.brokers.world import Disk
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from understudy.foundation.records.batch import NO_TIMESTAMP, BatchHeader
from understudy.foundation.records.varint import Buffer

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.log.UnifiedLog")

_MAX_TIMESTAMP: Final = attrgetter("max_timestamp")


class PartitionLog:
    """The log of one partition on this broker. `load` opens or creates it.

    Args:
        on_offsets_changed: called when a truncation has changed the recovery point, the log start offset or the first
            dirty offset, before anything is appended: the checkpoints on disk must not be above them.

    Attributes:
        log_start_offset: the offset of the first record that may be read.
        log_end_offset: the offset that the next record gets.
        high_watermark: the offset up to which every in-sync replica has the log.
        recovery_point: the offset up to which the log is flushed; an unclean end is recovered from here on.
        first_dirty_offset: the offset up to which the log is compacted; None if it never was.
        generation: counts truncations: what was found in the log before one may not be there any more.
        topic_id: the topic's id as `partition.metadata` has it; `NO_TOPIC_ID` without one.
    """

    __slots__ = (
        "_deleted",
        "_disk",
        "_failure",
        "_is_topic_id_flushed",
        "_on_offsets_changed",
        "_producers",
        "_segments",
        "_snapshots",
        "config",
        "epochs",
        "first_dirty_offset",
        "folder",
        "generation",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "recovery_point",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        disk: Disk,
        folder: str,
        config: LogConfig,
        producer_expiration_ms: int,
        loaded: LoadedLog,
        on_offsets_changed: Callable[[], None] | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.folder = folder
        self.config = config
        self.topic_id = loaded.topic_id
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = loaded.log_start_offset
        self.recovery_point = loaded.recovery_point
        self.first_dirty_offset: int | None = loaded.first_dirty_offset
        self.epochs = loaded.epochs
        self._disk = disk
        self._segments = loaded.segments
        self._snapshots = ProducerSnapshots(
            disk, folder, loaded.names, partition=topic_partition, expiration_ms=producer_expiration_ms
        )
        self._producers = self._snapshots.new_producers((), self.log_end_offset)
        self._is_topic_id_flushed = True
        self._on_offsets_changed = on_offsets_changed
        self._deleted = DeletedFiles(disk)
        self._failure: OSError | None = None
        """Why the disk could not append, perhaps after a part of the bytes: what came after it would be lost."""
        self.generation = 0

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which no transaction is open; consumers with READ_COMMITTED read up to here."""
        unstable = self._producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        return tuple(self._segments)

    @property
    def producers(self) -> ProducerStateManager:
        return self._producers

    # ------------------------------------------------------------------ loading

    @classmethod
    def load(
        cls,
        topic_partition: TopicPartition,
        *,
        disk: Disk,
        folder: str,
        config: LogConfig,
        producer_expiration_ms: int,
        now_ms: float,
        had_clean_shutdown: bool = False,
        on_offsets_changed: Callable[[], None] | None = None,
        **checkpoints: Unpack[Checkpoints],
    ) -> PartitionLog:
        """Open the log in `folder`, which is created if it is missing.

        Takes and raises what `LogLoader` does.
        """
        loaded = LogLoader(
            topic_partition,
            disk=disk,
            folder=folder,
            config=config,
            now_ms=now_ms,
            had_clean_shutdown=had_clean_shutdown,
            **checkpoints,
        ).load()
        opened = cls(
            topic_partition,
            disk=disk,
            folder=folder,
            config=config,
            producer_expiration_ms=producer_expiration_ms,
            loaded=loaded,
            on_offsets_changed=on_offsets_changed,
        )
        if not loaded.are_epochs_on_disk:
            opened._write_epochs()
        snapshots = opened._snapshots.offsets
        opened._snapshots.delete_strays([segment.base_offset for segment in loaded.segments])
        # A log that was closed without snapshots had no producers: they are not looked for in all of its batches.
        if not had_clean_shutdown or opened._snapshots.offsets:
            opened._rebuild_producers(now_ms)
        if opened._snapshots.offsets != snapshots:
            # A loss of power must not bring back snapshots of batches that are lost.
            disk.flush_directory(folder)
        return opened

    def _rebuild_producers(self, now_ms: float) -> None:
        """Set the producers as of the log's end."""
        self._producers = self._snapshots.rebuild(
            self._segments,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            now_ms=now_ms,
        )

    # ------------------------------------------------------------------ appending

    def append_as_leader(
        self, data: Buffer | CheckedBatches, leader_epoch: int, *, now_ms: float, from_client: bool = True
    ) -> LogAppendInfo:
        """Check batches, give them offsets and the leader epoch, and add them. A batch sent again is not added again.

        Args:
            data: it is not changed. Without a whole batch nothing is added.
            now_ms: wall time.

        Raises:
            ApiError: the batches are refused; nothing was added.
            OSError: the disk fails or is full; the broker has to stop.
        """
        checked = validate(
            data,
            next_offset=self.log_end_offset,
            leader_epoch=leader_epoch,
            config=self.config,
            now_ms=int(now_ms),
            from_client=from_client,
        )
        headers = checked.headers
        if not headers:
            return LogAppendInfo.nothing(self.log_start_offset)
        duplicate = answer_to_duplicate(
            headers,
            self._producers,
            from_client=from_client,
            has_log_append_time=self.config.log_append_time,
            log_start_offset=self.log_start_offset,
        )
        if duplicate is not None:
            return duplicate
        check_fits_segment(len(checked.data), self.config.segment_bytes, self.topic_partition)
        self._append(checked.data, headers, checked.max_timestamp, checked.offset_of_max_timestamp, now_ms)
        return LogAppendInfo.of(
            headers,
            max_timestamp=checked.max_timestamp,
            log_append_time=checked.log_append_time,
            log_start_offset=self.log_start_offset,
        )

    def append_as_follower(self, data: Buffer, *, now_ms: float) -> LogAppendInfo | None:
        """Add batches of the leader as they are; return None if not one of them is whole.

        Raises:
            ApiError: a checksum differs, or offsets are not in order; nothing was added.
            OSError: the disk fails or is full; the broker has to stop.
        """
        headers = validate_replicated(data, next_offset=self.log_end_offset)
        if not headers:
            return None
        view, begin = memoryview(data), 0
        for part in parts_of(headers, self.config.segment_bytes):
            end = begin + sum(header.size for header in part)
            largest = max(part, key=_MAX_TIMESTAMP)
            self._append(view[begin:end], part, largest.max_timestamp, largest.last_offset, now_ms)
            begin = end
        return LogAppendInfo.of(
            headers,
            max_timestamp=max(header.max_timestamp for header in headers),
            log_append_time=NO_TIMESTAMP,
            log_start_offset=self.log_start_offset,
        )

    def _append(
        self, data: Buffer, headers: tuple[BatchHeader, ...], max_timestamp: int, offset_of_max: int, now_ms: float
    ) -> None:
        if self._failure is not None:
            raise OSError(self._failure.errno, f"{self.topic_partition} takes no records after {self._failure}")
        try:
            self._write(data, headers, max_timestamp, offset_of_max, now_ms)
        except OSError as failure:
            self._failure = failure
            raise

    def _write(
        self, data: Buffer, headers: tuple[BatchHeader, ...], max_timestamp: int, offset_of_max: int, now_ms: float
    ) -> None:
        if not self._is_topic_id_flushed:
            # Records without the id of their topic could be taken for records of a later topic of the same name.
            self._disk.write(f"{self.folder}/{PARTITION_METADATA}", encode_topic_id(self.topic_id))
            self._is_topic_id_flushed = True
        last_offset = headers[-1].last_offset
        if self.epochs.note(headers):
            self._write_epochs()
        segment = self._segments[-1]
        jitter_ms = roll_jitter_ms(self.topic_partition, segment.base_offset, self.config.segment_jitter_ms)
        if segment.should_roll(len(data), max_timestamp, last_offset, now_ms=now_ms, jitter_ms=jitter_ms):
            # Segments follow each other without a gap, by which the loader sees that one between them is lost.
            is_near = last_offset - self.log_end_offset <= MAX_RELATIVE_OFFSET
            segment = self._roll(self.log_end_offset if is_near else headers[0].base_offset, now_ms)
        # First, because it refuses a control batch that cannot be read.
        note_producers(self._producers, data, headers)
        segment.append(
            data, last_offset=last_offset, max_timestamp=max_timestamp, offset_of_max_timestamp=offset_of_max
        )
        self.log_end_offset = last_offset + 1
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush_now()

    def _roll(self, base_offset: int, now_ms: float) -> LogSegment:
        """Close the active segment, and begin one at `base_offset`."""
        active = self._segments[-1]
        base_offset = max(base_offset, self.log_end_offset)
        if active.base_offset == base_offset:
            return active
        # Segments below the recovery point are not recovered, so their indexes are not made again.
        active.close(flush=self.recovery_point > active.base_offset)
        if len(self._segments) == 1:
            # Otherwise a loss of power could keep the new segment alone, and the log would begin with it.
            self._disk.flush_directory(self.folder)
        self._producers.end_offset = max(self._producers.end_offset, base_offset)
        self._take_snapshot(flush=self.recovery_point >= base_offset)  # otherwise a plan flushes it
        segment = LogSegment.create(self._disk, self.folder, base_offset, self.config, now_ms=now_ms)
        self._segments.append(segment)
        return segment

    def roll(self, *, now_ms: float) -> None:
        """Begin a new segment, unless the active one is empty."""
        self._roll(self.log_end_offset, now_ms)

    # ------------------------------------------------------------------ offsets

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, within the log; return what it is now."""
        self.high_watermark = min(max(offset, self.log_start_offset), self.log_end_offset)
        self._producers.on_high_watermark(self.high_watermark)
        return self.high_watermark

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Let the log begin at `offset`, if that is after its present beginning; return whether it changed.

        Raises:
            ApiError: OFFSET_OUT_OF_RANGE, the offset is above the high watermark.
        """
        check_new_start(offset, self.high_watermark, self.topic_partition)
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self._producers.on_log_start_offset(offset)
        if self.epochs.truncate_from_start(offset):
            self._write_epochs()
        return True

    def assign_epoch_start(self, epoch: int) -> None:
        """Note that records from the log's end on are of `epoch`, when this replica becomes leader."""
        if self.epochs.assign(epoch, self.log_end_offset):
            self._write_epochs()

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """Store the topic's id in `partition.metadata`."""
        if topic_id != NO_TOPIC_ID and topic_id != self.topic_id:
            self.topic_id = topic_id
            self._is_topic_id_flushed = False
            self._disk.write(f"{self.folder}/{PARTITION_METADATA}", encode_topic_id(topic_id), flush=False)

    def use_config(self, config: LogConfig) -> None:
        """Apply a changed configuration."""
        self.config = config
        for segment in self._segments:
            segment.use_config(config)

    # ------------------------------------------------------------------ reading

    def read(self, offset: int, max_bytes: int, *, end_offset: int, min_one: bool = False) -> Buffer:
        """Return whole batches from the one that has `offset` on, and perhaps a part of the next; empty without any.

        Args:
            end_offset: batches that begin at or after it are left out: the high watermark, for consumers.
            min_one: whether the first batch is returned as a whole, however large it is (KIP-74).

        Raises:
            ApiError: OFFSET_OUT_OF_RANGE.
            OSError: the disk fails.
        """
        check_in_range(offset, self.log_start_offset, self.log_end_offset, self.topic_partition)
        if offset >= min(end_offset, self.log_end_offset):
            return b""
        limit = end_offset if end_offset < self.log_end_offset else None
        return read_from(self._segments, offset, max_bytes, end_offset=limit, min_one=min_one)

    # ------------------------------------------------------------------ truncating

    def truncate_to(self, offset: int, *, now_ms: float) -> bool:
        """Remove the records at or after an offset; return whether there were any.

        The leader epochs are cut off in any case: a leader that has appended nothing has an epoch that begins at the
        log's end.

        Raises:
            ValueError: the offset is negative.
        """
        if offset < 0:
            raise ValueError(f"Cannot truncate partition {self.topic_partition} to a negative offset ({offset}).")
        if offset >= self.log_end_offset:
            if self.epochs.truncate_from_end(self.log_end_offset):
                self._write_epochs()
            return False
        if self._segments[0].base_offset > offset:
            self.truncate_fully_and_start_at(offset, now_ms=now_ms)
            return True
        self.generation += 1
        before = self._checkpointed_offsets()
        kept = place_of(self._segments, offset) + 1
        self._delete_at_once(self._segments[kept:], snapshots_after=offset)
        del self._segments[kept:]
        self._set_end(self._segments[-1].truncate_to(offset))
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        if self.epochs.truncate_from_end(self.log_end_offset):
            self._write_epochs()
        if not self._producers.is_empty:
            self._rebuild_producers(now_ms)
        self._producers.end_offset = self.log_end_offset
        if self._segments[-1].end()[0] < self.log_end_offset:
            # Compaction has removed what was there: the next segment may follow with a gap.
            self.flush_now()
        self._report_changed(before)
        return True

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: float, log_start_offset: int | None = None) -> None:
        """Remove all records; the next one gets `offset`. As a follower does whose leader has deleted what it lacks."""
        self.generation += 1
        before = self._checkpointed_offsets()
        self._delete_at_once(self._segments, snapshots_after=-1)
        self._segments = [LogSegment.create(self._disk, self.folder, offset, self.config, now_ms=now_ms)]
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        self._set_end(offset)
        self.high_watermark = offset
        self.epochs = LeaderEpochCache()
        self._write_epochs()
        self._producers = self._snapshots.new_producers((), offset)
        self._report_changed(before)

    def _delete_at_once(self, segments: list[LogSegment], *, snapshots_after: int) -> None:
        """Delete segments at the log's end, the last first, and snapshots of producers that reflect them."""
        has_deleted_snapshots = self._snapshots.delete_after(snapshots_after)
        delete_last_first(self._disk, segments)
        if segments or has_deleted_snapshots:
            # A loss of power must not bring them back between batches that are appended now.
            self._disk.flush_directory(self.folder)

    def _checkpointed_offsets(self) -> tuple[int, ...]:
        return self.recovery_point, self.log_start_offset, self.first_dirty_offset or 0

    def _report_changed(self, before: tuple[int, ...]) -> None:
        if self._on_offsets_changed is not None and self._checkpointed_offsets() != before:
            self._on_offsets_changed()

    def _set_end(self, offset: int) -> None:
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.high_watermark = min(self.high_watermark, offset)
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, self._segments[-1].base_offset)

    # ------------------------------------------------------------------ retention

    def delete_old_segments(self, now_ms: float) -> int:
        """Delete the oldest segments that retention no longer keeps; return how many."""
        count = deletable_segments(
            self._segments,
            self.config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=self.high_watermark,
            now_ms=now_ms,
        )
        if count == 0:
            return 0
        if count == len(self._segments):
            self._roll(self.log_end_offset, now_ms)
        self._delete_segments(self._segments[:count], now_ms)
        self.maybe_increment_log_start_offset(self._segments[0].base_offset)
        return count

    def _delete_segments(self, segments: list[LogSegment], now_ms: float) -> None:
        """Remove segments from the log; their files are renamed, and deleted after `file.delete.delay.ms`."""
        # Otherwise a loss of power could undo the creation of a segment that stays, with a later one kept.
        self._disk.flush_directory(self.folder)
        self._segments = [segment for segment in self._segments if segment not in segments]
        due_ms = now_ms + self.config.file_delete_delay_ms
        for segment in segments:
            self._deleted.add(rename_to_deleted(self._disk, segment), due_ms)
            self._snapshots.delete(segment.base_offset)
            # Nor may it bring this one back without the next: what follows such a gap would be taken for lost.
            self._disk.flush_directory(self.folder)

    def delete_due_files(self, now_ms: float) -> bool:
        """Delete the files of segments that were removed `file.delete.delay.ms` ago; return whether others wait."""
        return self._deleted.delete_due(now_ms)

    def replace_segments(self, cleaned: LogSegment, base_offsets: Collection[int], *, now_ms: float) -> None:
        """Let a segment that compaction has written and flushed take the place of those with these base offsets.

        Raises:
            OSError: the disk fails; the broker has to stop.
        """
        replaced = [segment for segment in self._segments if segment.base_offset in base_offsets]
        first = self._segments.index(replaced[0])
        files = swap_in(self._disk, self.folder, cleaned, replaced)
        self._deleted.add(files, now_ms + self.config.file_delete_delay_ms)
        self._segments[first : first + len(replaced)] = [cleaned]
        for segment in replaced[1:]:
            self._snapshots.delete(segment.base_offset)

    # ------------------------------------------------------------------ flushing and closing

    def flush_plan(self, *, whole: bool = False) -> FlushPlan | None:
        """Return what to flush, None if nothing is: closed segments, and with `whole` the active one.

        `mark_flushed` is to be called when it has run.
        """
        end_offset = self.log_end_offset if whole else self._segments[-1].base_offset
        return None if end_offset <= self.recovery_point else self._plan_to(end_offset)

    def _plan_to(self, end_offset: int, written: Iterable[LogSegment] = ()) -> FlushPlan:
        segments = (*written, *unflushed(self._segments, self.recovery_point, end_offset))
        # All that are not flushed yet: a truncation leaves an older one as the newest.
        snapshots = [self._snapshots.path(each) for each in self._snapshots.offsets if each >= self.recovery_point]
        return plan_of(self.folder, segments, tuple(snapshots), end_offset, self.generation)

    def mark_flushed(self, plan: FlushPlan) -> None:
        """Move the recovery point, unless the log was truncated since `plan` was made."""
        if plan.generation == self.generation:
            self.recovery_point = max(self.recovery_point, plan.end_offset)

    def flush_now(self) -> None:
        """Flush the whole log, and wait for the disk."""
        if (plan := self.flush_plan(whole=True)) is not None:
            plan.run(self._disk)
            self._disk.flush_directory("")
            self.mark_flushed(plan)

    def close(self) -> FlushPlan | None:
        """Write the indexes and a snapshot of the producers; return the files to flush for an orderly end."""
        written = [segment for segment in self._segments if segment.close()]
        if self._take_snapshot() or written:
            return self._plan_to(self.log_end_offset, written)
        return self.flush_plan(whole=True)

    def _take_snapshot(self, *, flush: bool = False) -> bool:
        return self._snapshots.take(self._producers, log_start_offset=self.log_start_offset, flush=flush)

    def _write_epochs(self) -> None:
        path = f"{self.folder}/{LEADER_EPOCH_CHECKPOINT}"
        self._disk.write(path, encode_epochs(self.epochs.entries), flush=False)
