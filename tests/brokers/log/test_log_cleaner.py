"""Tests of the task that compacts logs: what it chooses, when it gives up, what it writes, and its metrics."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

import pytest

from tests.brokers.log.parts import NOW_MS, batch
from tests.brokers.log.test_log_manager import WallClock
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.log.checkpoint_file import decode_offsets
from understudy.brokers.log.cleaner_metrics import CLEANER_MBEANS
from understudy.brokers.log.log_cleaner import LogCleaner
from understudy.brokers.log.log_manager import CLEANER_OFFSETS, LogManager
from understudy.brokers.log.partition_log import PartitionLog
from understudy.clusters.simulated.disk import SimulatedDisk
from understudy.foundation.cluster.identifiers import TopicId, TopicPartition
from understudy.foundation.records.batch import batches
from understudy.foundation.records.record import records

T = TypeVar("T")

TABLE_0, TABLE_1, EVENTS_0 = TopicPartition("table", 0), TopicPartition("table", 1), TopicPartition("events", 0)
COMPACT = {"cleanup.policy": "compact", "segment.bytes": "300", "index.interval.bytes": "0"}
CONFIGS = {"table": COMPACT, "events": {"segment.bytes": "300"}}


class Directory:
    """A directory of logs, and what happens between two steps of a compaction."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.clock = WallClock()
        self.config = KafkaConfig()
        self.between_steps: list[Callable[[], None]] = []
        self.start()

    def start(self, configs: Mapping[str, Mapping[str, str]] = CONFIGS) -> None:
        self.disk.end_process()
        self.logs = LogManager(
            disk=self.disk,
            config=lambda: self.config,
            clock=self.clock,
            random=random.Random(1),
            offload=self.offload,
        )
        asyncio.run(self.logs.load(configs))

    async def offload(self, work: Callable[[], T]) -> T:
        done = work()
        if self.between_steps:
            self.between_steps.pop(0)()
        return done

    @property
    def cleaner(self) -> LogCleaner:
        assert self.logs.cleaner is not None
        return self.logs.cleaner

    def append(self, topic_partition: TopicPartition = TABLE_0, count: int = 20, *, keys: int = 3) -> PartitionLog:
        log = self.logs.get_or_create(topic_partition)
        for offset in range(log.log_end_offset, log.log_end_offset + count):
            data = batch(b"x" * 20, offset=offset, timestamp=NOW_MS, leader_epoch=0, keys=[b"%d" % (offset % keys)])
            log.append_as_follower(data, now_ms=NOW_MS)
        log.update_high_watermark(log.log_end_offset)
        return log

    def clean(self) -> bool:
        return asyncio.run(self.cleaner.clean_dirtiest())

    def checkpoint(self) -> dict[TopicPartition, int]:
        return decode_offsets(CLEANER_OFFSETS, self.disk.read(CLEANER_OFFSETS) or b"0\n0\n")

    def strays(self, topic_partition: TopicPartition = TABLE_0) -> list[str]:
        folder = f"{topic_partition.topic}-{topic_partition.partition}"
        return [name for name in self.disk.list_folder(folder) if name.endswith((".cleaned", ".swap"))]


@pytest.fixture
def directory() -> Directory:
    return Directory()


def offsets(log: PartitionLog) -> list[int]:
    offset, found = log.log_start_offset, []
    while data := log.read(offset, 10_000, end_offset=log.log_end_offset):
        for each in batches(data):
            found += [record.offset for record in records(each)]
            offset = each.header.next_offset
    return found


def test_a_compacted_log_keeps_the_newest_record_of_each_key_and_its_active_segment(directory: Directory) -> None:
    log = directory.append()
    active = log.segments[-1].base_offset
    assert directory.clean()
    assert offsets(log) == [*range(active - 3, 20)]
    assert (log.log_start_offset, log.log_end_offset, log.first_dirty_offset) == (0, 20, active)
    assert directory.checkpoint() == {TABLE_0: active}
    assert directory.disk.read(CLEANER_OFFSETS) == b"0\n1\ntable 0 %d\n" % active
    assert not directory.clean(), "nothing is dirty"
    assert directory.strays() == []


def test_small_segments_become_one_in_the_next_compaction(directory: Directory) -> None:
    log = directory.append()
    directory.clean()
    emptied = [segment.base_offset for segment in log.segments[:-1] if segment.size == 0]
    assert emptied[0] == 0
    directory.append()
    before = len(log.segments)
    directory.clean()
    assert len(log.segments) <= before - len(emptied)
    assert offsets(log) == [*range(log.segments[-1].base_offset - 3, 40)]


def test_replaced_files_are_deleted_after_their_delay(directory: Directory) -> None:
    directory.append()
    directory.clean()

    def deleted() -> list[str]:
        return [name for name in directory.disk.list_folder("table-0") if name.endswith(".deleted")]

    assert deleted()
    directory.clock.now_ms += 60_000
    asyncio.run(directory.logs.delete_due())
    assert deleted() == []


def test_topics_that_are_deleted_are_not_compacted(directory: Directory) -> None:
    log = directory.append(EVENTS_0)
    assert not directory.clean()
    assert offsets(log) == [*range(20)]
    directory.logs.update_topic_config("events", COMPACT)
    assert directory.clean()


def test_a_topic_whose_config_is_unknown_is_not_compacted(directory: Directory) -> None:
    directory.config = replace(directory.config, log_cleanup_policy=("compact",))
    directory.append(EVENTS_0)
    directory.logs.topic_config_is_unknown("events")
    directory.logs.topic_config_is_unknown("table")
    assert not directory.clean()


def test_the_dirtiest_log_is_compacted_first(directory: Directory) -> None:
    log = directory.append(TABLE_0, 40)
    directory.clean()
    directory.append(TABLE_0, 40)
    other = directory.append(TABLE_1, 20)
    assert directory.clean()
    assert (log.first_dirty_offset or 0) < 40
    assert other.first_dirty_offset == other.segments[-1].base_offset


def test_a_start_goes_on_at_the_checkpoint(directory: Directory) -> None:
    log = directory.append()
    directory.clean()
    first_dirty = log.first_dirty_offset
    directory.start()
    assert directory.logs.logs[TABLE_0].first_dirty_offset == first_dirty
    assert not directory.clean()


def truncate(directory: Directory) -> None:
    directory.logs.logs[TABLE_0].truncate_to(5, now_ms=NOW_MS)


def truncate_fully(directory: Directory) -> None:
    directory.logs.logs[TABLE_0].truncate_fully_and_start_at(3, now_ms=NOW_MS)


def delete(directory: Directory) -> None:
    directory.logs.delete(TABLE_0)


def create_again(directory: Directory) -> None:
    directory.logs.delete(TABLE_0)
    directory.logs.get_or_create(TABLE_0)


def stop_compacting(directory: Directory) -> None:
    directory.logs.update_topic_config("table", {"segment.bytes": "300"})


@pytest.mark.parametrize(
    ("change", "end_offset"),
    [(truncate, 5), (truncate_fully, 3), (delete, None), (create_again, 0), (stop_compacting, 60)],
)
@pytest.mark.parametrize("steps", range(8))
def test_a_log_that_changes_while_it_is_compacted_is_given_up(
    directory: Directory, change: Callable[[Directory], None], end_offset: int | None, steps: int
) -> None:
    directory.config = replace(directory.config, log_cleaner_io_buffer_size=0)
    directory.append(count=60)
    directory.between_steps = [lambda: None] * steps + [lambda: change(directory)]
    directory.clean()
    assert directory.between_steps == [], "the log has changed meanwhile"
    assert directory.strays() == []
    assert TABLE_0 not in directory.checkpoint() or change in (truncate, truncate_fully)
    now = directory.logs.logs.get(TABLE_0)
    assert end_offset == (None if now is None else now.log_end_offset)
    if now is not None:
        assert offsets(now) == sorted(set(offsets(now)))
    assert not directory.cleaner.is_in_work(TABLE_0)


def test_a_truncation_below_the_first_dirty_offset_lowers_it(directory: Directory) -> None:
    log = directory.append()
    directory.clean()
    log.truncate_to(2, now_ms=NOW_MS)
    assert (log.first_dirty_offset, directory.checkpoint()) == (0, {TABLE_0: 0})


def append_of_producer(log: PartitionLog, key: bytes, sequence: int) -> None:
    data = batch(
        b"x",
        offset=log.log_end_offset,
        leader_epoch=0,
        keys=[key],
        producer_id=7 if sequence >= 0 else -1,
        producer_epoch=0 if sequence >= 0 else -1,
        base_sequence=sequence,
    )
    log.append_as_follower(data, now_ms=NOW_MS)


def lose_snapshot(directory: Directory) -> None:
    """Start without the snapshot at the beginning of the active segment, as after a loss of power."""
    directory.disk.delete("table-0/00000000000000000002.snapshot")
    directory.start()


def append_and_roll(directory: Directory) -> None:
    log = directory.logs.logs[TABLE_0]
    append_of_producer(log, b"b", 1)
    log.roll(now_ms=NOW_MS)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("flushed_before_roll", "then"),
    [(False, lose_snapshot), (False, append_and_roll), (True, lambda _: None)],
    ids=["an older snapshot was lost", "an older segment is not active", "nothing else to flush"],
)
def test_a_producer_is_known_whose_last_batch_is_lost_after_an_older_one_was_removed(
    directory: Directory, flushed_before_roll: bool, then: Callable[[Directory], None], seed: int
) -> None:
    log = directory.logs.get_or_create(TABLE_0)
    append_of_producer(log, b"a", 0)
    append_of_producer(log, b"a", -1)
    if flushed_before_roll:
        log.flush_now()
    log.roll(now_ms=NOW_MS)
    then(directory)
    log = directory.logs.logs[TABLE_0]
    append_of_producer(log, b"b", log.log_end_offset - 1)
    log.update_high_watermark(2)
    assert directory.clean()
    assert offsets(log)[0] == 1
    directory.disk.lose_power(random.Random(seed))
    directory.start()
    log = directory.logs.logs[TABLE_0]
    log.truncate_to(2, now_ms=NOW_MS)
    assert [(each.producer_id, each.last_sequence) for each in log.producers.entries()] == [(7, 0)]


def test_a_deleted_log_leaves_no_checkpoint_to_a_later_one(directory: Directory) -> None:
    directory.append()
    directory.clean()
    directory.logs.delete(TABLE_0)
    assert directory.checkpoint() == {}
    log = directory.logs.get_or_create(TABLE_0)
    log.assign_topic_id(TopicId("AAAAAAAAAAAAAAAAAAAAAQ"))
    assert log.first_dirty_offset is None


def test_a_checkpoint_outside_the_log_is_reset(directory: Directory) -> None:
    log = directory.append()
    directory.clean()
    log.maybe_increment_log_start_offset(19)
    directory.clean()
    assert log.first_dirty_offset == 19


def test_a_log_that_cannot_be_read_is_left_as_it_is(directory: Directory) -> None:
    log = directory.append()
    other = directory.append(TABLE_1)
    path = log.segments[1].path
    damaged = bytearray(directory.disk.read(path) or b"")
    damaged[-1] ^= 1
    directory.disk.write(path, bytes(damaged))
    assert directory.clean()
    assert directory.clean()
    assert not directory.clean()
    assert (log.first_dirty_offset, directory.strays()) == (None, [])
    assert other.first_dirty_offset is not None
    found = {reading.mbean.name: reading for reading in directory.cleaner.metrics.readings()}
    assert (found["uncleanable-partitions-count"].value, found["uncleanable-partitions-count"].tag) == (1, "/data")
    assert found["uncleanable-bytes"].value == sum(segment.size for segment in log.segments[:-1])
    directory.logs.delete(TABLE_0)
    directory.clean()
    assert directory.cleaner.metrics.uncleanable == 0


def test_a_disk_that_fails_ends_the_compaction(directory: Directory) -> None:
    directory.append()
    directory.disk.faults.fail("table-0/00000000000000000000.log.cleaned", "append", 28)
    with pytest.raises(OSError, match="No space"):
        directory.clean()


def test_more_keys_than_the_buffer_has_room_for_take_several_compactions(directory: Directory) -> None:
    directory.config = replace(directory.config, log_cleaner_dedupe_buffer_size=5 * 192)
    directory.logs.update_topic_config("table", {**COMPACT, "min.cleanable.dirty.ratio": "0"})
    log = directory.append(count=60, keys=12)
    active, rounds = log.segments[-1].base_offset, 0
    while directory.clean():
        rounds += 1
    assert rounds > 5
    assert log.first_dirty_offset == active
    assert offsets(log) == [*range(active - 12, 60)]


def test_retention_of_compacted_logs_is_left_to_the_cleaner(directory: Directory) -> None:
    directory.logs.update_topic_config("table", {**COMPACT, "cleanup.policy": "compact,delete", "retention.ms": "10"})
    log = directory.append()
    directory.clock.now_ms += 1_000
    asyncio.run(directory.logs.delete_old_segments())
    assert log.log_start_offset == 0
    asyncio.run(directory.logs.delete_old_segments(compacted=True))
    assert log.log_start_offset == 20


def test_without_the_cleaner_nothing_is_compacted(directory: Directory) -> None:
    directory.config = replace(directory.config, log_cleaner_enable=False)
    directory.start()
    assert directory.logs.cleaner is None
    log = directory.append()
    asyncio.run(directory.logs.delete_old_segments())
    assert offsets(log) == [*range(20)]


def test_the_metrics_say_what_the_last_compaction_did(directory: Directory) -> None:
    directory.append(count=40)
    directory.clean()
    directory.clock.now_ms += 5_000
    readings = list(directory.cleaner.metrics.readings())
    assert tuple(reading.mbean for reading in readings) == CLEANER_MBEANS
    found = {reading.mbean.name: reading.value for reading in readings}
    assert found["max-dirty-percent"] == 100
    assert found["time-since-last-run-ms"] == 5_000
    assert isinstance(found["cleaner-recopy-percent"], int)
    assert 0 < found["cleaner-recopy-percent"] < 30


def test_the_task_pauses_where_nothing_is_to_be_compacted(directory: Directory) -> None:
    directory.config = replace(directory.config, log_cleaner_backoff_ms=1)
    log = directory.append()

    async def run_until_cleaned() -> None:
        task = asyncio.create_task(directory.cleaner.run())
        while log.first_dirty_offset is None:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    asyncio.run(run_until_cleaned())
