"""Our batches agree with an independent client's, and batches that contradict themselves are refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from understudy.foundation.records import batch as batching
from understudy.foundation.records.batch import (
    HEADER,
    BatchHeader,
    RecordBatch,
    batches,
    check_crc,
    encode_batch,
    read_header,
)
from understudy.foundation.records.compression import Compression, RecordsTooLarge
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord, UnsupportedMagic
from understudy.foundation.records.record import Header, Record, check_records, encode_records, records

with warnings.catch_warnings():
    # As in tests/clients/clients.py.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

values = st.none() | st.binary(max_size=200)
headers = st.lists(st.builds(Header, st.text(max_size=5), values), max_size=3).map(tuple)
timestamps = st.integers(0, 2**41)


def offsets(count: int, base: int) -> range:
    return range(base, base + count)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    base = draw(st.integers(0, 2**40))
    return [
        Record(offset, draw(timestamps), draw(values), draw(values), draw(headers))
        for offset in offsets(draw(st.integers(1, 8)), base)
    ]


def whole(data: bytes | bytearray) -> RecordBatch:
    (found,) = batches(data)
    return found


@given(record_lists(), st.sampled_from(Compression))
def test_records_come_back(given_records: list[Record], compression: Compression) -> None:
    data = encode_records(given_records, compression=compression, leader_epoch=7)
    found = whole(data)
    check_crc(found)
    assert list(records(found)) == given_records
    assert check_records(found) == max(record.timestamp for record in given_records) == found.header.max_timestamp
    header = found.header
    assert (header.base_offset, header.last_offset) == (given_records[0].offset, given_records[-1].offset)
    assert (header.size, header.count, header.partition_leader_epoch) == (len(data), len(given_records), 7)
    assert header.compression is compression


@given(record_lists(), st.sampled_from([Compression.NONE, Compression.GZIP]))
def test_kafka_python_reads_what_is_written(given_records: list[Record], compression: Compression) -> None:
    data = encode_records(given_records, compression=compression, producer_id=5, producer_epoch=2, base_sequence=9)
    theirs = DefaultRecordBatch(data)
    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (5, 2, 9)
    assert theirs.last_sequence == whole(data).header.last_sequence
    assert [as_ours(record) for record in theirs] == given_records


@given(record_lists(), st.sampled_from([Compression.NONE, Compression.GZIP]))
def test_what_kafka_python_writes_is_read(given_records: list[Record], compression: Compression) -> None:
    builder = DefaultRecordBatchBuilder(2, compression, False, -1, -1, -1, 10_000_000)
    for number, record in enumerate(given_records):
        theirs = [(header.key, header.value) for header in record.headers]
        assert builder.append(number, record.timestamp, record.key, record.value, theirs)
    found = whole(bytes(builder.build()))
    check_crc(found)
    assert list(records(found)) == [record._replace(offset=number) for number, record in enumerate(given_records)]
    assert check_records(found) == max(record.timestamp for record in given_records)


def as_ours(record: Any) -> Record:
    found = tuple(Header(key, value) for key, value in record.headers)
    return Record(record.offset, record.timestamp, record.key, record.value, found)


THREE = [Record(100 + number, 1_000 + number, b"key", b"value %d" % number) for number in range(3)]


def test_a_batch_keeps_its_checksum_where_a_broker_places_it() -> None:
    data = bytearray(b"before" + encode_records(THREE))
    batching.place(data, 6, base_offset=4_711, leader_epoch=3)
    found = whole(data[6:])
    check_crc(found)
    assert [record.offset for record in records(found)] == [4_711, 4_712, 4_713]
    assert found.header.partition_leader_epoch == 3


def test_log_append_time_is_that_of_all_records() -> None:
    data = bytearray(encode_records(THREE) + b"behind")
    batching.set_max_timestamp(data, 0, 9_999, is_log_append_time=True)
    found = whole(data)
    check_crc(found)
    assert found.header.has_log_append_time
    assert {record.timestamp for record in records(found)} == {9_999}
    theirs = DefaultRecordBatch(bytes(data[:-6]))
    assert theirs.validate_crc()
    assert {record.timestamp for record in theirs} == {9_999}


def test_batches_follow_each_other_and_one_that_is_cut_off_is_left_out() -> None:
    first, second = encode_records(THREE), encode_records([Record(103, 5, None, None)])
    for cut in range(len(second)):
        assert [found.header.base_offset for found in batches(first + second[:cut])] == [100]
    assert [found.header.next_offset for found in batches(first + second)] == [103, 104]


@given(st.data())
def test_any_changed_byte_is_found(data: st.DataObject) -> None:
    """But in the fields that a broker sets, which the checksum leaves out."""
    text = bytearray(encode_records(THREE))
    place = data.draw(st.integers(16, len(text) - 1))
    text[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises((CorruptRecord, UnsupportedMagic)):
        check_crc(whole(text))


def patched(**fields: int) -> bytes:
    header = structs.replace(read_header(encode_records(THREE)), **fields)
    return HEADER.pack(*structs.astuple(header)) + encode_records(THREE)[HEADER.size :]


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (patched(length=13), CorruptRecord, r"Record size 13 is less than the minimum record overhead \(14\)"),
        (patched(length=-1), CorruptRecord, "Record size -1 is less"),
        (patched(length=48), CorruptRecord, "the size 60 is smaller than the minimum allowed overhead 61"),
        (patched(length=5_000), CorruptRecord, r"exceeds the largest allowable message size \(4000\)"),
        (patched(magic=3), CorruptRecord, "Invalid magic found in record: 3"),
        (patched(magic=-1), CorruptRecord, "Invalid magic found in record: 255"),
        (patched(magic=1), UnsupportedMagic, "offset 100 has message format 1, not 2"),
        (patched(attributes=5), CorruptRecord, "compression 5; known are 0 to 4"),
    ],
)
def test_impossible_headers_are_refused(data: bytes, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check_records(next(batches(data, max_bytes=4_000)))


def with_records(data: bytes, count: int, **fields: Any) -> RecordBatch:
    return whole(encode_batch(data, count=count, base_timestamp=0, **fields))


def body(values: list[Record]) -> bytes:
    return encode_records(values)[HEADER.size :]


SOME = body(THREE)
DAMAGED: dict[str, Callable[[], RecordBatch]] = {
    "more records than stated": lambda: with_records(SOME, 2),
    "fewer records than stated": lambda: with_records(SOME, 4),
    "two billion records": lambda: with_records(SOME, 2**31 - 1),
    "a negative number of records": lambda: with_records(SOME, -1),
    "no record": lambda: with_records(b"", 1),
    "a record that is cut off": lambda: with_records(SOME[:-1], 3),
    "a size beyond the end": lambda: with_records(b"\x7e" + SOME[1:], 3),
    "a negative size": lambda: with_records(b"\x01" + SOME[1:], 3),
    "a size that is too small": lambda: with_records(bytes([SOME[0] - 2]) + SOME[1:], 3),
    "a key beyond the record": lambda: with_records(SOME[:4] + b"\x7e" + SOME[5:], 3),
    "headers that are not there": lambda: with_records(SOME[: SOME[0] // 2] + b"\x7e" + SOME[SOME[0] // 2 + 1 :], 3),
    "a varint without an end": lambda: with_records(b"\x7e" + b"\xff" * 70, 1),
}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED.keys())
def test_records_that_contradict_their_header_are_refused(damaged: Callable[[], RecordBatch]) -> None:
    with pytest.raises(InvalidRecord):
        check_records(damaged())
    with pytest.raises(InvalidRecord):
        list(records(damaged()))


def test_a_producers_offsets_have_no_gap() -> None:
    gapped = [THREE[0], THREE[2]]
    assert list(records(whole(encode_records(gapped)))) == gapped
    with pytest.raises(InvalidRecord, match="expected offset is 1, but found 2"):
        check_records(whole(encode_records(gapped)))


def test_a_batch_that_would_become_too_large_is_refused() -> None:
    bomb = whole(encode_records([Record(0, 0, None, bytes(5_000_000))], compression=Compression.ZSTD))
    assert bomb.header.size < 2_000
    with pytest.raises(RecordsTooLarge, match="would have more than 1000000 bytes"):
        check_records(bomb, max_bytes=1_000_000)


@given(st.data())
def test_hostile_bytes_raise_nothing_else(data: st.DataObject) -> None:
    text = bytearray(SOME)
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    for read in (check_records, lambda found: list(records(found))):
        with suppress(InvalidRecord, CorruptRecord):
            read(with_records(bytes(text), 3))


def test_sequences_wrap() -> None:
    header = BatchHeader(0, 49, -1, 2, 0, 0, 4, 0, 0, 1, 0, 2**31 - 3, 5)
    assert header.last_sequence == 1
