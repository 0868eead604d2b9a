"""Tests of the conversion of batches into message sets: an independent client reads the results."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.foundation.records.compression import Compression
from understudy.foundation.records.down_conversion import NotConvertible, down_convert
from understudy.foundation.records.message_set import messages, messages_in
from understudy.foundation.records.record import Header, Record, encode_records

with warnings.catch_warnings():
    # As in tests/clients/clients.py.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.memory_records import MemoryRecords

values = st.none() | st.binary(max_size=50)


def a_batch(*values: bytes, offset: int = 0, compression: Compression = Compression.NONE) -> bytes:
    return encode_records(
        [Record(offset + place, 1_000 + place, b"k", value) for place, value in enumerate(values)],
        leader_epoch=0,
        compression=compression,
    )


def offsets(data: bytes) -> list[int]:
    return [message.offset for message in messages(data)]


@given(
    st.lists(st.tuples(values, values), min_size=1, max_size=5),
    st.sampled_from([Compression.NONE, Compression.GZIP]),
    st.sampled_from([0, 1]),
)
def test_another_client_reads_the_messages(
    given_records: list[tuple[bytes | None, bytes | None]], codec: Compression, magic: int
) -> None:
    given_batch = encode_records(
        [
            Record(40 + place, 1_000 - place, key, value, (Header("h", b"left out"),))
            for place, (key, value) in enumerate(given_records)
        ],
        leader_epoch=3,
        compression=codec,
    )
    read = MemoryRecords(bytes(down_convert(given_batch, magic, 0)))
    found = []
    while read.has_next():
        for record in read.next_batch():
            assert record.validate_crc()
            found.append((record.offset, record.timestamp, record.key, record.value))
    assert found == [
        (40 + place, 1_000 - place if magic else None, key, value) for place, (key, value) in enumerate(given_records)
    ]


@pytest.mark.parametrize(
    ("magic", "codec", "outer", "inner"),
    [
        (1, Compression.SNAPPY, (Compression.SNAPPY, 41), [0, 1]),
        (1, Compression.LZ4, (Compression.LZ4, 41), [0, 1]),
        (0, Compression.SNAPPY, (Compression.SNAPPY, 41), [40, 41]),
    ],
)
def test_compressed_batch_becomes_a_message_with_messages(
    magic: int, codec: Compression, outer: tuple[Compression, int], inner: list[int]
) -> None:
    (wrapper,) = messages(down_convert(a_batch(b"a", b"b", offset=40, compression=codec), magic, 0))
    assert (wrapper.compression, wrapper.offset) == outer
    assert [(message.offset, message.value) for message in messages_in(wrapper, 1_000)] == [
        (inner[0], b"a"),
        (inner[1], b"b"),
    ]


def test_batch_in_lz4_is_not_compressed_in_message_format_0() -> None:
    converted = messages(down_convert(a_batch(b"a", b"b", offset=40, compression=Compression.LZ4), 0, 0))
    assert [(each.compression, each.offset, each.value) for each in converted] == [
        (Compression.NONE, 40, b"a"),
        (Compression.NONE, 41, b"b"),
    ]


def test_records_before_the_offset_are_left_out_of_batches_that_are_not_compressed() -> None:
    assert offsets(bytes(down_convert(a_batch(b"a", b"b", b"c", offset=7), 1, 8))) == [8, 9]
    assert offsets(bytes(down_convert(a_batch(b"a", b"b", offset=7, compression=Compression.GZIP), 1, 8))) == [8]


def test_control_batches_are_left_out() -> None:
    control = encode_records([Record(0, 1_000, b"\0\0\0\1", b"\0" * 6)], is_control=True, is_transactional=True)
    assert offsets(bytes(down_convert(control + a_batch(b"a", offset=1), 1, 0))) == [1]


def test_batch_that_is_not_whole_is_left_out_or_shows_its_size() -> None:
    first, second = a_batch(b"a"), a_batch(b"b" * 200, offset=1)
    assert offsets(bytes(down_convert(first + second[:-1], 1, 0))) == [0]
    assert down_convert(first[:-1], 1, 0) == first[:-1]


def test_messages_that_become_larger_than_the_batches_are_left_for_the_next_fetch() -> None:
    data = b"".join(a_batch(*[b""] * 200, offset=offset) for offset in (0, 200))
    assert offsets(bytes(down_convert(data, 1, 0))) == list(range(200))


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_is_refused(magic: int) -> None:
    with pytest.raises(NotConvertible):
        down_convert(a_batch(b"a", compression=Compression.ZSTD), magic, 0)
