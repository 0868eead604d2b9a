"""Compacts the logs of topics with `cleanup.policy=compact`, one after the other. Mirrors `LogCleaner`.

A log that is truncated or deleted while it is compacted, or is not to be compacted any more, is given up: nothing of
that compaction is swapped in afterwards. In Kafka truncation waits for the cleaner; here it never does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final

import structlog

from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.log.cleanable import Dirt, dirt_of, dirtiest, is_due
from understudy.brokers.log.cleaner_metrics import CleanerMetrics
from understudy.brokers.log.cleaning import Cleaned, Cleaning, CleaningPlan, CleaningStats, SegmentFile, Step
from understudy.brokers.log.io_throttle import IoThrottle
from understudy.brokers.log.partition_log import PartitionLog
from understudy.brokers.world import Disk, Offload
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord, UnsupportedMagic

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.log.LogCleaner")

_MIN_IO_BYTES: Final = 4096


class LogCleaner:
    """Chooses the dirtiest log, compacts it, and begins again; `run` is a long-lived task.

    Args:
        logs: returns the logs of the directory as they are now.
        config: returns the broker's configuration as it is now; a change counts from the next compaction on.
        prepare: flushes the closed segments of a log, and writes the checkpoints. What a compaction removes may be
            missing only if the records that replace it cannot be lost with the power.
        write_checkpoint: writes the first dirty offsets of all logs.
        with_deleted_files: called with a log that has files to be deleted after `file.delete.delay.ms`.
        delete_old_segments: deletes what retention no longer keeps of the logs that are compacted.

    Attributes:
        on_cleaned: called with a log before segments of it are replaced by a compacted one, which is given.
        metrics: of the last compaction, and of the logs that cannot be compacted.
    """

    def __init__(
        self,
        logs: Callable[[], Mapping[TopicPartition, PartitionLog]],
        *,
        disk: Disk,
        config: Callable[[], KafkaConfig],
        clock: Clock,
        offload: Offload,
        prepare: Callable[[PartitionLog], Awaitable[None]],
        write_checkpoint: Callable[[], None],
        with_deleted_files: Callable[[TopicPartition], None],
        delete_old_segments: Callable[[], Awaitable[None]],
    ) -> None:
        self._logs = logs
        self._disk = disk
        self._config = config
        self._clock = clock
        self._offload = offload
        self._prepare = prepare
        self._write_checkpoint = write_checkpoint
        self._with_deleted_files = with_deleted_files
        self._delete_old_segments = delete_old_segments
        self._throttle = IoThrottle(clock.monotonic_ms())
        self._in_work: TopicPartition | None = None
        self._uncleanable: dict[TopicPartition, PartitionLog] = {}
        self.metrics = CleanerMetrics(disk.directory, clock.monotonic_ms, self._uncleanable_bytes)
        self.on_cleaned: Callable[[PartitionLog, Cleaned], None] = lambda *_: None

    def is_in_work(self, topic_partition: TopicPartition) -> bool:
        """Return whether the segments of a log are being compacted, so that retention is to leave them alone."""
        return topic_partition == self._in_work

    async def run(self) -> None:
        """Compact logs without end; pause for `log.cleaner.backoff.ms` if no log needs it."""
        log.info("starting the log cleaner")
        while True:
            if not await self.clean_dirtiest():
                await asyncio.sleep(self._config().log_cleaner_backoff_ms / 1000)
            await self._delete_old_segments()

    async def clean_dirtiest(self) -> bool:
        """Compact the log of which most is dirty; return whether there was one.

        Raises:
            OSError: the disk fails or is full; the broker has to stop.
        """
        for topic_partition, known in tuple(self._uncleanable.items()):
            if self._logs().get(topic_partition) is not known:
                del self._uncleanable[topic_partition]
        chosen = self._choose()
        self.metrics.uncleanable = len(self._uncleanable)
        if chosen is None:
            return False
        opened, dirt = chosen
        self._in_work = opened.topic_partition
        try:
            await self._clean(opened, dirt)
        finally:
            self._in_work = None
        return True

    def _choose(self) -> tuple[PartitionLog, Dirt] | None:
        """Return the dirtiest log that is due; forget first dirty offsets outside their logs."""
        candidates = list(self._candidates())
        most = dirtiest(candidates)
        self.metrics.start_run(
            self._clock.monotonic_ms(),
            0.0 if most is None else most[1].ratio,
            [dirt.delay_ms for _, dirt in candidates],
        )
        return dirtiest((opened, dirt) for opened, dirt in candidates if is_due(dirt, opened.config))

    def _candidates(self) -> Iterator[tuple[PartitionLog, Dirt]]:
        now_ms = self._clock.wall_ms()
        for topic_partition, opened in self._logs().items():
            if not opened.config.is_compacted or topic_partition in self._uncleanable:
                continue
            try:
                dirt = self._dirt(opened, now_ms)
            except (CorruptRecord, InvalidRecord, UnsupportedMagic) as error:
                self._mark_uncleanable(opened, error)
                continue
            if dirt.is_reset:
                log.warning(
                    "resetting the first dirty offset, which is outside the log",
                    partition=str(topic_partition),
                    checkpoint=opened.first_dirty_offset,
                    log_start_offset=opened.log_start_offset,
                )
                opened.first_dirty_offset = dirt.first_dirty_offset
                self._write_checkpoint()
            if dirt.total_bytes > 0:
                yield opened, dirt

    def _dirt(self, opened: PartitionLog, now_ms: float) -> Dirt:
        return dirt_of(
            opened.segments,
            opened.config,
            checkpoint=opened.first_dirty_offset,
            log_start_offset=opened.log_start_offset,
            last_stable_offset=opened.last_stable_offset,
            log_end_offset=opened.log_end_offset,
            now_ms=now_ms,
        )

    def _mark_uncleanable(self, opened: PartitionLog, error: Exception) -> None:
        self._uncleanable[opened.topic_partition] = opened
        log.warning("a log cannot be compacted", partition=str(opened.topic_partition), why=str(error))

    def _uncleanable_bytes(self) -> int:
        now_ms, size = self._clock.wall_ms(), 0
        for opened in self._uncleanable.values():
            try:
                size += self._dirt(opened, now_ms).cleanable_bytes
            except (CorruptRecord, InvalidRecord, UnsupportedMagic):
                size += opened.size
        return size

    # ------------------------------------------------------------------ one compaction

    async def _clean(self, opened: PartitionLog, dirt: Dirt) -> None:
        """Compact a log, unless it changes meanwhile."""
        generation, started_ms = opened.generation, self._clock.monotonic_ms()

        def is_aborted() -> bool:
            return (
                self._logs().get(opened.topic_partition) is not opened
                or opened.generation != generation
                or not opened.config.is_compacted
            )

        name = str(opened.topic_partition)
        log.info(
            "beginning cleaning of log",
            partition=name,
            from_offset=dirt.first_dirty_offset,
            to_offset=dirt.first_uncleanable_offset,
        )
        await self._prepare(opened)
        if is_aborted():
            log.info("the cleaning of a log is aborted", partition=name)
            return
        cleaning = Cleaning(self._plan(opened, dirt), self._disk)
        try:
            is_complete = await self._work(opened, cleaning, is_aborted)
        except (OSError, CorruptRecord, InvalidRecord, UnsupportedMagic) as error:
            # Its files may have been truncated, deleted or renamed while another thread has read them.
            if not is_aborted():
                if isinstance(error, OSError):
                    raise
                self._mark_uncleanable(opened, error)
                return
            is_complete = False
        finally:
            cleaning.delete_unfinished()
        if not is_complete:
            log.info("the cleaning of a log is aborted", partition=name)
            return
        stats = cleaning.stats
        opened.first_dirty_offset = stats.end_offset
        self._write_checkpoint()
        self.metrics.finish_cleaning(stats, self._clock.monotonic_ms() - started_ms)
        self._report(name, dirt.first_dirty_offset, stats)

    def _plan(self, opened: PartitionLog, dirt: Dirt) -> CleaningPlan:
        config = self._config()
        threads = max(1, config.log_cleaner_threads)
        return CleaningPlan(
            folder=opened.folder,
            config=opened.config,
            dirt=dirt,
            segments=tuple(SegmentFile(each.base_offset, each.size, each.created_ms) for each in opened.segments),
            last_stable_offset=opened.last_stable_offset,
            last_records=opened.producers.last_records(),
            now_ms=self._clock.wall_ms(),
            buffer_bytes=config.log_cleaner_dedupe_buffer_size // threads,
            load_factor=config.log_cleaner_io_buffer_load_factor,
            io_bytes=max(_MIN_IO_BYTES, config.log_cleaner_io_buffer_size // threads // 2),
        )

    async def _work(self, opened: PartitionLog, cleaning: Cleaning, is_aborted: Callable[[], bool]) -> bool:
        """Do the steps of a compaction; return whether all of them were done."""
        steps = cleaning.steps()

        def next_step() -> Step | None:
            return next(steps, None)

        while True:
            step = await self._offload(next_step)
            if is_aborted():
                return False
            if step is None:
                return True
            if isinstance(step, Cleaned):
                self.on_cleaned(opened, step)
                opened.replace_segments(step.segment, step.base_offsets, now_ms=self._clock.wall_ms())
                self._with_deleted_files(opened.topic_partition)
            else:
                await self._pause(step.size)
                if is_aborted():
                    return False

    async def _pause(self, size: int) -> None:
        """Let other tasks run, for longer if `log.cleaner.io.max.bytes.per.second` would be exceeded."""
        pause_ms = self._throttle.pause_ms(
            size,
            now_ms=self._clock.monotonic_ms(),
            bytes_per_second=self._config().log_cleaner_io_max_bytes_per_second,
        )
        await asyncio.sleep(pause_ms / 1000)

    @staticmethod
    def _report(name: str, from_offset: int, stats: CleaningStats) -> None:
        log.info(
            "log cleaned",
            partition=name,
            from_offset=from_offset,
            to_offset=stats.end_offset,
            records_read=stats.counts.records_read,
            records_kept=stats.counts.records_kept,
            bytes_read=stats.counts.bytes_read,
            bytes_written=stats.counts.bytes_written,
        )
        if stats.counts.without_key:
            log.warning("records without a key were removed", partition=name, records=stats.counts.without_key)
