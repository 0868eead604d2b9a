"""Batches made ready for the target: which stay whole, and what their records are."""

from __future__ import annotations

import pytest

from understudy.clusters.clients.consumer import committed
from understudy.foundation.records.batch import RecordBatch, batches, check_crc, encode_batch
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.errors import CorruptRecord
from understudy.foundation.records.record import Record, encode_records, records
from understudy.foundation.wire.messages.fetch import AbortedTransaction
from understudy.kafka_tools.mirror.batches import SEQUENCE_MASK, ready, split, stamp


def _batch(data: bytes | bytearray) -> RecordBatch:
    [found] = batches(data)
    return found


def _records(*offsets: int) -> list[Record]:
    return [Record(offset, 1_000 + offset, b"k%d" % offset, b"v%d" % offset) for offset in offsets]


def _contents(data: bytes | bytearray) -> list[tuple[object, ...]]:
    return [tuple(record[1:]) for record in records(_batch(data))]


@pytest.mark.parametrize("codec", Compression)
def test_a_batch_without_gaps_keeps_its_compressed_bytes(codec: Compression) -> None:
    original = encode_records(_records(5, 6, 7), compression=codec, leader_epoch=9, producer_id=3, base_sequence=0)
    found = ready(_batch(original), 5)
    assert found is not None
    assert (found.first, found.following, found.count, found.offsets) == (5, 8, 3, None)
    assert found.data[61:] == original[61:]
    stamp(found.data, 77, 2, SEQUENCE_MASK + 11)
    copied = _batch(found.data)
    check_crc(copied)
    header = copied.header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 2, 10)
    assert (header.base_offset, header.partition_leader_epoch, header.compression) == (0, -1, codec)
    assert _contents(found.data) == _contents(original)


def test_gaps_are_closed_and_their_offsets_kept() -> None:
    found = ready(_batch(encode_records(_records(5, 8, 9), compression=Compression.ZSTD)), 0)
    assert found is not None
    assert (found.first, found.following, found.count, found.offsets) == (5, 10, 3, (5, 8, 9))
    assert _batch(found.data).header.compression is Compression.ZSTD
    assert [record.offset for record in records(_batch(found.data))] == [0, 1, 2]
    halves = split(found)
    assert halves is not None
    assert [(half.first, half.following, half.count) for half in halves] == [(5, 8, 1), (8, 10, 2)]
    assert _contents(halves[0].data) + _contents(halves[1].data) == _contents(found.data)


def test_only_records_from_the_position_on_are_copied() -> None:
    found = ready(_batch(encode_records(_records(5, 6, 7))), 6)
    assert found is not None
    assert (found.first, found.following, found.count) == (6, 8, 2)
    assert _contents(found.data) == [tuple(record[1:]) for record in _records(6, 7)]


def test_timestamps_of_the_leader_become_those_of_the_records() -> None:
    data = encode_records(_records(0, 1))
    stamped = encode_batch(data[61:], count=2, base_timestamp=1_000, max_timestamp=9_000, has_log_append_time=True)
    found = ready(_batch(stamped), 0)
    assert found is not None
    assert not _batch(found.data).header.has_log_append_time
    assert [record.timestamp for record in records(_batch(found.data))] == [9_000, 9_000]


def test_a_delete_horizon_and_a_transaction_are_left_out() -> None:
    data = encode_records(_records(0, 1))
    marked = encode_batch(
        data[61:], count=2, base_timestamp=1_000, max_timestamp=1_001, has_delete_horizon=True, is_transactional=True
    )
    found = ready(_batch(marked), 0)
    assert found is not None
    header = _batch(found.data).header
    assert not header.has_delete_horizon
    assert not header.is_transactional
    assert _contents(found.data) == _contents(data)


def test_a_batch_that_compaction_has_emptied_has_nothing_to_copy() -> None:
    empty = encode_batch(b"", count=0, base_offset=3, last_offset_delta=4)
    assert ready(_batch(empty), 0) is None


def test_a_damaged_batch_is_not_copied() -> None:
    damaged = bytearray(encode_records(_records(0, 1)))
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecord):
        ready(_batch(damaged), 0)


def test_a_single_record_cannot_be_split() -> None:
    found = ready(_batch(encode_records(_records(4))), 0)
    assert found is not None
    assert split(found) is None


def test_aborted_transactions_and_markers_are_not_read() -> None:
    def transactional(offset: int, producer: int, *, marker: bytes | None = None) -> bytes:
        content = Record(offset, 1, marker if marker is not None else b"k", b"v")
        return encode_records(
            [content],
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
            is_control=marker is not None,
        )

    abort, commit = b"\0\0\0\0", b"\0\0\0\1"
    log = b"".join(
        (
            transactional(0, 1),
            transactional(1, 2),
            transactional(2, 1, marker=abort),
            transactional(3, 1),
            transactional(4, 2, marker=commit),
            transactional(5, 1, marker=commit),
            encode_records(_records(6)),
        )
    )
    read = {
        batch.header.base_offset: is_read
        for batch, is_read in committed(batches(log), [AbortedTransaction(producer_id=1)])
    }
    assert read == {0: False, 1: True, 2: False, 3: True, 4: False, 5: False, 6: True}
