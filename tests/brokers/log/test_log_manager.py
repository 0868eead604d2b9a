"""Tests of the logs of one directory: load, checkpoints, ends of the process, deletion, configuration, retention."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import pytest

from tests.brokers.log.parts import NOW_MS, ORDERS_0, batch
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.log.checkpoint_file import decode_offsets, encode_offsets
from understudy.brokers.log.log_manager import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    LogManager,
    LogUnusable,
)
from understudy.brokers.world import at_once
from understudy.clusters.simulated.disk import SimulatedDisk
from understudy.foundation.cluster.identifiers import TopicPartition

ORDERS_1 = TopicPartition("orders", 1)
SMALL: Mapping[str, Mapping[str, str]] = {"orders": {"segment.bytes": "200", "index.interval.bytes": "0"}}


class WallClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ms = float(NOW_MS)

    def wall_ms(self) -> float:
        return self.now_ms

    def monotonic_ms(self) -> float:
        return self.now_ms


class Directory:
    """A directory with its log manager, which can be ended and started again."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.clock = WallClock()
        self.config = KafkaConfig()
        self.logs = self.manager()

    def manager(self) -> LogManager:
        return LogManager(
            disk=self.disk, config=lambda: self.config, clock=self.clock, random=random.Random(1), offload=at_once
        )

    def start(self, overrides: Mapping[str, Mapping[str, str]] = SMALL) -> LogManager:
        self.disk.end_process()
        self.logs = self.manager()
        asyncio.run(self.logs.load(overrides))
        return self.logs

    def append(self, topic_partition: TopicPartition, count: int) -> None:
        log = self.logs.get_or_create(topic_partition)
        for offset in range(log.log_end_offset, log.log_end_offset + count):
            log.append_as_follower(batch(bytes(50), offset=offset, leader_epoch=0), now_ms=NOW_MS)
        log.update_high_watermark(log.log_end_offset)

    def checkpoint(self, name: str) -> dict[TopicPartition, int]:
        return decode_offsets(name, self.disk.read(name) or b"0\n0\n")


@pytest.fixture
def directory() -> Directory:
    started = Directory()
    started.start()
    return started


def test_an_orderly_end_leaves_a_marker_with_the_broker_epoch_and_checkpoints(directory: Directory) -> None:
    directory.append(ORDERS_0, 5)
    directory.logs.get_or_create(ORDERS_0).maybe_increment_log_start_offset(1)
    directory.append(ORDERS_1, 1)
    asyncio.run(directory.logs.close(7))
    assert directory.disk.read(CLEAN_SHUTDOWN) == b'{"version":0,"brokerEpoch":7}'
    assert directory.checkpoint(RECOVERY_POINTS) == {ORDERS_0: 5, ORDERS_1: 1}
    assert directory.checkpoint(HIGH_WATERMARKS) == {ORDERS_0: 5, ORDERS_1: 1}
    assert directory.checkpoint(LOG_START_OFFSETS) == {ORDERS_0: 1}
    for seed in range(5):
        directory.disk.lose_power(random.Random(seed))
    logs = directory.start().logs
    assert {each: (log.log_start_offset, log.high_watermark, log.log_end_offset) for each, log in logs.items()} == {
        ORDERS_0: (1, 5, 5),
        ORDERS_1: (0, 1, 1),
    }
    assert directory.disk.read(CLEAN_SHUTDOWN) is None, "the next end is not in order until it is"


def test_an_unclean_end_loses_nothing_that_was_appended(directory: Directory) -> None:
    directory.append(ORDERS_0, 9)
    asyncio.run(directory.logs.checkpoint())
    asyncio.run(directory.logs.checkpoint_high_watermarks())
    directory.append(ORDERS_0, 4)
    log = directory.start().logs[ORDERS_0]
    assert (log.high_watermark, log.log_end_offset) == (9, 13)
    assert 0 < log.recovery_point < 13


def test_a_checkpoint_flushes_closed_segments(directory: Directory) -> None:
    directory.append(ORDERS_0, 9)
    active = directory.logs.logs[ORDERS_0].segments[-1].base_offset
    asyncio.run(directory.logs.checkpoint())
    assert directory.checkpoint(RECOVERY_POINTS) == {ORDERS_0: active}
    for seed in range(10):
        directory.disk.lose_power(random.Random(seed))
        assert directory.start().logs[ORDERS_0].log_end_offset >= active


@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS])
@pytest.mark.parametrize("text", [b"", b"7\n0\n", b"0\n1\norders 0 x\n", b"\xff"])
def test_a_malformed_checkpoint_is_not_used(directory: Directory, name: str, text: bytes) -> None:
    directory.append(ORDERS_0, 9)
    asyncio.run(directory.logs.close(1))
    directory.disk.delete(CLEAN_SHUTDOWN)
    directory.disk.write(name, text)
    log = directory.start().logs[ORDERS_0]
    assert log.log_end_offset == 9
    assert log.high_watermark == (0 if name == HIGH_WATERMARKS else 9)


def test_a_high_watermark_beyond_the_log_is_its_end(directory: Directory) -> None:
    directory.append(ORDERS_0, 3)
    directory.disk.write(HIGH_WATERMARKS, encode_offsets({ORDERS_0: 50}))
    assert directory.start().logs[ORDERS_0].high_watermark == 3


def test_a_truncation_lowers_the_checkpoints_before_anything_is_appended(directory: Directory) -> None:
    directory.append(ORDERS_0, 9)
    asyncio.run(directory.logs.close(1))
    assert directory.checkpoint(RECOVERY_POINTS) == {ORDERS_0: 9}
    log = directory.start().logs[ORDERS_0]
    log.maybe_increment_log_start_offset(8)
    asyncio.run(directory.logs.checkpoint())
    assert directory.checkpoint(LOG_START_OFFSETS) == {ORDERS_0: 8}
    log.truncate_to(4, now_ms=NOW_MS)
    assert directory.checkpoint(RECOVERY_POINTS) == {ORDERS_0: 4}
    assert directory.checkpoint(LOG_START_OFFSETS) == {ORDERS_0: 4}


def test_a_log_that_lost_what_was_checkpointed_lowers_the_checkpoint_when_it_is_loaded(directory: Directory) -> None:
    directory.append(ORDERS_0, 2)
    directory.disk.write(RECOVERY_POINTS, encode_offsets({ORDERS_0: 50}))
    directory.start()
    assert directory.checkpoint(RECOVERY_POINTS) == {ORDERS_0: 2}


def test_a_damaged_log_that_was_closed_in_order_is_named(directory: Directory) -> None:
    directory.append(ORDERS_0, 1)
    asyncio.run(directory.logs.close(1))
    path = "orders-0/00000000000000000000.log"
    data = bytearray(directory.disk.read(path) or b"")
    data[16] = 9
    directory.disk.write(path, bytes(data))
    with pytest.raises(LogUnusable, match=r"the log of orders-0 in /data/orders-0 cannot be opened"):
        directory.start()


# ------------------------------------------------------------------ folders


def test_folders_that_belong_to_no_partition_are_ignored(directory: Directory) -> None:
    directory.append(ORDERS_0, 1)
    for name in ("events", "lost+found", "orders-x", "-3", "orders-5.0123-stray", "orders-6.0123-future"):
        directory.disk.make_folder(name)
    directory.disk.write("orders-9", b"a file")
    logs = directory.start()
    assert set(logs.logs) == {ORDERS_0}
    assert logs.topics_on_disk() == ["orders"]
    assert directory.disk.is_folder("events")
    assert directory.disk.is_folder("lost+found")


@pytest.mark.parametrize("restart", [False, True])
def test_a_deleted_log_is_renamed_and_deleted_after_the_delay(directory: Directory, restart: bool) -> None:
    directory.append(ORDERS_0, 3)
    asyncio.run(directory.logs.checkpoint_high_watermarks())
    directory.logs.delete(ORDERS_0)
    directory.logs.delete(ORDERS_1)
    (renamed,) = (name for name in directory.disk.list_folder("") if name.endswith("-delete"))
    assert renamed.startswith("orders-0.")
    assert ORDERS_0 not in directory.logs.logs
    again = directory.logs.get_or_create(ORDERS_0)
    assert (again.log_end_offset, again.high_watermark) == (0, 0), "a topic of the same name is empty"
    if restart:
        directory.start()
    else:
        directory.clock.now_ms += 59_000
        asyncio.run(directory.logs.delete_due())
        assert directory.disk.is_folder(renamed)
        directory.clock.now_ms += 1_000
    asyncio.run(directory.logs.delete_due())
    assert not directory.disk.is_folder(renamed)
    assert directory.disk.is_folder("orders-0")


def test_a_log_that_is_closed_and_opened_again_is_written_only_where_it_changed(directory: Directory) -> None:
    directory.append(ORDERS_0, 3)
    asyncio.run(directory.logs.close(1))
    directory.start()
    directory.disk.faults.fail("orders-0", "write", 5)
    asyncio.run(directory.logs.close(2))


# ------------------------------------------------------------------ configuration and retention


def test_a_changed_topic_config_applies_to_its_logs(directory: Directory) -> None:
    directory.append(ORDERS_0, 1)
    assert directory.logs.logs[ORDERS_0].config.segment_bytes == 200
    directory.logs.update_topic_config("orders", {"segment.bytes": "1000"})
    directory.append(ORDERS_0, 5)
    assert len(directory.logs.logs[ORDERS_0].segments) == 1
    directory.logs.update_topic_config("orders", {})
    assert directory.logs.get_or_create(ORDERS_1).config.segment_bytes == KafkaConfig().log_segment_bytes


def test_retention_deletes_old_segments_and_their_files_after_the_delay(directory: Directory) -> None:
    directory.append(ORDERS_0, 9)
    log = directory.logs.logs[ORDERS_0]
    last = log.segments[-1].base_offset
    directory.logs.update_topic_config("orders", {**SMALL["orders"], "retention.bytes": "150"})
    asyncio.run(directory.logs.delete_old_segments())
    assert log.log_start_offset == log.segments[0].base_offset > 0
    assert last >= log.log_start_offset
    deleted = [name for name in directory.disk.list_folder("orders-0") if name.endswith(".deleted")]
    assert deleted
    asyncio.run(directory.logs.delete_due())
    assert [name for name in directory.disk.list_folder("orders-0") if name.endswith(".deleted")] == deleted
    directory.clock.now_ms += 60_000
    asyncio.run(directory.logs.delete_due())
    assert not [name for name in directory.disk.list_folder("orders-0") if name.endswith(".deleted")]


def test_retention_by_time_rolls_the_active_segment(directory: Directory) -> None:
    directory.append(ORDERS_0, 2)
    directory.clock.now_ms += 8 * 24 * 60 * 60 * 1000
    asyncio.run(directory.logs.delete_old_segments())
    log = directory.logs.logs[ORDERS_0]
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (2, 2, 1)
    assert directory.start().logs[ORDERS_0].log_end_offset == 2


def test_the_active_segment_stays_for_its_log_start_offset_alone(directory: Directory) -> None:
    directory.append(ORDERS_0, 2)
    log = directory.logs.logs[ORDERS_0]
    log.maybe_increment_log_start_offset(2)
    asyncio.run(directory.logs.delete_old_segments())
    assert [segment.base_offset for segment in log.segments] == [1]
    assert log.size > 0
