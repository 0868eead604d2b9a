"""Tests of `validate` and `validate_replicated`: Kafka's batches, refusals with Kafka's codes, damaged bytes."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.foundation.records.compressed import lz4_frame, lz4_linked
from tests.foundation.records.test_kafka_batches import BATCHES, COMMIT
from tests.foundation.records.test_kafka_batches import RECORDS as KAFKAS_RECORDS
from tests.foundation.records.test_message_set import message, wrapper
from understudy.brokers.config.log_config import LogConfig, log_config
from understudy.brokers.config.reading import read_config
from understudy.brokers.log.log_validator import (
    OffsetsOutOfOrder,
    RecordError,
    RecordValidationError,
    UnexpectedAppendOffset,
    ValidatedBatches,
    checked_batches,
    takes_long,
    validate,
    validate_replicated,
)
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.records.batch import (
    HEADER,
    LOG_OVERHEAD,
    batches,
    check_crc,
    encode_batch,
    place,
    read_header,
    set_max_timestamp,
)
from understudy.foundation.records.compression import Compression, compress
from understudy.foundation.records.record import Header, Record, encode_records, records
from understudy.foundation.records.varint import Buffer

NOW_MS = 1_700_000_000_000

THREE = [
    Record(0, NOW_MS - 10, b"a", b"1", (Header("h", None),)),
    Record(1, NOW_MS - 5, b"b", None),
    Record(2, NOW_MS - 7, b"c", b"3"),
]
BATCH = encode_records(THREE, producer_id=9, producer_epoch=1, base_sequence=4)
PLAIN = BATCH[HEADER.size :]
"""The records of the batch."""
LINKED = encode_batch(lz4_linked(PLAIN), count=3, compression=Compression.LZ4)


def topic(**overrides: str) -> LogConfig:
    configured = {key.replace("_", "."): value for key, value in overrides.items()}
    return log_config("orders", configured, read_config({"zookeeper.connect": "z"}))


def validated(data: Buffer, config: LogConfig | None = None, **arguments: Any) -> ValidatedBatches:
    given = {"next_offset": 100, "leader_epoch": 7, "now_ms": NOW_MS} | arguments
    return validate(data, config=config or topic(), **given)


def refusal(data: bytes, config: LogConfig | None = None, **arguments: Any) -> ApiError:
    with pytest.raises(ApiError) as raised:
        validated(data, config, **arguments)
    return raised.value


def contents(found: ValidatedBatches) -> list[Record]:
    """All records; the checksums and headers are compared with the bytes."""
    whole = list(batches(found.data))
    for batch in whole:
        check_crc(batch)
    assert tuple(batch.header for batch in whole) == found.headers
    assert sum(header.size for header in found.headers) == len(found.data)
    return [record for batch in whole for record in records(batch)]


def at(offset: int, given_records: list[Record]) -> list[Record]:
    return [record._replace(offset=offset + number) for number, record in enumerate(given_records)]


def with_header(data: bytes, **fields: int) -> bytes:
    """The batch with another header, and the checksum of its new bytes."""
    header = structs.replace(read_header(data), **fields)
    return with_checksum(bytearray(HEADER.pack(*structs.astuple(header)) + data[HEADER.size :]))


def with_checksum(data: bytearray) -> bytes:
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


# ------------------------------------------------------------------ accepted batches


@pytest.mark.parametrize("compression", Compression)
def test_batches_of_kafka_get_offsets_and_leader_epoch(compression: Compression) -> None:
    data = bytearray.fromhex(BATCHES[compression])
    place(data, 0, base_offset=0, leader_epoch=-1)
    before = bytes(data)
    found = validated(data)
    assert contents(found) == at(100, KAFKAS_RECORDS)
    (header,) = found.headers
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (100, 102, 7)
    assert (found.max_timestamp, found.offset_of_max_timestamp, found.log_append_time) == (1005, 102, -1)
    assert found.data[16:] == before[16:], "all but offset, size and leader epoch is the producer's"
    assert data == before, "the producer's bytes are not changed"


def test_several_batches_follow_each_other() -> None:
    later = encode_records([Record(0, NOW_MS, b"k", b"v")])
    found = validated(BATCH + later + later)
    assert contents(found) == [*at(100, THREE), *at(103, [Record(0, NOW_MS, b"k", b"v")] * 2)]
    assert (found.max_timestamp, found.offset_of_max_timestamp) == (NOW_MS, 103), "the first of two batches"


@pytest.mark.parametrize("cut", [0, 1, 11, 12, 20, 60, 61, len(BATCH) - 1])
def test_a_batch_that_is_cut_off_is_left_out(cut: int) -> None:
    assert contents(validated(BATCH + BATCH[:cut])) == at(100, THREE)
    assert validated(BATCH[:cut]) == ValidatedBatches(bytearray(), (), -1, -1, -1)


def test_with_log_append_time_every_record_gets_the_leaders_time() -> None:
    found = validated(BATCH, topic(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms="1"))
    assert contents(found) == [record._replace(timestamp=NOW_MS) for record in at(100, THREE)]
    assert found.headers[0].has_log_append_time
    assert (found.max_timestamp, found.offset_of_max_timestamp, found.log_append_time) == (NOW_MS, 102, NOW_MS)


def test_a_wrong_largest_timestamp_in_the_header_is_corrected() -> None:
    found = validated(with_header(BATCH, max_timestamp=NOW_MS + 99))
    assert found.headers[0].max_timestamp == found.max_timestamp == NOW_MS - 5
    assert contents(found) == at(100, THREE)


def test_records_without_timestamps_have_no_largest_one() -> None:
    found = validated(encode_records([Record(0, -1, None, b"v")]), topic(message_timestamp_before_max_ms="1"))
    assert (found.max_timestamp, found.offset_of_max_timestamp) == (-1, -1)


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_records_are_compressed_as_the_topic_wants(codec: Compression, name: str) -> None:
    data = encode_records(THREE, compression=codec, producer_id=9, producer_epoch=1, base_sequence=4)
    found = validated(data, topic(compression_type=name))
    assert contents(found) == at(100, THREE)
    (header,) = found.headers
    names = {"producer": codec, "uncompressed": Compression.NONE} | {known.name.lower(): known for known in Compression}
    assert header.compression is names[name]
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (9, 1, 4, 6)


def test_a_batch_that_has_become_too_large_by_recompression_is_refused() -> None:
    data = encode_records([Record(0, NOW_MS, None, bytes(5_000))], compression=Compression.ZSTD)
    error = refusal(data, topic(compression_type="uncompressed", max_message_bytes="1000"))
    assert error.error is Errors.MESSAGE_TOO_LARGE
    assert "which exceeds the maximum configured size of 1000" in error.message


def test_a_coordinator_may_write_control_batches() -> None:
    found = validated(bytes.fromhex(COMMIT), topic(compression_type="zstd"), from_client=False)
    (header,) = found.headers
    assert (header.is_control, header.compression, header.base_offset) == (True, Compression.NONE, 100)


# ------------------------------------------------------------------ refused batches


@pytest.mark.parametrize(
    ("data", "code", "message"),
    [
        (encode_records(at(5, THREE)), Errors.INVALID_RECORD, "should be 0, but it is 5"),
        (encode_batch(b"", count=0), Errors.INVALID_RECORD, "invalid offset range: [0, -1]"),
        (with_header(BATCH, last_offset_delta=-1), Errors.INVALID_RECORD, "invalid offset range: [0, -1]"),
        (with_header(BATCH, count=0), Errors.INVALID_RECORD, "Invalid reported count for record batch: 0"),
        (with_header(BATCH, count=-3), Errors.INVALID_RECORD, "Invalid reported count for record batch: -3"),
        (with_header(BATCH, count=4), Errors.INVALID_RECORD, "range [0, 2] and count of records 4"),
        (with_header(BATCH, count=2), Errors.INVALID_RECORD, "range [0, 2] and count of records 2"),
        (with_header(BATCH, count=4, last_offset_delta=3), Errors.INVALID_RECORD, "Found invalid record structure"),
        (with_header(BATCH, count=2, last_offset_delta=1), Errors.INVALID_RECORD, "bytes follow 2 records"),
        (
            with_header(BATCH, count=2**31 - 1, last_offset_delta=2**31 - 2),
            Errors.INVALID_RECORD,
            "Found invalid record structure",
        ),
        (with_header(BATCH, base_sequence=-1), Errors.INVALID_RECORD, "Invalid sequence number -1"),
        (with_header(BATCH, attributes=0x20), Errors.INVALID_RECORD, "not allowed to write control records"),
        (with_header(BATCH, attributes=0x10), Errors.INVALID_TXN_STATE, "not part of an ongoing transaction"),
        *(
            (with_header(BATCH, attributes=codec), Errors.UNKNOWN_SERVER_ERROR, f"has compression {codec}; known are 0")
            for codec in (5, 6, 7)
        ),
        *(
            (with_header(BATCH, attributes=codec), Errors.UNKNOWN_SERVER_ERROR, f"records are no {codec.name.lower()}")
            for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
        ),
        (with_header(BATCH, attributes=5, count=0), Errors.UNKNOWN_SERVER_ERROR, "has compression 5"),
        (LINKED, Errors.UNKNOWN_SERVER_ERROR, "Dependent block stream is unsupported"),
        (
            encode_batch(lz4_frame(PLAIN[:9]) + lz4_frame(PLAIN[9:]), count=3, compression=Compression.LZ4),
            Errors.INVALID_RECORD,
            "record 0 states 11 bytes, and 8 are left",
        ),
        (with_header(BATCH, base_timestamp=2**63 - 1), Errors.INVALID_RECORD, "more than 64 bits"),
        (BATCH[:17] + bytes(4) + BATCH[21:], Errors.CORRUPT_MESSAGE, "stored crc = 0, computed"),
        (with_header(BATCH, length=13), Errors.CORRUPT_MESSAGE, "Record size 13 is less than the minimum"),
        (with_header(BATCH, length=-1), Errors.CORRUPT_MESSAGE, "Record size -1 is less than the minimum"),
        (with_header(BATCH, length=48), Errors.CORRUPT_MESSAGE, "the size 60 is smaller than"),
        (with_header(BATCH, magic=3), Errors.CORRUPT_MESSAGE, "Invalid magic found in record: 3"),
        (encode_records([THREE[0], THREE[2]]), Errors.INVALID_RECORD, "range [0, 2] and count of records 2"),
        (
            with_header(encode_records([THREE[0], THREE[2]]), last_offset_delta=1),
            Errors.INVALID_RECORD,
            "expected offset is 1, but found 2",
        ),
    ],
)
def test_what_a_client_must_not_send(data: bytes, code: Errors, message: str) -> None:
    error = refusal(data)
    assert error.error is code
    assert message in error.message
    assert not isinstance(error, RecordValidationError)


def test_a_batch_beyond_max_message_bytes_is_refused() -> None:
    assert len(validated(BATCH, topic(max_message_bytes=str(len(BATCH)))).data) == len(BATCH)
    error = refusal(BATCH, topic(max_message_bytes=str(len(BATCH) - 1)))
    assert error.error is Errors.MESSAGE_TOO_LARGE
    assert f"is {len(BATCH)} bytes which exceeds the maximum configured value of {len(BATCH) - 1}." in error.message


def test_of_several_batches_a_bad_one_refuses_all() -> None:
    assert refusal(BATCH + with_header(BATCH, count=0)).error is Errors.INVALID_RECORD


def test_batch_of_many_bad_records_is_refused_with_so_many_errors_and_no_more() -> None:
    """The errors of the millions of records that one compressed MB may hold would fill the memory."""
    data = encode_records([Record(i, NOW_MS, None, b"") for i in range(10_001)], compression=Compression.ZSTD)
    error = refusal(data, topic(cleanup_policy="compact"))
    assert isinstance(error, RecordValidationError)
    assert [each.batch_index for each in error.record_errors] == list(range(10_000))
    assert "due to 10000 or more record errors in total" in error.message


def test_batches_that_were_checked_are_given_offsets_like_others() -> None:
    found = checked_batches(BATCH, config=topic(), now_ms=NOW_MS)
    assert validate(found, next_offset=100, leader_epoch=7, config=topic(), now_ms=NOW_MS) == validated(BATCH)


@pytest.mark.parametrize(
    ("data", "takes"),
    [
        (BATCH, False),
        (b"", False),
        (BATCH[:60], False),
        (encode_records(THREE, compression=Compression.GZIP), True),
        (encode_records([Record(i, NOW_MS, None, None) for i in range(5_000)]), False),
        (encode_records([Record(i, NOW_MS, None, None) for i in range(5_001)]), True),
        (message(value=b"v" * 100, magic=1), True),
    ],
    ids=["three records", "no bytes", "a part", "compressed", "many records", "one more", "old format"],
)
def test_check_takes_long_where_there_are_many_records_or_an_unknown_number(data: bytes, takes: bool) -> None:
    assert takes_long(data) is takes


def test_records_without_a_key_are_refused_by_a_compacted_topic() -> None:
    data = encode_records([THREE[0], Record(1, NOW_MS, None, b"2"), Record(2, NOW_MS, None, None)])
    assert len(validated(data).headers) == 1
    error = refusal(data, topic(cleanup_policy="compact,delete"))
    assert isinstance(error, RecordValidationError)
    assert error.error is Errors.INVALID_RECORD
    reason = "Compacted topic cannot accept message without key"
    assert error.record_errors == (RecordError(1, reason), RecordError(2, reason))
    assert error.message.startswith("One or more records have been rejected due to 2 record errors in total")
    assert len(validated(BATCH, topic(cleanup_policy="compact")).headers) == 1


@pytest.mark.parametrize(
    ("limit", "refused"),
    [
        ({"message_timestamp_before_max_ms": "6"}, [0, 2]),
        ({"message_timestamp_before_max_ms": "9"}, [0]),
        ({"message_timestamp_before_max_ms": "10"}, []),
        ({"message_timestamp_after_max_ms": "0"}, []),
        ({"message_timestamp_difference_max_ms": "6"}, [0, 2]),
    ],
)
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_timestamps_too_far_in_the_past_are_refused(
    limit: dict[str, str], refused: list[int], compression: Compression
) -> None:
    data = encode_records(THREE, compression=compression)
    if not refused:
        assert contents(validated(data, topic(**limit))) == at(100, THREE)
        return
    error = refusal(data, topic(**limit))
    assert isinstance(error, RecordValidationError)
    assert error.error is Errors.INVALID_TIMESTAMP
    assert error.message == "One or more records have been rejected due to invalid timestamp"
    assert [index for index, _ in error.record_errors] == refused


def test_timestamps_too_far_in_the_future_are_refused() -> None:
    data = encode_records(
        [Record(0, NOW_MS + 5, None, b""), Record(1, NOW_MS + 6, None, b""), Record(2, -1, None, b"")]
    )
    config = topic(message_timestamp_after_max_ms="5", message_timestamp_before_max_ms="4")
    error = refusal(data, config)
    assert isinstance(error, RecordValidationError)
    assert error.record_errors == (
        RecordError(
            1,
            f"Timestamp {NOW_MS + 6} of message with offset 1 is out of range. The timestamp should be within "
            f"[{NOW_MS - 4}, {NOW_MS + 5}]",
        ),
    )


def test_a_producer_must_not_set_log_append_time() -> None:
    data = bytearray(BATCH)
    set_max_timestamp(data, 0, NOW_MS - 1, is_log_append_time=True)
    error = refusal(bytes(data), topic(message_timestamp_type="LogAppendTime"))
    assert isinstance(error, RecordValidationError)
    assert error.error is Errors.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [0, 1, 2]
    # In a topic with CreateTime Kafka takes it for the timestamp of every record, and stores CreateTime.
    found = validated(bytes(data))
    assert not found.headers[0].has_log_append_time
    assert found.max_timestamp == NOW_MS - 1
    contents(found)


# ------------------------------------------------------------------ message sets of old producers


OLD = b"".join(message(offset=number, timestamp=NOW_MS - number, value=b"%d" % number) for number in range(3))
OLD_RECORDS = [Record(number, NOW_MS - number, b"k", b"%d" % number) for number in range(3)]


def test_a_message_set_becomes_one_batch() -> None:
    found = validated(OLD + OLD[:20])
    assert contents(found) == at(100, OLD_RECORDS)
    (header,) = found.headers
    assert (header.partition_leader_epoch, header.producer_id, header.base_sequence) == (7, -1, -1)
    assert (found.max_timestamp, found.offset_of_max_timestamp, found.log_append_time) == (NOW_MS, 102, -1)


def test_messages_of_format_0_have_no_timestamps_but_the_leaders() -> None:
    data = message(magic=0) + message(magic=0, key=None)
    found = validated(data, topic(message_timestamp_before_max_ms="1"))
    assert contents(found) == [Record(100, -1, b"k", b"v"), Record(101, -1, None, b"v")]
    assert (found.max_timestamp, found.offset_of_max_timestamp) == (-1, -1)
    found = validated(data, topic(message_timestamp_type="LogAppendTime"))
    assert [record.timestamp for record in contents(found)] == [NOW_MS, NOW_MS]
    assert found.log_append_time == NOW_MS


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_compressed_messages_become_a_batch_with_the_topics_compression(codec: Compression) -> None:
    for name, stored in (("producer", codec), ("zstd", Compression.ZSTD), ("uncompressed", Compression.NONE)):
        found = validated(wrapper(OLD, codec, offset=2), topic(compression_type=name))
        assert contents(found) == at(100, OLD_RECORDS)
        assert found.headers[0].compression is stored


def test_messages_in_lz4_have_a_wrong_header_checksum_in_format_0() -> None:
    """Clients before Kafka 0.10 compute it so, and `Lz4BlockInputStream` does not verify it in this format."""
    old = message(magic=0) + message(magic=0)
    data = message(magic=0, attributes=Compression.LZ4, value=lz4_frame(old, header_checksum=7))
    assert contents(validated(data)) == [Record(100, -1, b"k", b"v"), Record(101, -1, b"k", b"v")]


@pytest.mark.parametrize(
    ("data", "config", "code", "reason"),
    [
        (OLD[:-1] + b"x", {}, Errors.CORRUPT_MESSAGE, "Record is corrupt"),
        (wrapper(OLD[:-1] + b"x", Compression.LZ4), {}, Errors.CORRUPT_MESSAGE, "Record is corrupt"),
        *(
            (message(attributes=codec), {}, Errors.UNKNOWN_SERVER_ERROR, f"has compression {codec}; known are 0 to 4")
            for codec in (5, 6, 7)
        ),
        *(
            (message(attributes=codec), {}, Errors.UNKNOWN_SERVER_ERROR, f"records are no {codec.name.lower()}")
            for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
        ),
        (message(attributes=Compression.ZSTD), {}, Errors.INVALID_RECORD, "zstd needs message format 2"),
        (
            message(attributes=Compression.LZ4, value=lz4_linked(OLD)),
            {},
            Errors.UNKNOWN_SERVER_ERROR,
            "Dependent block",
        ),
        (
            message(attributes=Compression.LZ4, value=lz4_frame(OLD, header_checksum=7)),
            {},
            Errors.UNKNOWN_SERVER_ERROR,
            "checksum of the frame's header",
        ),
        (OLD + message(magic=0), {}, Errors.INVALID_RECORD, "Batch magic 0 is not the same"),
        (OLD + BATCH, {}, Errors.INVALID_RECORD, "a batch of message format 2 follows"),
        (BATCH + OLD, {}, Errors.INVALID_RECORD, "not the same as the first batch's magic byte 2"),
        (wrapper(OLD, Compression.GZIP) * 2, {}, Errors.INVALID_RECORD, "has more than one batch"),
        (wrapper(OLD, Compression.GZIP) + OLD, {}, Errors.INVALID_RECORD, "has more than one batch"),
        (wrapper(bytes(200_000), Compression.GZIP), {}, Errors.MESSAGE_TOO_LARGE, "more than 100000 bytes"),
        (OLD, {"max_message_bytes": "30"}, Errors.MESSAGE_TOO_LARGE, "exceeds the maximum configured value of 30"),
        (OLD, {"max_message_bytes": "60"}, Errors.MESSAGE_TOO_LARGE, "exceeds the maximum configured size of 60"),
        (message(timestamp=-2), {}, Errors.INVALID_RECORD, "Invalid timestamps from -2"),
        (message(timestamp=-1) + message(timestamp=2**63 - 1), {}, Errors.INVALID_RECORD, "Invalid timestamps from -1"),
    ],
)
def test_message_sets_that_are_refused(data: bytes, config: dict[str, str], code: Errors, reason: str) -> None:
    error = refusal(data, topic(**config), max_decompressed_bytes=100_000)
    assert error.error is code
    assert reason in error.message


def test_messages_are_refused_by_key_and_timestamp_like_records() -> None:
    error = refusal(wrapper(OLD + message(key=None), Compression.GZIP), topic(cleanup_policy="compact"))
    assert isinstance(error, RecordValidationError)
    assert [index for index, _ in error.record_errors] == [3]
    error = refusal(wrapper(OLD, Compression.GZIP), topic(message_timestamp_before_max_ms="1"))
    assert isinstance(error, RecordValidationError)
    assert (error.error, [index for index, _ in error.record_errors]) == (Errors.INVALID_TIMESTAMP, [2])
    error = refusal(message(attributes=0x08), topic(message_timestamp_type="LogAppendTime"))
    assert error.error is Errors.INVALID_TIMESTAMP


def test_a_follower_takes_no_messages_of_old_formats() -> None:
    with pytest.raises(ApiError, match="message format 1, not 2") as raised:
        validate_replicated(OLD, next_offset=0)
    assert raised.value.error is Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT


# ------------------------------------------------------------------ hostile bytes


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_decompression_bomb_is_refused(codec: Compression) -> None:
    bomb = encode_batch(compress(bytes(20_000_000), codec), count=1, compression=codec)
    error = refusal(bomb, max_decompressed_bytes=1_000_000)
    assert error.error is Errors.MESSAGE_TOO_LARGE
    assert f"records in {codec.name.lower()} would have more than 1000000 bytes without it" in error.message


@pytest.mark.parametrize(
    ("max_message_bytes", "mebibytes"),
    [(1_000_000, 32), (6 * 1024 * 1024, 48), (100 * 1024 * 1024, 128)],
)
def test_the_bound_of_decompression_grows_with_max_message_bytes(max_message_bytes: int, mebibytes: int) -> None:
    config = topic(max_message_bytes=str(max_message_bytes))
    value = bytes(mebibytes * 1024 * 1024 - 100)
    assert (
        len(validated(encode_records([Record(0, 1, None, value)], compression=Compression.ZSTD), config).headers) == 1
    )
    bomb = encode_records([Record(0, 1, None, value + bytes(200))], compression=Compression.ZSTD)
    assert refusal(bomb, config).error is Errors.MESSAGE_TOO_LARGE


OUTSIDE_THE_CHECKSUM = range(16)
"""Base offset, size and leader epoch; the magic byte decides what the checksum is."""


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_is_refused_or_outside_the_checksum(flip: int) -> None:
    for position in range(len(BATCH)):
        check_flipped_byte(position, flip)


def check_flipped_byte(position: int, flip: int) -> None:
    damaged = bytearray(BATCH)
    damaged[position] ^= flip
    if position not in OUTSIDE_THE_CHECKSUM:
        with pytest.raises(ApiError):
            validated(bytes(damaged))
        with pytest.raises(ApiError):
            validate_replicated(bytes(damaged), next_offset=0)
    elif position < 8:
        assert "The baseOffset of the record batch in the append should be 0" in refusal(bytes(damaged)).message
    elif position < 12:
        (size,) = struct.unpack_from(">i", damaged, 8)
        if size + LOG_OVERHEAD > len(BATCH):
            assert validated(bytes(damaged)).headers == (), "the batch is cut off"
        else:
            assert refusal(bytes(damaged)).error is Errors.CORRUPT_MESSAGE
    else:
        assert contents(validated(bytes(damaged))) == at(100, THREE)


@given(st.data())
def test_hostile_records_raise_only_api_errors(data: st.DataObject) -> None:
    """With the right checksum, so that the records are walked."""
    codec = data.draw(st.sampled_from(Compression))
    changed = bytearray(encode_records(THREE, compression=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(21, len(changed) - 1))] = data.draw(st.integers(0, 255))
    config = data.draw(
        st.sampled_from([topic(), topic(compression_type="gzip", cleanup_policy="compact"), HARD_TO_PLEASE])
    )
    try:
        found = validated(with_checksum(changed), config, max_decompressed_bytes=100_000)
    except ApiError:
        return
    assert len(contents(found)) == 3 or not found.headers


HARD_TO_PLEASE = topic(message_timestamp_type="LogAppendTime", message_timestamp_difference_max_ms="1")


@given(st.binary(max_size=200))
def test_any_bytes_raise_only_api_errors(data: bytes) -> None:
    for check in (lambda: validated(data), lambda: validate_replicated(data, next_offset=0)):
        try:
            check()
        except ApiError:
            continue


# ------------------------------------------------------------------ what a leader sends


def batch_at(offset: int, count: int = 2) -> bytes:
    return encode_records([Record(offset + number, 5, None, b"v") for number in range(count)], leader_epoch=3)


def test_a_leaders_batches_are_taken_as_they_are() -> None:
    data = batch_at(10) + batch_at(20) + bytes.fromhex(COMMIT.replace("000000000000000c", "0000000000000017", 1))
    found = validate_replicated(data, next_offset=8)
    assert [(header.base_offset, header.last_offset) for header in found] == [(10, 11), (20, 21), (23, 23)]
    assert found[2].is_control
    assert sum(header.size for header in found) == len(data)


@pytest.mark.parametrize("cut", [0, 1, 12, 30, 61, len(batch_at(12)) - 1])
def test_a_leaders_batch_that_is_cut_off_is_left_out(cut: int) -> None:
    found = validate_replicated(batch_at(10) + batch_at(12)[:cut], next_offset=10)
    assert [(header.base_offset, header.size) for header in found] == [(10, len(batch_at(10)))]
    assert validate_replicated(batch_at(12)[:cut], next_offset=10) == ()


@pytest.mark.parametrize("second", [9, 10, 11])
def test_a_leaders_offsets_must_increase(second: int) -> None:
    with pytest.raises(OffsetsOutOfOrder, match=f"10 to 11, {second} to {second + 1}"):
        validate_replicated(batch_at(10) + batch_at(second), next_offset=5)


def test_a_leaders_batch_with_an_unknown_codec_is_refused() -> None:
    with pytest.raises(ApiError, match="the batch at offset 10 has compression 5") as raised:
        validate_replicated(with_header(batch_at(10), attributes=5), next_offset=5)
    assert raised.value.error is Errors.UNKNOWN_SERVER_ERROR


def test_a_leaders_batch_is_not_decompressed() -> None:
    """As in Kafka: what a leader has appended, its followers append."""
    data = with_header(batch_at(10), attributes=Compression.LZ4)  # whose records are no lz4
    assert [header.compression for header in validate_replicated(data, next_offset=5)] == [Compression.LZ4]


def test_a_leaders_batches_must_not_begin_before_the_end_of_the_log() -> None:
    with pytest.raises(UnexpectedAppendOffset, match="First offset 10 is less than the next offset 11") as raised:
        validate_replicated(batch_at(10) + batch_at(12), next_offset=11)
    assert (raised.value.first_offset, raised.value.last_offset) == (10, 13)
    assert raised.value.error is Errors.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (with_header(batch_at(10), last_offset_delta=-1), "offsets 10 to 9"),
        (with_header(batch_at(10), base_offset=-1), "offsets -1 to 0"),
        (with_header(batch_at(10), base_offset=2**63 - 2), "offsets 9223372036854775806 to"),
        (batch_at(10)[:-1] + b"\x55", "Record is corrupt"),
    ],
)
def test_a_leaders_batches_with_impossible_offsets_or_bytes_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(ApiError, match=message) as raised:
        validate_replicated(data, next_offset=0)
    assert raised.value.error is Errors.CORRUPT_MESSAGE
