"""Opens, creates, deletes, flushes and closes the logs of this broker's log directory. Mirrors `kafka.log.LogManager`.

Checkpoints of the directory hold an offset for each partition: `recovery-point-offset-checkpoint` up to where its log
is flushed, `log-start-offset-checkpoint` where it begins, `replication-offset-checkpoint` its high watermark,
`cleaner-offset-checkpoint` up to where it is compacted. `.kafka_cleanshutdown` marks that all logs were closed in
order; without it the logs are recovered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Final, Unpack

import structlog
from msgspec.structs import replace

from understudy.brokers.config.kafka_config import MAX_LONG, KafkaConfig
from understudy.brokers.config.log_config import LogConfig, log_config
from understudy.brokers.log.checkpoint_file import MalformedCheckpoint, decode_offsets, encode_offsets
from understudy.brokers.log.flush_plan import FlushPlan
from understudy.brokers.log.log_cleaner import LogCleaner
from understudy.brokers.log.log_files import (
    DELETE_FOLDER,
    FUTURE_FOLDER,
    STRAY_FOLDER,
    folder_name,
    is_partition_folder,
    partition_of,
    renamed_folder,
)
from understudy.brokers.log.log_loader import Checkpoints
from understudy.brokers.log.partition_log import PartitionLog
from understudy.brokers.log.partition_metadata import MalformedPartitionMetadata
from understudy.brokers.world import Disk, Offload
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord, UnsupportedMagic

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.log.LogManager")

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"

EVERY_REPLICA: Final = 2**31 - 1

DELETION_CHECK_MS: Final = 1_000
"""Maximum time between looks for files and folders whose deletion is due."""


class LogUnusable(Exception):
    """The log of a partition cannot be opened. The message names it and the reason."""


class LogManager:
    """The logs of one log directory. The `run_…` methods are long-lived tasks, and so is the `run` of the cleaner.

    Args:
        config: returns the broker's configuration as it is now.

    Attributes:
        cleaner: compacts logs; None with `log.cleaner.enable=false`.
        on_log_start_raised: called for a log of which retention has deleted segments.
    """

    def __init__(
        self, *, disk: Disk, config: Callable[[], KafkaConfig], clock: Clock, random: Random, offload: Offload
    ) -> None:
        self._disk = disk
        self._config = config
        self._clock = clock
        self._random = random
        self._offload = offload
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._overrides: dict[str, Mapping[str, str]] = {}
        self._unknown: set[str] = set()
        """The topics whose own configuration could not be read."""
        self._configs: dict[str, LogConfig] = {}
        self._deleted_folders: list[tuple[float, str]] = []
        self._written: dict[str, bytes] = {}
        """The content of each checkpoint as it was written last."""
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._with_deleted_files: set[TopicPartition] = set()
        """The logs that have removed segments whose files are to be deleted."""
        self.on_log_start_raised: Callable[[TopicPartition], None] = lambda _: None
        self.cleaner: LogCleaner | None = None
        if config().log_cleaner_enable:
            self.cleaner = LogCleaner(
                lambda: self._logs,
                disk=disk,
                config=config,
                clock=clock,
                offload=offload,
                prepare=self._prepare_cleaning,
                write_checkpoint=self._write_cleaner_offsets,
                with_deleted_files=self._with_deleted_files.add,
                delete_old_segments=lambda: self.delete_old_segments(compacted=True),
            )

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        return self._logs

    # ------------------------------------------------------------------ start and end

    def topics_on_disk(self) -> list[str]:
        """Return the topics that have a folder in the directory, sorted."""
        return sorted({topic for topic, _ in self._folders()})

    def _folders(self) -> dict[TopicPartition, str]:
        """Return the folders of logs that are in use, by partition."""
        return {
            partition_of(name): name
            for name in self._disk.list_folder("")
            if is_partition_folder(name)
            and not name.endswith((DELETE_FOLDER, STRAY_FOLDER, FUTURE_FOLDER))
            and self._disk.is_folder(name)
        }

    async def load(self, overrides: Mapping[str, Mapping[str, str]]) -> None:
        """Open all logs of the directory; recover them if the broker has not closed them.

        Args:
            overrides: the topics' own configurations, as texts.

        Raises:
            LogUnusable: a log is damaged that was flushed, or cannot be read.
            OSError: the disk fails.
        """
        self._overrides = dict(overrides)
        disk = self._disk
        had_clean_shutdown = disk.read(CLEAN_SHUTDOWN) is not None
        # Deleted first: a broker that ends while it loads has not ended in order.
        disk.delete(CLEAN_SHUTDOWN)
        disk.flush_directory("")
        recovery_points = self._checkpoint(RECOVERY_POINTS)
        log_start_offsets = self._checkpoint(LOG_START_OFFSETS) or {}
        first_dirty_offsets = self._checkpoint(CLEANER_OFFSETS) or {}
        self._high_watermarks = self._checkpoint(HIGH_WATERMARKS) or {}
        now_ms = self._clock.wall_ms()
        for name in disk.list_folder(""):
            if name.endswith(DELETE_FOLDER) and is_partition_folder(name):
                self._deleted_folders.append((now_ms, name))
        partitions = self._folders()
        configs = {topic: self.log_config(topic) for topic, _ in partitions}

        def open_all() -> dict[TopicPartition, PartitionLog]:
            return {
                topic_partition: self._open(
                    topic_partition,
                    folder,
                    configs[topic_partition.topic],
                    now_ms,
                    had_clean_shutdown=had_clean_shutdown,
                    recovery_point=(recovery_points or {}).get(topic_partition, 0),
                    log_start_offset=log_start_offsets.get(topic_partition, 0),
                    first_dirty_offset=first_dirty_offsets.get(topic_partition),
                    is_flushed_end_unknown=recovery_points is None,
                )
                for topic_partition, folder in sorted(partitions.items())
            }

        if partitions:
            log.info(
                "loading logs", directory=disk.directory, logs=len(partitions), had_clean_shutdown=had_clean_shutdown
            )
        self._logs = await self._offload(open_all)
        for topic_partition, opened in self._logs.items():
            opened.update_high_watermark(self._high_watermarks.get(topic_partition, 0))
        # Logs may have lost what a checkpoint states as flushed, and it must not be taken for flushed when it is
        # appended again.
        self._write_offsets()

    def _open(
        self,
        topic_partition: TopicPartition,
        folder: str,
        config: LogConfig,
        now_ms: float,
        *,
        had_clean_shutdown: bool,
        **checkpoints: Unpack[Checkpoints],
    ) -> PartitionLog:
        try:
            return PartitionLog.load(
                topic_partition,
                disk=self._disk,
                folder=folder,
                config=config,
                producer_expiration_ms=self._config().producer_id_expiration_ms,
                now_ms=now_ms,
                had_clean_shutdown=had_clean_shutdown,
                **checkpoints,
                on_offsets_changed=self._write_offsets,
            )
        except (CorruptRecord, InvalidRecord, UnsupportedMagic, MalformedPartitionMetadata) as error:
            where = f"{self._disk.directory}/{folder}"
            raise LogUnusable(
                f"the log of {topic_partition} in {where} cannot be opened: {error}. Move the folder away to let the "
                "replica be copied from its leader again"
            ) from error

    def _checkpoint(self, name: str) -> dict[TopicPartition, int] | None:
        """Read a checkpoint of the directory; None if it is missing or damaged."""
        text = self._disk.read(name)
        if text is None:
            return None
        try:
            return decode_offsets(name, text)
        except MalformedCheckpoint as malformed:
            log.warning("a checkpoint is not used", directory=self._disk.directory, why=str(malformed))
            return None

    async def close(self, broker_epoch: int) -> None:
        """Flush and close all logs, write the checkpoints, and mark that this was done in order.

        Raises:
            OSError: the disk fails; the next start recovers the logs.
        """
        plans = [(opened, plan) for opened in self._logs.values() if (plan := opened.close()) is not None]
        await self._flush(plans)
        await self.checkpoint_high_watermarks()
        self._write_offsets()
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
        self._disk.write(CLEAN_SHUTDOWN, content)
        self._disk.flush_directory("")

    # ------------------------------------------------------------------ logs

    def get_or_create(self, topic_partition: TopicPartition) -> PartitionLog:
        """Return the log of a partition; create it if there is none.

        Raises:
            OSError: the disk fails or is full.
        """
        found = self._logs.get(topic_partition)
        if found is None:
            config = self.log_config(topic_partition.topic)
            folder, now_ms = folder_name(topic_partition), self._clock.wall_ms()
            found = self._open(topic_partition, folder, config, now_ms, had_clean_shutdown=True)
            found.update_high_watermark(self._high_watermarks.get(topic_partition, 0))
            self._logs[topic_partition] = found
        return found

    def delete(self, topic_partition: TopicPartition) -> None:
        """Remove a log: its folder is renamed, and deleted after `file.delete.delay.ms`. Harmless if there is none.

        Raises:
            OSError: the disk fails.
        """
        removed = self._logs.pop(topic_partition, None)
        self._high_watermarks.pop(topic_partition, None)
        if removed is None:
            return
        folder = renamed_folder(topic_partition, f"{self._random.getrandbits(128):032x}", DELETE_FOLDER)
        self._disk.rename(removed.folder, folder)
        due_ms = self._clock.wall_ms() + removed.config.file_delete_delay_ms
        self._deleted_folders.append((due_ms, folder))
        if removed.first_dirty_offset is not None:
            # A later log of the same name is not compacted up to there.
            self._write_cleaner_offsets()
        log.info("log is renamed and scheduled for deletion", partition=str(topic_partition), folder=folder)

    def update_topic_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Apply the configuration of a topic; empty if it has none of its own."""
        self._unknown.discard(topic)
        self._overrides[topic] = dict(overrides)
        self._reconfigure(topic)

    def topic_config_is_unknown(self, topic: str) -> None:
        """Apply the broker's defaults to a topic's logs, but remove nothing, and let all replicas acknowledge records.

        `update_topic_config` ends that.
        """
        self._unknown.add(topic)
        self._reconfigure(topic)

    def reconfigure(self) -> None:
        """Apply the broker's changed configuration to all logs."""
        self._configs.clear()
        for topic in sorted({topic_partition.topic for topic_partition in self._logs}):
            self._reconfigure(topic)

    def _reconfigure(self, topic: str) -> None:
        self._configs.pop(topic, None)
        config = self.log_config(topic)
        for topic_partition, opened in self._logs.items():
            if topic_partition.topic == topic:
                opened.use_config(config)

    def log_config(self, topic: str) -> LogConfig:
        """Return the configuration of a topic's logs: its own, or the broker's if it has none."""
        config = self._configs.get(topic)
        if config is None:
            config = log_config(topic, self._overrides.get(topic, {}), self._config())
            if topic in self._unknown:
                config = replace(
                    config,
                    min_insync_replicas=EVERY_REPLICA,
                    retention_ms=-1,
                    retention_bytes=-1,
                    min_cleanable_dirty_ratio=1.0,
                    max_compaction_lag_ms=MAX_LONG,
                )
            self._configs[topic] = config
        return config

    # ------------------------------------------------------------------ tasks

    async def run_retention(self) -> None:
        """Delete old segments every `log.retention.check.interval.ms`, without end; the first time after 30 s."""
        await asyncio.sleep(self._config().log_initial_task_delay_ms / 1000)
        while True:
            await self.delete_old_segments()
            await asyncio.sleep(self._config().log_retention_check_interval_ms / 1000)

    async def run_checkpoints(self) -> None:
        """Flush closed segments, and write checkpoints of flushed offsets and of log start offsets, without end."""
        while True:
            await asyncio.sleep(self._config().log_flush_offset_checkpoint_interval_ms / 1000)
            await self.checkpoint()

    async def run_high_watermark_checkpoints(self) -> None:
        """Write the high watermarks every `replica.high.watermark.checkpoint.interval.ms`, without end."""
        while True:
            await asyncio.sleep(self._config().replica_high_watermark_checkpoint_interval_ms / 1000)
            await self.checkpoint_high_watermarks()

    async def run_deletions(self) -> None:
        """Delete the files and folders of what was removed when they are due, without end."""
        while True:
            await asyncio.sleep(DELETION_CHECK_MS / 1000)
            await self.delete_due()

    async def delete_old_segments(self, *, compacted: bool = False) -> None:
        """Delete the segments that retention no longer keeps. Other tasks run in between.

        Args:
            compacted: whether of the logs that are compacted, which is for the cleaner to do, or of the others.
        """
        chosen = [each for each in self._logs.items() if each[1].config.is_compacted is compacted]
        for place, (topic_partition, opened) in enumerate(chosen):
            opened.producers.remove_expired(int(self._clock.wall_ms()))
            if opened.config.is_compacted is not compacted or self._is_in_work(topic_partition):
                continue
            deleted = opened.delete_old_segments(self._clock.wall_ms())
            if deleted:
                self._with_deleted_files.add(topic_partition)
                self.on_log_start_raised(topic_partition)
                log.info("old segments deleted", partition=str(topic_partition), segments=deleted)
            if deleted or place % 100 == 99:
                await asyncio.sleep(0)

    def _is_in_work(self, topic_partition: TopicPartition) -> bool:
        return self.cleaner is not None and self.cleaner.is_in_work(topic_partition)

    async def _prepare_cleaning(self, opened: PartitionLog) -> None:
        """Flush the closed segments of a log, and write up to where it is flushed."""
        plan = opened.flush_plan()
        if plan is not None:
            await self._flush([(opened, plan)])
        self._write_offsets()

    async def checkpoint(self) -> None:
        """Flush closed segments; then write the recovery points and log start offsets."""
        plans = [(opened, plan) for opened in self._logs.values() if (plan := opened.flush_plan()) is not None]
        await self._flush(plans)
        self._write_offsets()

    async def checkpoint_high_watermarks(self) -> None:
        """Write the high watermark of every log."""
        text = encode_offsets({each: opened.high_watermark for each, opened in self._logs.items()})
        await self._offload(lambda: self._write(HIGH_WATERMARKS, text))

    async def delete_due(self) -> None:
        now_ms = self._clock.wall_ms()
        for topic_partition in sorted(self._with_deleted_files):
            opened = self._logs.get(topic_partition)
            if opened is None or not opened.delete_due_files(now_ms):
                self._with_deleted_files.discard(topic_partition)
        due = [folder for due_ms, folder in self._deleted_folders if due_ms <= now_ms]
        if due:
            self._deleted_folders = [each for each in self._deleted_folders if each[1] not in due]

            def delete() -> None:
                for folder in due:
                    self._disk.delete_folder(folder)

            await self._offload(delete)

    async def _flush(self, plans: list[tuple[PartitionLog, FlushPlan]]) -> None:
        if not plans:
            return

        def run() -> None:
            for _, plan in plans:
                plan.run(self._disk)
            # Folders that were created since are made durable as well.
            self._disk.flush_directory("")

        await self._offload(run)
        for opened, plan in plans:
            opened.mark_flushed(plan)

    def _log_start_offsets(self) -> dict[TopicPartition, int]:
        """The beginnings of logs whose first segment begins before them."""
        return {
            topic_partition: opened.log_start_offset
            for topic_partition, opened in self._logs.items()
            if opened.log_start_offset > opened.segments[0].base_offset
        }

    def _write_offsets(self) -> None:
        """Write the recovery points and log start offsets, and wait for the disk.

        Not on another thread: after a truncation they must be on disk before anything is appended, and an older
        content must not replace them. They change once a minute at most, but for truncations.
        """
        recovery_points = {topic_partition: opened.recovery_point for topic_partition, opened in self._logs.items()}
        self._write(RECOVERY_POINTS, encode_offsets(recovery_points))
        self._write(LOG_START_OFFSETS, encode_offsets(self._log_start_offsets()))
        self._write_cleaner_offsets()

    def _write_cleaner_offsets(self) -> None:
        offsets = {
            topic_partition: opened.first_dirty_offset
            for topic_partition, opened in self._logs.items()
            if opened.first_dirty_offset is not None
        }
        if offsets or CLEANER_OFFSETS in self._written or self._disk.size(CLEANER_OFFSETS) is not None:
            self._write(CLEANER_OFFSETS, encode_offsets(offsets))

    def _write(self, name: str, text: bytes) -> None:
        if self._written.get(name) != text:
            self._disk.write(name, text)
            self._written[name] = text
