"""Tests of message sets: an independent client's are read, and damaged ones are refused."""

from __future__ import annotations

import struct
import warnings
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.foundation.records.compression import Compression, RecordsTooLarge, compress
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord
from understudy.foundation.records.message_set import LegacyMessage, first_magic, messages, messages_in
from understudy.foundation.records.record import Record, encode_records

with warnings.catch_warnings():
    # As in tests/clients/clients.py.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.legacy_records import LegacyRecordBatchBuilder

values = st.none() | st.binary(max_size=50)
LIMIT = 100_000


def message(
    *,
    magic: int = 1,
    offset: int = 0,
    timestamp: int = 5,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    attributes: int = 0,
) -> bytes:
    body = struct.pack(">Bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for field in (key, value):
        body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(body)) + body


def wrapper(inner: bytes, codec: Compression, *, magic: int = 1, offset: int = 0, attributes: int = 0) -> bytes:
    return message(
        magic=magic, offset=offset, key=None, value=compress(inner, codec), attributes=codec | attributes, timestamp=9
    )


def inner(data: bytes) -> list[LegacyMessage]:
    (outer,) = messages(data)
    return messages_in(outer, LIMIT)


@given(st.lists(st.tuples(st.integers(0, 2**41), values, values), min_size=1, max_size=5), st.sampled_from([0, 1]))
def test_messages_of_another_client_are_read(
    given_messages: list[tuple[int, bytes | None, bytes | None]], magic: int
) -> None:
    for codec in (Compression.NONE, Compression.GZIP):
        builder = LegacyRecordBatchBuilder(magic=magic, compression_type=int(codec), batch_size=1_000_000)
        for offset, (timestamp, key, value) in enumerate(given_messages):
            builder.append(offset, timestamp, key, value)
        data = bytes(builder.build())
        assert first_magic(data) == magic
        found = list(messages(data)) if codec is Compression.NONE else inner(data)
        assert [(each.offset, each.timestamp, each.key, each.value) for each in found] == [
            (offset, timestamp if magic else -1, key, value)
            for offset, (timestamp, key, value) in enumerate(given_messages)
        ]


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_compressed_messages_have_the_time_of_a_wrapper_with_log_append_time(codec: Compression) -> None:
    data = message(timestamp=5) + message(timestamp=6, offset=1)
    assert [each.timestamp for each in inner(wrapper(data, codec))] == [5, 6]
    assert [each.timestamp for each in inner(wrapper(data, codec, attributes=0x08))] == [9, 9]


def test_a_message_that_is_cut_off_is_left_out() -> None:
    for cut in range(len(message())):
        assert len(list(messages(message() + message()[:cut]))) == 1
    assert (first_magic(message()[:16]), first_magic(message(magic=0)[:17])) == (None, 0)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("position", range(12, 30))
def test_every_changed_byte_is_found(magic: int, position: int) -> None:
    damaged = bytearray(message(magic=magic, key=b"a longer key"))
    damaged[position] ^= 0x01
    with pytest.raises((CorruptRecord, InvalidRecord)):
        list(messages(damaged))


def with_checksum(body: bytes) -> bytes:
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(body)) + body


@pytest.mark.parametrize(
    ("data", "error", "reason"),
    [
        (with_checksum(b"\1\0" + bytes(8)), InvalidRecord, "in a field"),
        (with_checksum(b"\0\0" + struct.pack(">ii", 0, 1)), InvalidRecord, "a field of 1 bytes begins 0 bytes before"),
        (with_checksum(b"\0\0" + struct.pack(">ii", 2**31 - 1, 1)), InvalidRecord, "a field of 2147483647 bytes"),
        (with_checksum(b"\0\0" + struct.pack(">iii", 0, 0, 0)), InvalidRecord, "4 bytes follow the value"),
        (with_checksum(b"\1\0" + struct.pack(">ii", 0, 0)), InvalidRecord, "ends after 14 bytes, in a field"),
        (message() + encode_records([Record(0, 0, None, None)]), InvalidRecord, "a batch of message format 2 follows"),
        (struct.pack(">qi", 0, 13) + bytes(13), CorruptRecord, "Record size 13 is less than the minimum"),
    ],
)
def test_messages_that_contradict_themselves_are_refused(data: bytes, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        list(messages(data))


GZIP = Compression.GZIP


@pytest.mark.parametrize(
    ("data", "error", "reason"),
    [
        (message(attributes=5), CorruptRecord, "has compression 5; known are 0 to 4"),
        (wrapper(message(), Compression.ZSTD), InvalidRecord, "zstd needs message format 2"),
        (message(value=None, attributes=1), InvalidRecord, "with null value"),
        (message(value=b"no gzip", attributes=1), CorruptRecord, "records are no gzip"),
        (wrapper(b"", GZIP), InvalidRecord, "with no inner records"),
        (wrapper(message()[:-1], GZIP), InvalidRecord, "with no inner records"),
        (wrapper(message(magic=0), GZIP), InvalidRecord, "magic 0 does not match outer magic 1"),
        (wrapper(wrapper(message(), GZIP), GZIP), InvalidRecord, "must not be compressed"),
        (
            wrapper(message(offset=4), GZIP, offset=3),
            InvalidRecord,
            "'3' is less than the last inner message offset '4'",
        ),
        (wrapper(message()[:-1] + b"x", GZIP), CorruptRecord, "Record is corrupt"),
        (wrapper(bytes(200_000), GZIP), RecordsTooLarge, "more than 100000 bytes"),
    ],
)
def test_compressed_messages_that_are_refused(data: bytes, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        inner(data)


def test_a_wrapper_may_have_the_last_offset_or_none() -> None:
    for offset in (0, 4, 9):
        assert [each.offset for each in inner(wrapper(message(offset=4), GZIP, offset=offset))] == [4]


@given(st.data())
def test_hostile_bytes_raise_nothing_else(data: st.DataObject) -> None:
    magic = data.draw(st.sampled_from([0, 1]))
    body = bytearray(message(magic=magic)[16:])
    for _ in range(data.draw(st.integers(0, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CorruptRecord, InvalidRecord):
        for found in messages(with_checksum(bytes(body))):
            messages_in(found, LIMIT)
