"""Tests of a partition's log: what it refuses, and what it keeps of producers and transactions."""

from __future__ import annotations

import struct

import pytest

from tests.brokers.log.parts import NOW_MS, batch, open_log
from understudy.brokers.log.append_info import LogAppendInfo
from understudy.clusters.simulated.disk import SimulatedDisk
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.records.record import Record, encode_records


def idempotent(*values: bytes, sequence: int, offset: int = 0, transactional: bool = False) -> bytes:
    return batch(
        *values,
        offset=offset,
        leader_epoch=0,
        producer_id=7,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=transactional,
    )


@pytest.mark.parametrize("data", [b"", b"\0" * 5, batch(b"a")[:-1]], ids=["empty", "too short", "cut off"])
def test_bytes_without_a_whole_batch_add_nothing(data: bytes) -> None:
    log = open_log()
    assert log.append_as_leader(data, 0, now_ms=NOW_MS) == LogAppendInfo.nothing(0)
    assert log.append_as_follower(data, now_ms=NOW_MS) is None
    assert log.log_end_offset == 0


def test_a_retry_is_answered_with_the_offsets_of_the_batch_that_is_there() -> None:
    log = open_log()
    first = log.append_as_leader(idempotent(b"a", b"b", sequence=0), 0, now_ms=NOW_MS)
    log.append_as_leader(idempotent(b"c", sequence=2), 0, now_ms=NOW_MS)
    again = log.append_as_leader(idempotent(b"a", b"b", sequence=0), 0, now_ms=NOW_MS)
    assert (again.is_duplicate, again.first_offset, again.last_offset) == (True, first.first_offset, first.last_offset)
    assert log.log_end_offset == 3


def test_a_producer_is_known_after_recovery_although_the_log_begins_inside_its_batch() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    log.append_as_leader(idempotent(b"a", b"b", sequence=0), 0, now_ms=NOW_MS)
    log.update_high_watermark(2)
    log.maybe_increment_log_start_offset(1)
    recovered = open_log(disk, log_start_offset=1)
    assert recovered.append_as_leader(idempotent(b"a", b"b", sequence=0), 0, now_ms=NOW_MS).is_duplicate


def test_a_control_batch_that_cannot_be_read_is_refused_before_it_is_written() -> None:
    disk = SimulatedDisk()
    log = open_log(disk)
    damaged = encode_records(
        [Record(0, NOW_MS, struct.pack(">h", 0), b"")],
        leader_epoch=0,
        producer_id=7,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    with pytest.raises(ApiError) as refused:
        log.append_as_follower(damaged, now_ms=NOW_MS)
    assert refused.value.error is Errors.INVALID_RECORD
    assert (log.log_end_offset, log.size, log.producers.end_offset) == (0, 0, 0)
    assert open_log(disk).log_end_offset == 0


def test_the_last_stable_offset_is_not_before_the_log_start() -> None:
    log = open_log()
    log.append_as_follower(idempotent(b"a", b"b", b"c", sequence=0, transactional=True), now_ms=NOW_MS)
    log.update_high_watermark(3)
    assert log.last_stable_offset == 0
    log.maybe_increment_log_start_offset(2)
    assert (log.log_start_offset, log.last_stable_offset) == (2, 2)
