"""Tests of batches that are written again with a part of their records, as compaction does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.foundation.records.batch import RecordBatch, batches, check_crc, encode_batch, set_max_timestamp
from understudy.foundation.records.compaction import emptied, rebuilt, stored_records
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.errors import InvalidRecord
from understudy.foundation.records.record import Header, Record, encode_records, records

RECORDS = [
    Record(40, 1_000, b"k1", b"v1", (Header("h", b"x"), Header("null", None))),
    Record(41, 900, b"k2", None),
    Record(43, 1_200, None, b"v3"),
    Record(44, 1_100, b"", b""),
]


def one(data: bytes | bytearray) -> RecordBatch:
    (batch,) = batches(data)
    check_crc(batch)
    return batch


@pytest.mark.parametrize("codec", Compression)
def test_a_batch_that_keeps_all_records_is_the_same(codec: Compression) -> None:
    data = encode_records(RECORDS, compression=codec, leader_epoch=3, producer_id=7, producer_epoch=1, base_sequence=9)
    batch = one(data)
    assert rebuilt(batch.header, list(stored_records(batch)), None) == data


@pytest.mark.parametrize("codec", Compression)
def test_a_batch_keeps_offsets_sequences_and_epoch_without_some_of_its_records(codec: Compression) -> None:
    data = encode_records(RECORDS, compression=codec, leader_epoch=3, producer_id=7, producer_epoch=1, base_sequence=9)
    before = one(data)
    after = one(rebuilt(before.header, list(stored_records(before))[1:3], None))
    assert list(records(after)) == RECORDS[1:3]
    for name in ("base_offset", "last_offset", "partition_leader_epoch", "producer_id", "producer_epoch"):
        assert getattr(after.header, name) == getattr(before.header, name)
    assert (after.header.base_sequence, after.header.last_sequence) == (9, 13)
    assert (after.header.count, after.header.base_timestamp, after.header.max_timestamp) == (2, 900, 1_200)
    assert after.header.compression is codec


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    before = one(encode_records(RECORDS))
    assert before.header.delete_horizon_ms is None
    after = one(rebuilt(before.header, list(stored_records(before)), 5_000_000))
    assert after.header.attributes == 0x40
    assert (after.header.delete_horizon_ms, after.header.max_timestamp) == (5_000_000, 1_200)
    assert list(records(after)) == RECORDS
    assert [record.timestamp for record in stored_records(after)] == [1_000, 900, 1_200, 1_100]


def test_records_with_the_leaders_time_keep_it() -> None:
    data = bytearray(encode_records(RECORDS))
    set_max_timestamp(data, 0, 7_777, is_log_append_time=True)
    before = one(data)
    after = one(rebuilt(before.header, list(stored_records(before))[:1], 9_000))
    assert after.header.has_log_append_time
    assert [record.timestamp for record in records(after)] == [7_777]


def test_an_emptied_batch_has_its_last_sequence_and_no_compression() -> None:
    data = encode_records(
        RECORDS, compression=Compression.GZIP, leader_epoch=3, producer_id=7, producer_epoch=1, base_sequence=9
    )
    header = one(emptied(one(data).header)).header
    assert (header.size, header.count, header.compression) == (61, 0, Compression.NONE)
    assert (header.base_offset, header.last_offset, header.last_sequence) == (40, 44, 13)
    assert (header.base_timestamp, header.max_timestamp) == (-1, 1_200)


def test_headers_stay_as_they_are_stored() -> None:
    """A key of a header that is no UTF-8 is not made into one."""
    data = encode_records([Record(0, 1, b"k", b"v", (Header("ab", b"x"),)), Record(1, 1, b"l", b"w")])
    raw = data.replace(b"ab", b"\xff\xfe")
    plain = raw[61:]
    before = one(encode_batch(plain, count=2, base_timestamp=1, max_timestamp=1))
    after = rebuilt(before.header, list(stored_records(before))[:1], None)
    assert b"\xff\xfe" in after


@pytest.mark.parametrize("damage", [b"\x7f", b"", b"\x02"])
def test_records_that_cannot_be_read_are_refused(damage: bytes) -> None:
    plain = encode_records(RECORDS)[61:]
    with pytest.raises(InvalidRecord):
        list(stored_records(one(encode_batch(damage + plain[1:] + b"", count=5))))


@given(st.lists(st.tuples(st.one_of(st.none(), st.binary(max_size=200)), st.one_of(st.none(), st.binary()))), st.data())
def test_any_part_of_any_records_is_read_as_it_was(
    pairs: list[tuple[bytes | None, bytes | None]], data: st.DataObject
) -> None:
    if not pairs:
        return
    values = [Record(100 + place, 50 - place, key, value) for place, (key, value) in enumerate(pairs)]
    batch = one(encode_records(values))
    kept = data.draw(st.lists(st.sampled_from(range(len(values))), min_size=1, unique=True).map(sorted))
    found = list(stored_records(batch))
    after = one(rebuilt(batch.header, [found[place] for place in kept], None))
    assert list(records(after)) == [values[place] for place in kept]
