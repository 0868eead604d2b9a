"""Checks record batches before they are appended to a log, and gives a producer's batches their offsets.

Mirrors `LogValidator` and `UnifiedLog.analyzeAndValidateRecords`. A producer's batches are walked record by record; a
leader's are taken as they are once their checksums are right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final, NamedTuple

from understudy.brokers.config.kafka_config import MAX_LONG
from understudy.brokers.config.log_config import LogConfig
from understudy.brokers.log.record_errors import api_error
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.records.batch import (
    HEADER,
    MAGIC,
    NO_TIMESTAMP,
    SIZE_UP_TO_MAGIC,
    BatchHeader,
    RecordBatch,
    batches,
    check_crc,
    encode_batch,
    place,
    read_header,
    set_max_timestamp,
)
from understudy.foundation.records.compression import (
    COMPRESSION_MASK,
    Compression,
    codec_of,
    compress,
    decompress,
)
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord, UnsupportedMagic
from understudy.foundation.records.message_set import first_magic, messages, messages_in
from understudy.foundation.records.record import (
    MAX_DECOMPRESSED_BYTES,
    Record,
    RecordsScan,
    encode_records,
    records,
    scan_records,
)
from understudy.foundation.records.varint import Buffer

NO_OFFSET: Final = -1

_SHOWN_ERRORS: Final = 3

_MANY_RECORDS: Final = 5_000
"""Number of records that take some five milliseconds to check."""

_MOST_RECORD_ERRORS: Final = 10_000
"""Maximum number of errors of records in an answer. A batch of one MB may have millions of records; with an error for
each a broker would run out of memory."""

_RATIO: Final = 8
_ALWAYS_DECOMPRESSED_BYTES: Final = 32 * 1024 * 1024
"""Default bound of decompression, which keeps a request from taking a broker's memory and time."""


class RecordError(NamedTuple):
    """One record because of which its batch is refused (KIP-467). Mirrors `ProduceResponse.RecordError`.

    Attributes:
        batch_index: the record's place in its batch; 0 is the first.
    """

    batch_index: int
    message: str


class RecordValidationError(ApiError):
    """A batch is refused because of some of its records. Mirrors `RecordValidationException`.

    Attributes:
        record_errors: the records, at least one.
    """

    def __init__(self, error: Errors, message: str, record_errors: tuple[RecordError, ...]) -> None:
        super().__init__(error, message)
        self.record_errors = record_errors


class OffsetsOutOfOrder(ApiError):
    """The offsets of a leader's batches do not increase. Mirrors `OffsetsOutOfOrderException`."""

    def __init__(self, message: str) -> None:
        super().__init__(Errors.UNKNOWN_SERVER_ERROR, message)


class UnexpectedAppendOffset(ApiError):
    """A leader's batches begin before the end of the follower's log. Mirrors `UnexpectedAppendOffsetException`.

    Attributes:
        first_offset, last_offset: the first and last offset of the batches.
    """

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(Errors.UNKNOWN_SERVER_ERROR, message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class ValidatedBatches(NamedTuple):
    """A producer's batches as they are appended. Mirrors `LogValidator.ValidationResult`.

    Attributes:
        data: their bytes, a copy of the producer's; empty if no batch was whole.
        headers: their headers, with offsets and leader epoch.
        max_timestamp: the largest of all records in ms, or the log append time; -1 if no record has one.
        offset_of_max_timestamp: the last offset of the first batch with that timestamp, because followers and recovery
            read no records (`shallowOffsetOfMaxTimestamp`); -1 without a timestamp.
        log_append_time: the timestamp that the records got, in ms; -1 if they keep the producer's timestamps.
    """

    data: bytearray
    headers: tuple[BatchHeader, ...]
    max_timestamp: int
    offset_of_max_timestamp: int
    log_append_time: int


class _Rules(NamedTuple):
    """What a producer's batches are checked by: arguments of `validate`."""

    config: LogConfig
    now_ms: int
    from_client: bool
    max_decompressed_bytes: int


class _Checked(NamedTuple):
    """A producer's batch that may be appended: its bytes, recompressed or converted if needed."""

    data: Buffer
    max_timestamp: int


class CheckedBatches(NamedTuple):
    """A producer's batches that may be appended, before they have offsets. `checked_batches` makes them."""

    batches: tuple[_Checked, ...]


def takes_long(data: Buffer) -> bool:
    """Whether the check of a producer's batches may take more than some milliseconds.

    It does if there are many records, or if their number is not known, because they are compressed or of an old format:
    one MB may become 32 MB with millions of records.
    """
    if len(data) < HEADER.size or data[SIZE_UP_TO_MAGIC - 1] != MAGIC:
        return len(data) >= HEADER.size
    header = BatchHeader(*HEADER.unpack_from(data))
    return bool(header.attributes & COMPRESSION_MASK) or header.count > _MANY_RECORDS


def checked_batches(
    data: Buffer,
    *,
    config: LogConfig,
    now_ms: int,
    from_client: bool = True,
    max_decompressed_bytes: int | None = None,
) -> CheckedBatches:
    """Check a producer's batches as `validate` does, which accepts what this returns. It may run on another thread.

    Takes and raises what `validate` does.
    """
    if max_decompressed_bytes is None:
        limit = max(_RATIO * config.max_message_bytes, _ALWAYS_DECOMPRESSED_BYTES)
        max_decompressed_bytes = min(limit, MAX_DECOMPRESSED_BYTES)
    rules = _Rules(config, now_ms, from_client, max_decompressed_bytes)
    with _api_errors():
        magic = first_magic(data)
        found = _check_batches(data, rules) if magic is None or magic == MAGIC else _converted(data, rules)
    return CheckedBatches(tuple(found))


def validate(
    data: Buffer | CheckedBatches,
    *,
    next_offset: int,
    leader_epoch: int,
    config: LogConfig,
    now_ms: int,
    from_client: bool = True,
    max_decompressed_bytes: int | None = None,
) -> ValidatedBatches:
    """Check a producer's batches, and return a copy of them with offsets and the leader epoch.

    The message set of an old producer becomes one batch. A batch that is cut off at the end is left out, as by Kafka.
    With `compression.type` other than the batch's codec, the records are compressed anew, by the codec's default level.

    Args:
        data: the producer's bytes; or what `checked_batches` has returned for them, which are not checked again.
        next_offset: the offset of the first record.
        leader_epoch: the epoch of this leader.
        config: the configuration of the topic's logs.
        now_ms: the leader's time.
        from_client: whether a client produced the batches, and no coordinator of this broker.
        max_decompressed_bytes: the most that the records of one batch may become when they are decompressed; by default
            8 times `max.message.bytes`, and from 32 to 128 MiB.

    Raises:
        RecordValidationError: INVALID_RECORD or INVALID_TIMESTAMP, with the records concerned.
        ApiError: CORRUPT_MESSAGE, a checksum or size is wrong; UNKNOWN_SERVER_ERROR, the codec is unknown, or records
            cannot be decompressed; MESSAGE_TOO_LARGE, a batch is larger than `max.message.bytes`, or its records larger
            than `max_decompressed_bytes`; INVALID_RECORD; INVALID_TXN_STATE, transactions are not served.
    """
    if not isinstance(data, CheckedBatches):
        data = checked_batches(
            data,
            config=config,
            now_ms=now_ms,
            from_client=from_client,
            max_decompressed_bytes=max_decompressed_bytes,
        )
    placed = bytearray().join([each.data for each in data.batches])
    headers = []
    largest, offset_of_largest, position = NO_TIMESTAMP, NO_OFFSET, 0
    for each in data.batches:
        header = _place(placed, position, each, next_offset, leader_epoch, now_ms if config.log_append_time else None)
        headers.append(header)
        if header.max_timestamp > largest:
            largest, offset_of_largest = header.max_timestamp, header.last_offset
        next_offset = header.next_offset
        position += header.size
    return ValidatedBatches(
        placed, tuple(headers), largest, offset_of_largest, now_ms if config.log_append_time else NO_TIMESTAMP
    )


def validate_replicated(data: Buffer, *, next_offset: int) -> tuple[BatchHeader, ...]:
    """Check the batches that a follower is to append as its leader sent them; return the headers of the whole ones.

    Args:
        next_offset: the follower's log end offset.

    Raises:
        OffsetsOutOfOrder: a batch does not begin after the one before it.
        UnexpectedAppendOffset: the first batch begins before `next_offset`.
        ApiError: CORRUPT_MESSAGE, a checksum, size or offset is impossible; UNKNOWN_SERVER_ERROR, a codec is unknown;
            UNSUPPORTED_FOR_MESSAGE_FORMAT, a batch is of message format 0 or 1.
    """
    with _api_errors():
        found = list(batches(data))
        for batch in found:
            check_crc(batch)
            codec_of(batch.header.attributes, "batch", batch.header.base_offset)
    after = None
    for header, _ in found:
        if header.last_offset_delta < 0 or header.base_offset < 0 or header.last_offset >= MAX_LONG:
            raise ApiError(
                Errors.CORRUPT_MESSAGE, f"A batch has the offsets {header.base_offset} to {header.last_offset}"
            )
        if after is not None and header.base_offset < after:
            offsets = ", ".join(f"{header.base_offset} to {header.last_offset}" for header, _ in found[:10])
            raise OffsetsOutOfOrder(f"Out of order offsets found in append; those of the first batches: {offsets}")
        after = header.next_offset
    headers = tuple(batch.header for batch in found)
    if headers and headers[0].base_offset < next_offset:
        raise UnexpectedAppendOffset(
            f"Unexpected offset in append. First offset {headers[0].base_offset} is less than the next offset "
            f"{next_offset}. Last offset in append: {headers[-1].last_offset}",
            headers[0].base_offset,
            headers[-1].last_offset,
        )
    return headers


@contextmanager
def _api_errors() -> Iterator[None]:
    """Raise an ApiError for each error of reading records."""
    try:
        yield
    except (CorruptRecord, InvalidRecord, UnsupportedMagic) as error:
        raise api_error(error) from error


# ------------------------------------------------------------------ the header of a producer's batch


def _check_batches(data: Buffer, rules: _Rules) -> list[_Checked]:
    found = []
    try:
        for batch in batches(data):
            _check_batch(batch, rules)
            found.append(batch)
    except UnsupportedMagic as error:
        raise InvalidRecord(f"Batch magic is not the same as the first batch's magic byte 2: {error}") from error
    # Every batch is checked before the records of any, as in `analyzeAndValidateRecords`.
    return [_check_records(batch, rules) for batch in found]


def _check_batch(batch: RecordBatch, rules: _Rules) -> None:
    """Check a batch by its offset, size and checksum."""
    header = batch.header
    if rules.from_client and header.base_offset != 0:
        raise InvalidRecord(
            f"The baseOffset of the record batch in the append should be 0, but it is {header.base_offset}"
        )
    _check_size(header.size, rules)
    check_crc(batch)
    codec_of(header.attributes, "batch", header.base_offset)


def _check_size(size: int, rules: _Rules) -> None:
    limit = rules.config.max_message_bytes
    if size > limit:
        raise ApiError(
            Errors.MESSAGE_TOO_LARGE,
            f"The record batch size in the append is {size} bytes which exceeds the maximum configured value of "
            f"{limit}.",
        )


def _check_new_size(size: int, rules: _Rules) -> None:
    """Check the size of a batch that was recompressed or converted."""
    limit = rules.config.max_message_bytes
    if size > limit:
        raise ApiError(
            Errors.MESSAGE_TOO_LARGE,
            f"Message batch size is {size} bytes in append which exceeds the maximum configured size of {limit}.",
        )


def _check_header(header: BatchHeader) -> None:
    """Check what a client's header says."""
    refusal = None
    if header.last_offset_delta < 0:
        refusal = f"Batch has an invalid offset range: [{header.base_offset}, {header.last_offset}]"
    elif header.count <= 0:
        refusal = f"Invalid reported count for record batch: {header.count}"
    elif header.last_offset_delta + 1 != header.count:
        refusal = (
            f"Inconsistent batch offset range [{header.base_offset}, {header.last_offset}] and count of records "
            f"{header.count}"
        )
    elif header.is_control:
        refusal = "Clients are not allowed to write control records"
    elif header.has_producer_id and header.base_sequence < 0:
        refusal = f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id}"
    if refusal is not None:
        raise InvalidRecord(refusal)
    if header.is_transactional:
        # Kafka's answer if the coordinator has not added the partition to a transaction.
        raise ApiError(Errors.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")


# ------------------------------------------------------------------ the records of a producer's batch


def _check_records(batch: RecordBatch, rules: _Rules) -> _Checked:
    header = batch.header
    if rules.from_client:
        _check_header(header)
    source = header.compression
    plain = decompress(batch.records, source, rules.max_decompressed_bytes)
    scan = scan_records(header, plain)
    if header.has_log_append_time:
        scan = RecordsScan(header.max_timestamp, header.max_timestamp, scan.has_record_without_key)
    if _may_be_refused(header, scan, rules):
        found = records(batch, max_bytes=rules.max_decompressed_bytes)
        _refuse_records(found, rules, has_log_append_time=header.has_log_append_time)
    target = rules.config.compression_of(source)
    # Control records are compressed by their writer only.
    if target is source or (header.is_control and source is Compression.NONE):
        return _Checked(batch.data, scan.largest_timestamp)
    return _Checked(_recompressed(header, plain, target, rules), scan.largest_timestamp)


def _may_be_refused(header: BatchHeader, scan: RecordsScan, rules: _Rules) -> bool:
    """Whether some record may be refused by its key or timestamp, so that each is to be looked at again."""
    if (rules.config.is_compacted and scan.has_record_without_key) or header.has_log_append_time:
        return True
    return not rules.config.log_append_time and (
        _is_out_of_range(scan.smallest_timestamp, rules) or _is_out_of_range(scan.largest_timestamp, rules)
    )


def _is_out_of_range(timestamp: int, rules: _Rules) -> bool:
    """Whether a producer's timestamp is too far from the leader's time."""
    if timestamp == NO_TIMESTAMP:
        return False
    before, after = rules.config.message_timestamp_before_max_ms, rules.config.message_timestamp_after_max_ms
    age = rules.now_ms - timestamp
    return (before != MAX_LONG and age > before) or (after != MAX_LONG and -age > after)


def _refuse_records(found: Iterable[Record], rules: _Rules, *, has_log_append_time: bool) -> None:
    """Raise RecordValidationError if records are refused by key or timestamp.

    Args:
        has_log_append_time: whether the producer stated that a leader has set the timestamps.
    """
    refused = list(islice(_record_errors(found, rules, has_log_append_time), _MOST_RECORD_ERRORS))
    if not refused:
        return
    errors = tuple(error for _, error in refused)
    if any(code is Errors.INVALID_TIMESTAMP for code, _ in refused):
        message = "One or more records have been rejected due to invalid timestamp"
        raise RecordValidationError(Errors.INVALID_TIMESTAMP, message, errors)
    shown = ", ".join(error.message for error in errors[:_SHOWN_ERRORS])
    number = f"{len(errors)} or more" if len(errors) == _MOST_RECORD_ERRORS else str(len(errors))
    raise RecordValidationError(
        Errors.INVALID_RECORD,
        f"One or more records have been rejected due to {number} record errors in total, and only showing the "
        f"first three errors at most: [{shown}]",
        errors,
    )


def _record_errors(
    found: Iterable[Record], rules: _Rules, has_log_append_time: bool
) -> Iterator[tuple[Errors, RecordError]]:
    """Yield the error of each refused record."""
    config = rules.config
    for index, record in enumerate(found):
        if config.is_compacted and record.key is None:
            yield Errors.INVALID_RECORD, RecordError(index, "Compacted topic cannot accept message without key")
        elif not config.log_append_time and record.timestamp != NO_TIMESTAMP:
            if _is_out_of_range(record.timestamp, rules):
                earliest = rules.now_ms - config.message_timestamp_before_max_ms
                latest = rules.now_ms + config.message_timestamp_after_max_ms
                message = (
                    f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. The "
                    f"timestamp should be within [{earliest}, {latest}]"
                )
                yield Errors.INVALID_TIMESTAMP, RecordError(index, message)
        elif has_log_append_time:
            message = (
                f"Invalid timestamp type in message with offset {record.offset}. Producer should not set timestamp "
                "type to LogAppendTime."
            )
            yield Errors.INVALID_TIMESTAMP, RecordError(index, message)


def _recompressed(header: BatchHeader, plain: Buffer, codec: Compression, rules: _Rules) -> bytes:
    """Return a batch with its records compressed by another codec."""
    batch = encode_batch(
        compress(plain, codec),
        count=header.count,
        compression=codec,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        has_log_append_time=header.has_log_append_time,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
    )
    _check_new_size(len(batch), rules)
    return batch


def _place(
    data: bytearray, position: int, batch: _Checked, base_offset: int, leader_epoch: int, append_time_ms: int | None
) -> BatchHeader:
    """Set offset, leader epoch and largest timestamp of the batch at `position`, and return its header then.

    The checksum is computed again only if the header had another timestamp, as in
    `DefaultRecordBatch.setMaxTimestamp`.
    """
    place(data, position, base_offset=base_offset, leader_epoch=leader_epoch)
    header = read_header(data, position)
    if append_time_ms is not None:
        set_max_timestamp(data, position, append_time_ms, is_log_append_time=True)
    elif header.has_log_append_time or header.max_timestamp != batch.max_timestamp:
        set_max_timestamp(data, position, batch.max_timestamp, is_log_append_time=False)
    else:
        return header
    return read_header(data, position)


# ------------------------------------------------------------------ message sets of old producers


def _converted(data: Buffer, rules: _Rules) -> list[_Checked]:
    """Return the messages of formats 0 and 1 as one batch.

    As `convertAndAssignOffsetsNonCompressed` and `buildRecordsAndAssignOffsets` in Kafka do.
    """
    outer = list(messages(data))
    for message in outer:
        _check_size(message.size, rules)
        if message.magic != outer[0].magic:
            raise InvalidRecord(
                f"Batch magic {message.magic} is not the same as the first batch's magic byte {outer[0].magic}"
            )
    source = max((message.compression for message in outer), default=Compression.NONE)
    if source is not Compression.NONE and len(outer) > 1:
        raise InvalidRecord("Compressed outer record has more than one batch")
    found: list[Record] = []
    for message in outer:
        inner = [message] if source is Compression.NONE else messages_in(message, rules.max_decompressed_bytes)
        converted = [
            Record(len(found) + number, each.timestamp, each.key, each.value) for number, each in enumerate(inner)
        ]
        _refuse_records(converted, rules, has_log_append_time=message.has_log_append_time)
        found += converted
    if not found:
        return []
    timestamps = [record.timestamp for record in found]
    if min(timestamps) < NO_TIMESTAMP or max(timestamps) == MAX_LONG:
        raise InvalidRecord(f"Invalid timestamps from {min(timestamps)} to {max(timestamps)}")
    batch = encode_records(found, compression=rules.config.compression_of(source))
    _check_new_size(len(batch), rules)
    return [_Checked(batch, max(timestamps))]
