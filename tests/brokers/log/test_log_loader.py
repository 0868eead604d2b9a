"""Tests of what a log's folder may have after an end of the process: unfinished swaps, orphans, damaged checkpoints."""

from __future__ import annotations

import errno
import random

import pytest

from tests.brokers.log.parts import A_DAY_MS, NOW_MS, batch, config, open_log
from understudy.brokers.log.checkpoint_file import EpochEntry
from understudy.brokers.log.log_loader import Checkpoints
from understudy.brokers.log.partition_log import PartitionLog
from understudy.brokers.log.partition_metadata import MalformedPartitionMetadata
from understudy.clusters.simulated.disk import SimulatedDisk
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.records.batch import read_header

FOLDER = "orders-0"
TOPIC_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAQ")
ONE_BATCH_EACH = config(segment_bytes=110, index_interval_bytes=0)


def with_batches(disk: SimulatedDisk, count: int = 4) -> list[bytes]:
    """A log that was not closed, with a batch of three records in each segment."""
    log = open_log(disk, log_config=ONE_BATCH_EACH)
    data = [batch(b"a", b"b", b"c", offset=3 * place, leader_epoch=place // 2) for place in range(count)]
    for each in data:
        log.append_as_follower(each, now_ms=NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [3 * place for place in range(count)]
    return data


def loaded(
    disk: SimulatedDisk, *, had_clean_shutdown: bool = False, recovery_point: int = 0, log_start_offset: int = 0
) -> PartitionLog:
    return open_log(
        disk,
        log_config=ONE_BATCH_EACH,
        had_clean_shutdown=had_clean_shutdown,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
    )


def contents(log: PartitionLog) -> list[bytes]:
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        data = bytes(log.read(offset, 1, end_offset=log.log_end_offset, min_one=True))
        found.append(data)
        offset = read_header(data).next_offset
    return found


def name(offset: int, suffix: str) -> str:
    return f"{FOLDER}/{offset:020d}{suffix}"


def test_a_new_folder_gets_one_empty_segment_at_the_log_start_offset() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, log_start_offset=7)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (7, 7, 7)
    assert disk.list_folder(FOLDER) == ("00000000000000000007.log",)


def test_a_complete_swap_replaces_the_segments_that_it_spans() -> None:
    disk = SimulatedDisk()
    data = with_batches(disk)
    for suffix in (".log", ".index", ".timeindex"):
        disk.write(f"{name(0, suffix)}.swap", b"".join(data[:2]) if suffix == ".log" else b"")
    log = loaded(disk)
    assert [segment.base_offset for segment in log.segments] == [0, 6, 9]
    assert contents(log) == data
    assert not [each for each in disk.list_folder(FOLDER) if each.endswith(".swap")]


def test_a_swap_beside_cleaned_files_at_or_before_it_is_undone() -> None:
    disk = SimulatedDisk()
    data = with_batches(disk)
    disk.write(f"{name(6, '.log')}.swap", b"".join(data[2:3]))
    disk.write(f"{name(3, '.log')}.cleaned", b"half done")
    disk.write(f"{name(3, '.index')}.cleaned", b"")
    log = loaded(disk)
    assert contents(log) == data
    assert not [each for each in disk.list_folder(FOLDER) if each.endswith((".swap", ".cleaned"))]


def test_deleted_files_and_orphaned_indexes_are_removed() -> None:
    disk = SimulatedDisk()
    data = with_batches(disk)
    for path in (f"{name(0, '.log')}.deleted", name(99, ".index"), name(99, ".timeindex"), name(99, ".txnindex")):
        disk.write(path, b"x")
    disk.write(f"{FOLDER}/notes.txt", b"not ours")
    log = loaded(disk)
    assert contents(log) == data
    names = disk.list_folder(FOLDER)
    assert not [each for each in names if each.endswith(".deleted") or each.startswith("0" * 18 + "99")]
    assert "notes.txt" in names


@pytest.mark.parametrize("had_clean_shutdown", [False, True])
def test_a_log_that_ends_before_its_start_begins_anew(had_clean_shutdown: bool) -> None:
    disk = SimulatedDisk()
    with_batches(disk)
    log = loaded(disk, log_start_offset=50, had_clean_shutdown=had_clean_shutdown)
    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (50, 50, ())
    log.append_as_follower(batch(b"x", offset=50, leader_epoch=9), now_ms=NOW_MS)
    assert contents(loaded(disk, log_start_offset=50)) == [batch(b"x", offset=50, leader_epoch=9)]


@pytest.mark.parametrize("had_clean_shutdown", [False, True])
@pytest.mark.parametrize("text", [None, b"", b"x", b"0\n2\n0 0\n", b"0\n1\nx y\n"])
def test_missing_or_damaged_epochs_are_made_again(text: bytes | None, had_clean_shutdown: bool) -> None:
    disk = SimulatedDisk()
    with_batches(disk)
    path = f"{FOLDER}/leader-epoch-checkpoint"
    before = disk.read(path)
    if text is None:
        disk.delete(path)
    else:
        disk.write(path, text)
    log = loaded(disk, had_clean_shutdown=had_clean_shutdown, recovery_point=9)
    assert log.epochs.entries == (EpochEntry(0, 0), EpochEntry(1, 6))
    assert disk.read(path) == before


@pytest.mark.parametrize("had_clean_shutdown", [False, True])
def test_epochs_that_a_loss_of_power_has_cut_off_within_a_number_are_not_used(had_clean_shutdown: bool) -> None:
    """An orderly end flushes no log whose records are flushed: epochs of a leader without records may be cut off."""
    disk = SimulatedDisk()
    log = open_log(disk)
    for place in range(12):
        log.append_as_follower(batch(b"a", offset=place, leader_epoch=place // 11), now_ms=NOW_MS)
    path = f"{FOLDER}/leader-epoch-checkpoint"
    assert disk.read(path) == b"0\n2\n0 0\n1 11\n"
    disk.write(path, b"0\n2\n0 0\n1 1")
    log = loaded(disk, had_clean_shutdown=had_clean_shutdown, recovery_point=12)
    assert log.epochs.entries == (EpochEntry(0, 0), EpochEntry(1, 11))


def test_recovered_epochs_are_written() -> None:
    disk = SimulatedDisk()
    with_batches(disk)
    disk.write(f"{FOLDER}/leader-epoch-checkpoint", b"0\n1\n0 0\n")
    log = loaded(disk)
    assert log.close() is not None
    assert loaded(disk, had_clean_shutdown=True).epochs.entries == (EpochEntry(0, 0), EpochEntry(1, 6))


def test_epochs_of_truncated_records_in_an_old_checkpoint_are_not_used() -> None:
    disk = SimulatedDisk()
    with_batches(disk)
    disk.write(f"{FOLDER}/leader-epoch-checkpoint", b"0\n2\n0 0\n5 9\n")
    assert loaded(disk).epochs.entries == (EpochEntry(0, 0), EpochEntry(1, 6))


@pytest.mark.parametrize("checkpoint", [None, b"0\n1\n0 0\n", b"0\n2\n0 0\n8 2\n", b"0\n4\n0 0\n4 4\n7 5\n8 6\n"])
def test_epochs_that_descend_are_read_as_they_were_appended(checkpoint: bytes | None) -> None:
    """A follower has such epochs if a leader led again after a loss of power; its cache drops the first epoch 8."""
    disk = SimulatedDisk()
    log = open_log(disk)
    for offset, epoch in [(0, 0), (1, 0), (2, 8), (3, 8), (4, 4), (5, 7), (6, 8)]:
        log.append_as_follower(batch(b"a", offset=offset, leader_epoch=epoch), now_ms=NOW_MS)
    appended = log.epochs.entries
    assert appended == (EpochEntry(0, 0), EpochEntry(4, 4), EpochEntry(7, 5), EpochEntry(8, 6))
    path = f"{FOLDER}/leader-epoch-checkpoint"
    if checkpoint is None:
        disk.delete(path)
    else:
        disk.write(path, checkpoint)
    assert open_log(disk).epochs.entries == appended


@pytest.mark.parametrize(
    ("checkpoints", "is_kept"),
    [
        ({}, False),
        ({"recovery_point": 5}, False),
        ({"recovery_point": 6}, True),
        ({"first_dirty_offset": 6}, True),
        ({"is_flushed_end_unknown": True}, True),
    ],
)
def test_segments_behind_missing_batches_are_kept_where_compaction_may_have_removed_those(
    checkpoints: Checkpoints, is_kept: bool
) -> None:
    """It removes none before all up to the active segment is flushed."""
    for cleanup_policy in ("delete", "compact"):
        disk = SimulatedDisk()
        data = with_batches(disk)
        disk.truncate(name(3, ".log"), 0)
        disk.delete(f"{FOLDER}/leader-epoch-checkpoint")
        logs = config(segment_bytes=110, cleanup_policy=cleanup_policy)
        log = open_log(disk, log_config=logs, **checkpoints)
        was_compacted = cleanup_policy == "compact" or "first_dirty_offset" in checkpoints
        assert contents(log) == ([data[0], *data[2:]] if is_kept and was_compacted else data[:1])


def test_an_index_of_another_content_does_not_outlast_the_flush_of_a_recovered_segment() -> None:
    """As a loss of power may bring back, of a segment that was removed and begun again."""
    disk = SimulatedDisk()
    data = with_batches(disk)
    disk.write(name(3, ".index"), bytes(4) + (7).to_bytes(4, "big"))
    log = loaded(disk)
    plan = log.flush_plan()
    assert plan is not None
    plan.run(disk)
    log.mark_flushed(plan)
    assert contents(loaded(disk, recovery_point=log.recovery_point)) == data


def test_a_damaged_batch_before_the_recovery_point_is_not_looked_for() -> None:
    disk = SimulatedDisk()
    data = with_batches(disk)
    damaged = bytearray(data[0])
    damaged[-1] ^= 1
    disk.write(name(0, ".log"), bytes(damaged))
    assert loaded(disk, recovery_point=3).log_end_offset == 12
    assert loaded(disk, recovery_point=2).log_end_offset == 0


def test_a_part_of_a_batch_at_the_end_is_cut_off_also_where_the_log_was_closed() -> None:
    disk = SimulatedDisk()
    data = with_batches(disk)
    disk.append(name(9, ".log"), batch(b"x", offset=12)[:40])
    log = loaded(disk, had_clean_shutdown=True, recovery_point=12)
    log.append_as_follower(batch(b"y", offset=12), now_ms=NOW_MS)
    assert contents(loaded(disk)) == [*data, batch(b"y", offset=12)]


@pytest.mark.parametrize("damage", [None, b"", b"\0\1broken", b"\0\7" + bytes(8)])
def test_a_missing_or_damaged_snapshot_costs_a_look_at_the_batches(damage: bytes | None) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    for place in range(4):
        data = batch(b"a", offset=place, producer_id=7, producer_epoch=0, base_sequence=place)
        log.append_as_follower(data, now_ms=NOW_MS)
        log.roll(now_ms=NOW_MS)
    entries = log.producers.entries()
    assert len(entries) == 1
    if damage is None:
        disk.delete(name(4, ".snapshot"))
    else:
        disk.write(name(4, ".snapshot"), damage)
    for had_clean_shutdown in (True, False):
        again = open_log(disk, had_clean_shutdown=had_clean_shutdown, recovery_point=4)
        assert again.producers.entries() == entries


def test_a_producer_that_has_expired_is_not_loaded() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    log.append_as_follower(batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0), now_ms=NOW_MS)
    log.close()
    assert open_log(disk, had_clean_shutdown=True).producers.producer_count == 1
    assert open_log(disk, had_clean_shutdown=True, now_ms=NOW_MS + A_DAY_MS).producers.producer_count == 0


# ------------------------------------------------------------------ partition.metadata


def test_the_topic_id_is_durable_before_the_first_record() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    disk.flush_directory("")
    log.assign_topic_id(TOPIC_ID)
    log.append_as_follower(batch(b"a"), now_ms=NOW_MS)
    for seed in range(10):
        disk.lose_power(random.Random(seed))
        assert open_log(disk).topic_id == TOPIC_ID


MALFORMED = pytest.mark.parametrize(
    "content", [b"", b"version: 0\ntopic_id: AAAA", b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"]
)


@MALFORMED
def test_a_malformed_topic_id_of_records_is_an_error_unless_the_end_was_unclean(content: bytes) -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    log.append_as_follower(batch(b"a"), now_ms=NOW_MS)
    log.close()
    disk.write(f"{FOLDER}/partition.metadata", content)
    with pytest.raises(MalformedPartitionMetadata, match=r"partition\.metadata"):
        open_log(disk, had_clean_shutdown=True)
    assert open_log(disk).topic_id == NO_TOPIC_ID


@MALFORMED
def test_a_malformed_topic_id_of_an_empty_log_is_deleted(content: bytes) -> None:
    """A loss of power has cut it; the broker then ended in order before its controller sent the id again."""
    disk = SimulatedDisk()
    open_log(disk)
    disk.write(f"{FOLDER}/partition.metadata", content)
    assert open_log(disk).topic_id == NO_TOPIC_ID
    assert open_log(disk, had_clean_shutdown=True).topic_id == NO_TOPIC_ID
    disk.write(f"{FOLDER}/partition.metadata", content)
    assert open_log(disk, had_clean_shutdown=True).topic_id == NO_TOPIC_ID
    assert "partition.metadata" not in disk.list_folder(FOLDER)


# ------------------------------------------------------------------ failures of the disk


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize(
    ("path", "operation"),
    [
        (FOLDER, "append"),
        (name(6, ".log"), "append"),
        (f"{FOLDER}/leader-epoch-checkpoint", "write"),
        (name(6, ".snapshot"), "write"),
        (name(3, ".index"), "write"),
        (name(3, ".timeindex"), "write"),
    ],
)
def test_what_was_appended_before_a_failure_of_the_disk_is_there(path: str, operation: str, error: int) -> None:
    disk = SimulatedDisk()
    data = with_batches(disk, 2)
    log = loaded(disk)
    following = batch(b"a", b"b", b"c", offset=6, leader_epoch=1)
    disk.faults.fail(path, operation, error, times=1)
    with pytest.raises(OSError, match="Errno") as failure:
        log.append_as_follower(following, now_ms=NOW_MS)
    assert failure.value.errno == error
    with pytest.raises(OSError, match="takes no records after"):
        log.append_as_follower(following, now_ms=NOW_MS)
    assert contents(log) == data, "still served"
    disk.end_process()
    again = loaded(disk)
    assert contents(again) == data
    assert again.epochs.entries == (EpochEntry(0, 0),)
    again.append_as_follower(following, now_ms=NOW_MS)
    assert contents(loaded(disk)) == [*data, following]


def test_a_full_disk_keeps_what_was_appended() -> None:
    disk = SimulatedDisk()
    data = with_batches(disk, 3)
    disk.volume_bytes = disk.volume_bytes - disk.volume().usable_bytes + 50
    log = open_log(disk)
    with pytest.raises(OSError, match="No space left"):
        log.append_as_follower(batch(bytes(500), offset=9), now_ms=NOW_MS)
    disk.end_process()
    assert contents(open_log(disk)) == data


# ------------------------------------------------------------------ appends that are refused


def test_a_leaders_append_that_exceeds_a_segment_is_refused_and_a_followers_is_divided() -> None:
    data = b"".join(batch(bytes(60), offset=place, leader_epoch=0) for place in range(5))
    log = open_log(log_config=config(segment_bytes=300))
    with pytest.raises(ApiError, match="exceeds the maximum configured segment size of 300") as refused:
        log.append_as_leader(batch(bytes(400)), 0, now_ms=NOW_MS)
    assert refused.value.error is Errors.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 0
    info = log.append_as_follower(data, now_ms=NOW_MS)
    assert info is not None
    assert (info.first_offset, info.last_offset, info.size) == (0, 4, len(data))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert b"".join(contents(log)) == data
