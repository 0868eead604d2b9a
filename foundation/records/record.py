"""Reads and writes the records in a batch. Mirrors `DefaultRecord`.

A record has its size, an unused byte of attributes, timestamp and offset relative to the batch, key, value and headers,
all numbers as varints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from understudy.foundation.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    RecordBatch,
    encode_batch,
)
from understudy.foundation.records.compression import Compression, compress, decompress
from understudy.foundation.records.errors import InvalidRecord
from understudy.foundation.records.varint import Buffer, read_varint, read_varlong, varint

MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
"""Maximum number of bytes of the records of one batch, by default: more than any `message.max.bytes` that is in use."""

_MAX_TIMESTAMP = 2**63 - 1
_MORE = 0x80
"""Minimum of a byte of a varint that is not its last one."""
_MINUS_ONE = 1
"""-1 as a varint."""


class Header(NamedTuple):
    """A header of a record: its key, and its value or None."""

    key: str
    value: bytes | None


class Record(NamedTuple):
    """One record.

    Attributes:
        timestamp: milliseconds since 1970; -1 for none.
        value: None for a tombstone.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def records(batch: RecordBatch, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
    """Yield the records of a batch, decompressed.

    Raises:
        NotDecompressed: they cannot be decompressed.
        InvalidRecord: they are malformed, are others than the header says, or would become larger than `max_bytes`.
    """
    header = batch.header
    _check_count(header.count)
    data = decompress(batch.records, header.compression, max_bytes)
    # Slices of bytes are values of their own; slices of a view would keep all of it in memory.
    data = bytes(data)
    position, base_offset, base_timestamp = 0, header.base_offset, header.base_timestamp
    appended_ms = header.max_timestamp if header.has_log_append_time else None
    for number in range(header.count):
        record, position = _read(data, position, base_offset, base_timestamp, number)
        yield record if appended_ms is None else record._replace(timestamp=appended_ms)
    if position != len(data):
        raise InvalidRecord(
            f"Incorrect declared batch size, records still remaining in file: {len(data) - position} bytes after "
            f"{header.count} records at offset {header.base_offset}"
        )


class RecordsScan(NamedTuple):
    """Facts about the records of a batch, collected by looking at each once.

    Attributes:
        largest_timestamp: -1 if no record has one.
        smallest_timestamp: -1 if no record has one.
        has_record_without_key: whether any record's key is null.
    """

    largest_timestamp: int
    smallest_timestamp: int
    has_record_without_key: bool


def check_records(batch: RecordBatch, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> int:
    """Check the records of a batch as `scan_records` does, decompressed; return their largest timestamp.

    Raises:
        NotDecompressed: they cannot be decompressed.
        InvalidRecord: they are malformed, are others than the header says, or would become larger than `max_bytes`.
    """
    _check_count(batch.header.count)
    data = decompress(batch.records, batch.header.compression, max_bytes)
    return scan_records(batch.header, data).largest_timestamp


def scan_records(header: BatchHeader, data: Buffer) -> RecordsScan:
    """Check that a producer's records are whole, and their offsets 0, 1, 2 …

    That is what `LogValidator` looks at in each record. No record is made, because the bytes stay as they are.

    Args:
        data: the records, decompressed.

    Raises:
        InvalidRecord: they are malformed, or are others than the header says.
    """
    _check_count(header.count)
    # Bytes are read faster than a view.
    data = bytes(data)
    try:
        scan, position = _walk(data, header.count, header.base_timestamp)
    except (IndexError, ValueError) as error:
        if isinstance(error, InvalidRecord):
            raise
        raise InvalidRecord(f"Found invalid record structure: {error}") from None
    if position != len(data):
        left = len(data) - position
        raise InvalidRecord(f"Incorrect declared batch size: {left} bytes follow {header.count} records")
    if scan.largest_timestamp > _MAX_TIMESTAMP or scan.smallest_timestamp < -_MAX_TIMESTAMP - 1:
        raise InvalidRecord(f"a timestamp has more than 64 bits; that of the batch is {header.base_timestamp}")
    return scan


def _walk(data: bytes, count: int, base_timestamp: int) -> tuple[RecordsScan, int]:
    """Look at `count` records; return what was found, and the position after them.

    Varints of one and two bytes are read here: a call would take longer than the rest of the record. The bits of a
    zigzag-coded number that is not negative are twice the number.

    Raises:
        InvalidRecord: a record is not whole, or has another offset.
        IndexError, ValueError: the bytes end in a record, or a varint is too long.
    """
    end, position, largest, smallest = len(data), 0, NO_TIMESTAMP, _MAX_TIMESTAMP + 1
    last_delta, has_record_without_key = None, False
    for number in range(count):
        bits = data[position]
        if bits < _MORE:
            size, begin = (bits >> 1) ^ -(bits & 1), position + 1
        elif (byte := data[position + 1]) < _MORE:
            bits = bits & 0x7F | byte << 7
            size, begin = (bits >> 1) ^ -(bits & 1), position + 2
        else:
            size, begin = read_varint(data, position)
        after = begin + size
        if size < 0 or after > end:
            raise InvalidRecord(_ends(number, size, end - begin))

        bits = data[begin + 1]
        if bits < _MORE:
            delta, position = (bits >> 1) ^ -(bits & 1), begin + 2
        else:
            delta, position = read_varlong(data, begin + 1)
        if delta != last_delta:
            last_delta, timestamp = delta, base_timestamp + delta
            if timestamp > largest:
                largest = timestamp
            if timestamp < smallest and timestamp != NO_TIMESTAMP:
                smallest = timestamp

        bits = data[position]
        if bits < _MORE:
            position += 1
        elif (byte := data[position + 1]) < _MORE:
            bits, position = bits & 0x7F | byte << 7, position + 2
        else:
            offset_delta, position = read_varint(data, position)
            bits = offset_delta << 1
        if bits != number << 1:
            raise InvalidRecord(_other_offset(number, (bits >> 1) ^ -(bits & 1)))

        bits = data[position]
        if bits == _MINUS_ONE:
            has_record_without_key = True
            position += 1
        elif bits < _MORE and not bits & 1:
            position += (bits >> 1) + 1
        else:
            length, position = read_varint(data, position)
            has_record_without_key |= length < 0
            position += max(length, 0)

        bits = data[position]
        if bits < _MORE and not bits & 1:
            position += (bits >> 1) + 1
        elif not bits & 1 and (byte := data[position + 1]) < _MORE:
            position += ((bits & 0x7F | byte << 7) >> 1) + 2
        else:
            length, position = read_varint(data, position)
            position += max(length, 0)

        if data[position]:
            headers, position = read_varint(data, position)
            position = _skip_headers(data, position, headers)
        else:
            position += 1
        if position != after:
            raise InvalidRecord(_other_size(size, position - begin))
    if smallest > _MAX_TIMESTAMP:
        smallest = NO_TIMESTAMP
    return RecordsScan(largest, smallest, has_record_without_key), position


def _read(data: bytes, begin: int, base_offset: int, base_timestamp: int, number: int) -> tuple[Record, int]:
    """Read the record that begins at `begin`; return it, and the position after it.

    As in `_walk`, varints of one byte are read here: a call would take longer.
    """
    try:
        bits = data[begin]
        if bits < _MORE:
            size, start = (bits >> 1) ^ -(bits & 1), begin + 1
        else:
            size, start = read_varint(data, begin)
        end = len(data)
        after = start + size
        if size < 0 or after > end:
            raise InvalidRecord(_ends(number, size, end - start))

        bits = data[start + 1]
        if bits < _MORE:
            timestamp_delta, position = (bits >> 1) ^ -(bits & 1), start + 2
        else:
            timestamp_delta, position = read_varlong(data, start + 1)

        bits = data[position]
        if bits < _MORE:
            offset_delta, position = (bits >> 1) ^ -(bits & 1), position + 1
        else:
            offset_delta, position = read_varint(data, position)

        bits = data[position]
        if bits < _MORE and not bits & 1 and (field_end := position + 1 + (bits >> 1)) <= end:
            key: bytes | None = data[position + 1 : field_end]
            position = field_end
        else:
            key, position = _read_bytes(data, position)

        bits = data[position]
        if bits < _MORE and not bits & 1 and (field_end := position + 1 + (bits >> 1)) <= end:
            value: bytes | None = data[position + 1 : field_end]
            position = field_end
        else:
            value, position = _read_bytes(data, position)

        headers: tuple[Header, ...] = ()
        if data[position]:
            count, position = read_varint(data, position)
            headers, position = _read_headers(data, position, count)
        else:
            position += 1
    except (IndexError, ValueError) as error:
        if isinstance(error, InvalidRecord):
            raise
        raise InvalidRecord(f"Found invalid record structure: {error}") from None
    if position != after:
        raise InvalidRecord(_other_size(size, position - start))
    return Record(base_offset + offset_delta, base_timestamp + timestamp_delta, key, value, headers), after


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    bits = data[position]
    if bits < _MORE and not bits & 1:
        length, position = bits >> 1, position + 1
    else:
        length, position = read_varint(data, position)
        if length < 0:
            return None, position
    end = position + length
    if end > len(data):
        raise InvalidRecord(f"a field of {length} bytes begins {len(data) - position} bytes before the end")
    return data[position:end], end


def _read_headers(data: bytes, position: int, count: int) -> tuple[tuple[Header, ...], int]:
    _check_header_count(count, len(data) - position)
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position)
        if key is None:
            raise InvalidRecord("Invalid negative header key size")
        value, position = _read_bytes(data, position)
        headers.append(Header(key.decode("utf-8", "replace"), value))
    return tuple(headers), position


def _skip_headers(data: Buffer, position: int, count: int) -> int:
    _check_header_count(count, len(data) - position)
    for _ in range(count):
        length, position = read_varint(data, position)
        if length < 0:
            raise InvalidRecord(f"Invalid negative header key size {length}")
        length, position = read_varint(data, position + length)
        position += max(length, 0)
    return position


def _check_header_count(count: int, left: int) -> None:
    # A header has at least two bytes.
    if count < 0 or 2 * count > left:
        raise InvalidRecord(f"Found invalid number of record headers {count}; {left} bytes are left")


def _check_count(count: int) -> None:
    if count < 0:
        raise InvalidRecord(f"Found invalid record count {count} in magic v2 batch")


def _other_offset(number: int, found: int) -> str:
    return (
        f"Inner record {number} inside the compressed record batch does not have incremental offsets, expected offset "
        f"is {number}, but found {found}"
    )


def _ends(number: int, size: int, left: int) -> str:
    return f"Invalid record size: record {number} states {size} bytes, and {left} are left"


def _other_size(size: int, read: int) -> str:
    return f"Invalid record size: expected to read {size} bytes in record payload, but instead read {read}"


# ------------------------------------------------------------------ writing


def encode_records(
    values: Sequence[Record],
    *,
    compression: Compression = Compression.NONE,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """Return a batch with these records, whose base offset is the offset of the first one.

    Args:
        values: at least one, with ascending offsets.
    """
    base_offset, base_timestamp = values[0].offset, values[0].timestamp
    data = b"".join(_encoded(values, base_offset, base_timestamp))
    return encode_batch(
        compress(data, compression),
        count=len(values),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        compression=compression,
        last_offset_delta=values[-1].offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in values),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        is_control=is_control,
    )


def _encoded(values: Iterable[Record], base_offset: int, base_timestamp: int) -> Iterator[bytes]:
    for record in values:
        parts = [b"\0", varint(record.timestamp - base_timestamp), varint(record.offset - base_offset)]
        _add(parts, record.key)
        _add(parts, record.value)
        parts.append(varint(len(record.headers)))
        for header in record.headers:
            _add(parts, header.key.encode())
            _add(parts, header.value)
        body = b"".join(parts)
        yield varint(len(body))
        yield body


def _add(parts: list[bytes], value: bytes | None) -> None:
    if value is None:
        parts.append(varint(-1))
    else:
        parts += (varint(len(value)), value)
