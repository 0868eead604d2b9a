"""Reads the segments and leader epochs of a log from its folder, and repairs what an unclean end has left.

Mirrors `LogLoader`.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict, Unpack

import structlog

from understudy.brokers.config.log_config import LogConfig
from understudy.brokers.log.checkpoint_file import MalformedCheckpoint, decode_epochs
from understudy.brokers.log.leader_epoch_cache import LeaderEpochCache
from understudy.brokers.log.log_files import (
    CLEANED,
    DELETED,
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    OFFSET_INDEX,
    PARTITION_METADATA,
    SEGMENT_FILES,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    offset_of,
)
from understudy.brokers.log.log_segments import delete_last_first, place_of
from understudy.brokers.log.partition_metadata import MalformedPartitionMetadata, decode_topic_id
from understudy.brokers.log.segment import LogSegment
from understudy.brokers.world import Disk
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from understudy.foundation.records.batch import BatchHeader

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.log.LogLoader")


class Checkpoints(TypedDict, total=False):
    """What the checkpoints of the log directory have of a log."""

    recovery_point: int
    log_start_offset: int
    first_dirty_offset: int | None
    """From the checkpoint of the log cleaner; None for a log that was never compacted."""
    is_flushed_end_unknown: bool
    """Whether there is no checkpoint of recovery points that can be read."""


class LoadedLog(NamedTuple):
    """What a folder holds.

    Attributes:
        segments: at least one, ascending.
        log_end_offset: the offset that the next record gets.
        are_epochs_on_disk: whether the checkpoint of leader epochs agrees with `epochs`.
        names: the files in the folder.
    """

    segments: list[LogSegment]
    epochs: LeaderEpochCache
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    first_dirty_offset: int | None
    topic_id: TopicId
    are_epochs_on_disk: bool
    names: tuple[str, ...]


class LogLoader:
    """Loads one log; used once.

    Args:
        now_ms: wall time.
        had_clean_shutdown: whether the broker has closed its logs; otherwise segments that end after `recovery_point`
            are checked, and cut off at the first batch that is not intact.
        checkpoints: an offset that is missing is 0.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        disk: Disk,
        folder: str,
        config: LogConfig,
        now_ms: float,
        had_clean_shutdown: bool,
        **checkpoints: Unpack[Checkpoints],
    ) -> None:
        self._topic_partition = topic_partition
        self._disk = disk
        self._folder = folder
        self._config = config
        self._now_ms = now_ms
        self._had_clean_shutdown = had_clean_shutdown
        self._recovery_point = checkpoints.get("recovery_point", 0)
        self._log_start_offset = checkpoints.get("log_start_offset", 0)
        self._first_dirty_offset = checkpoints.get("first_dirty_offset")
        self._is_flushed_end_unknown = checkpoints.get("is_flushed_end_unknown", False)
        self._segments: list[LogSegment] = []
        self._epochs = LeaderEpochCache()

    def load(self) -> LoadedLog:
        """Read the folder, which is created if it is missing.

        Raises:
            OSError: the disk fails.
            CorruptRecord: the log was closed in order, but is damaged.
            UnsupportedMagic: it has batches of message format 0 or 1.
            MalformedPartitionMetadata: `partition.metadata` cannot be read.
        """
        disk, folder = self._disk, self._folder
        disk.make_folder(folder)
        names = self._finish_swaps(disk.list_folder(folder))
        bases = sorted(offset for name in names if name.endswith(LOG) and (offset := offset_of(name)) is not None)
        self._segments = [LogSegment.open(disk, folder, base, self._config, now_ms=self._now_ms) for base in bases]
        self._delete_orphaned_indexes(names, frozenset(bases))
        has_epochs = self._read_epochs(names)
        epochs_on_disk = self._epochs.entries
        if not self._had_clean_shutdown:
            # Without the checkpoint every batch is read for its epoch, and so every batch is checked.
            self._recover(self._recovery_point if has_epochs else 0)
        elif not has_epochs:
            self._rebuild_epochs()
        end_offset = self._end_offset()
        start_offset = max(self._log_start_offset, self._segments[0].base_offset)
        recovery_point = end_offset if self._had_clean_shutdown else min(self._recovery_point, end_offset)
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(start_offset)
        return LoadedLog(
            segments=self._segments,
            epochs=self._epochs,
            log_start_offset=start_offset,
            log_end_offset=end_offset,
            recovery_point=recovery_point,
            # Lost offsets may be given to new records, which are not compacted.
            first_dirty_offset=None if (self._first_dirty_offset or 0) > end_offset else self._first_dirty_offset,
            topic_id=self._read_topic_id(names),
            are_epochs_on_disk=has_epochs and self._epochs.entries == epochs_on_disk,
            names=names,
        )

    def _end_offset(self) -> int:
        """Return where the log ends; begin it anew if it ends before its start, or has no segment."""
        end_offset = self._log_start_offset
        if self._segments:
            last = self._segments[-1]
            end_offset, position = last.end()
            if position < last.size:
                # After an append that failed, the log was closed in order, but its file ends in a part of a batch.
                self._recover(last.base_offset)
                end_offset, _ = last.end()
            if end_offset >= self._log_start_offset:
                return end_offset
            log.warning(
                "deleting all segments: the log ends before its start, as after segment files were deleted",
                partition=str(self._topic_partition),
                end_offset=end_offset,
                log_start_offset=self._log_start_offset,
            )
            delete_last_first(self._disk, self._segments)
            self._epochs = LeaderEpochCache()
        first = LogSegment.create(self._disk, self._folder, self._log_start_offset, self._config, now_ms=self._now_ms)
        self._segments = [first]
        return self._log_start_offset

    # ------------------------------------------------------------------ files

    def _finish_swaps(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Finish or undo what the cleaner or a deletion has left half done; return the names that are left.

        `.swap` files are complete and replace the segments that they span; `.cleaned` files are not complete. If there
        are some, swap files at or behind the first of them belong to the same unfinished work.
        """
        cleaned = [offset for name in names if name.endswith(CLEANED) and (offset := offset_of(name)) is not None]
        removed = {name for name in names if name.endswith((DELETED, CLEANED))}
        swaps = {name for name in names if name.endswith(SWAP) and offset_of(name) is not None}
        if cleaned:
            unfinished = {name for name in swaps if (offset_of(name) or 0) >= min(cleaned)}
            removed |= unfinished
            swaps -= unfinished
        for name in sorted(removed):
            self._disk.delete(f"{self._folder}/{name}")
        if not swaps:
            return tuple(name for name in names if name not in removed)
        begin, end = self._span_of_swaps(swaps)
        for name in names:
            offset = offset_of(name)
            if name.endswith(SEGMENT_FILES) and offset is not None and begin <= offset < end:
                self._disk.delete(f"{self._folder}/{name}")
        # A loss of power must not bring them back beside the segment that has their offsets.
        self._disk.flush_directory(self._folder)
        for name in sorted(swaps):
            log.info("recovering file from an interrupted swap", file=f"{self._folder}/{name}")
            self._disk.rename(f"{self._folder}/{name}", f"{self._folder}/{name.removesuffix(SWAP)}")
        # Nor may a `.swap` file outlast the beginning of the next swap.
        self._disk.flush_directory(self._folder)
        return self._disk.list_folder(self._folder)

    def _span_of_swaps(self, swaps: set[str]) -> tuple[int, int]:
        """Return the first offset of the swapped segments, and the offset after their last record."""
        begin, end = 2**63 - 1, -1
        for name in swaps:
            base = offset_of(name)
            if name.endswith(LOG + SWAP) and base is not None:
                segment = LogSegment.open(
                    self._disk, self._folder, base, self._config, now_ms=self._now_ms, suffix=SWAP
                )
                begin = min(begin, base)
                end = max(end, *(batch.header.next_offset for _, batch in segment.batches()), base)
        return begin, end

    def _delete_orphaned_indexes(self, names: tuple[str, ...], bases: frozenset[int]) -> None:
        for name in names:
            if name.endswith((OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)) and offset_of(name) not in bases:
                log.warning("found an orphaned index file, with no corresponding log file", file=name)
                self._disk.delete(f"{self._folder}/{name}")

    def _read_topic_id(self, names: tuple[str, ...]) -> TopicId:
        if PARTITION_METADATA not in names:
            return NO_TOPIC_ID
        path = f"{self._folder}/{PARTITION_METADATA}"
        try:
            return decode_topic_id(path, self._disk.read(path) or b"")
        except MalformedPartitionMetadata as malformed:
            if self._had_clean_shutdown and any(segment.size for segment in self._segments):
                raise
            # It is flushed before the first record is appended, so a loss of power may have cut the file of an empty
            # log.
            log.warning("the topic id of a log is taken from the controller again", why=str(malformed))
            self._disk.delete(path)
            return NO_TOPIC_ID

    # ------------------------------------------------------------------ leader epochs and recovery

    def _read_epochs(self, names: tuple[str, ...]) -> bool:
        """Read the checkpoint of leader epochs; return whether it was there and whole."""
        if LEADER_EPOCH_CHECKPOINT not in names:
            return not any(segment.size for segment in self._segments)
        path = f"{self._folder}/{LEADER_EPOCH_CHECKPOINT}"
        text = self._disk.read(path) or b""
        try:
            # It is flushed with the records. A file that changed without them may be cut even after an orderly end.
            if not text.endswith(b"\n"):
                raise MalformedCheckpoint(f"{path} has no line end, as after a loss of power within a number")
            self._epochs = LeaderEpochCache(decode_epochs(path, text))
        except MalformedCheckpoint as malformed:
            log.warning("the checkpoint of leader epochs is made again from the log", why=str(malformed))
            return False
        return True

    def _rebuild_epochs(self) -> None:
        for segment in self._segments:
            for _, batch in segment.batches():
                self._note_epoch(batch.header)

    def _note_epoch(self, header: BatchHeader) -> None:
        """Let the epochs agree with a batch. An old checkpoint may have epochs of records that were truncated since.

        A batch of an earlier epoch than the one before removes the later one, as when it was appended: Kafka's
        checkpoint, which is flushed whenever an epoch begins, has them so.
        """
        epoch, offset = header.partition_leader_epoch, header.base_offset
        if epoch < 0 or epoch == self._epochs.epoch_of(offset):
            return
        self._epochs.truncate_from_end(offset)
        self._epochs.assign(epoch, offset)

    def _recover(self, recovery_point: int) -> None:
        """Check the segments that may not have been flushed; nothing stays behind a damaged batch or a lost one."""
        for place in range(place_of(self._segments, recovery_point), len(self._segments)):
            segment = self._segments[place]
            size, next_offset = segment.size, segment.base_offset
            for batch in segment.recover():
                self._note_epoch(batch.header)
                next_offset = batch.header.next_offset
            rest = self._segments[place + 1 :]
            if segment.size == size and (not rest or self._follows(rest[0], next_offset)):
                continue
            log.warning(
                "corruption found in segment, truncating",
                partition=str(self._topic_partition),
                base_offset=segment.base_offset,
                truncated=size - segment.size,
                segments_deleted=len(rest),
            )
            delete_last_first(self._disk, rest)
            if rest:
                # A second loss of power must not bring them back behind batches that are appended now.
                self._disk.flush_directory(self._folder)
            del self._segments[place + 1 :]
            return

    def _follows(self, segment: LogSegment, end_offset: int) -> bool:
        """Return whether a segment can follow batches that end at `end_offset`.

        A loss of power may have removed batches before it. In a log that is or was compacted they may have been removed
        on purpose, but only if everything was flushed before: below the recovery point.
        """
        if segment.base_offset == end_offset:
            return True
        is_compacted = self._config.is_compacted or self._first_dirty_offset is not None
        flushed_up_to = max(self._recovery_point, self._first_dirty_offset or 0)
        is_flushed = segment.base_offset <= flushed_up_to or self._is_flushed_end_unknown
        return is_compacted and end_offset < segment.base_offset and is_flushed
