"""Reads the records of a batch as compaction sees them, and writes a batch again with a part of them.

Keys are decoded; values and headers stay bytes. Mirrors `MemoryRecords.filterTo`: a batch keeps its offsets, producer
and sequence numbers, whichever records are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from understudy.foundation.records.batch import BatchHeader, RecordBatch, encode_batch
from understudy.foundation.records.compression import Compression, compress, decompress
from understudy.foundation.records.errors import InvalidRecord
from understudy.foundation.records.record import MAX_DECOMPRESSED_BYTES
from understudy.foundation.records.varint import read_varint, read_varlong, varint


class StoredRecord(NamedTuple):
    """One record of a stored batch.

    Attributes:
        timestamp: milliseconds since 1970; -1 for none.
        key: None for a record without a key.
        has_value: False for a tombstone.
        rest: key, value and headers as they are stored.
    """

    offset: int
    timestamp: int
    key: bytes | None
    has_value: bool
    rest: bytes


def stored_records(batch: RecordBatch) -> Iterator[StoredRecord]:
    """Yield the records of a batch, decompressed.

    Raises:
        NotDecompressed: they cannot be decompressed.
        InvalidRecord: they are malformed, or others than the header says.
    """
    header = batch.header
    data = bytes(decompress(batch.records, header.compression, MAX_DECOMPRESSED_BYTES))
    position, has_log_append_time = 0, header.has_log_append_time
    for _ in range(header.count):
        try:
            record, position = _read(data, position, header)
        except (IndexError, ValueError) as error:
            if isinstance(error, InvalidRecord):
                raise
            raise InvalidRecord(
                f"Found invalid record structure in the batch at {header.base_offset}: {error}"
            ) from None
        yield record._replace(timestamp=header.max_timestamp) if has_log_append_time else record
    if position != len(data):
        raise InvalidRecord(
            f"{len(data) - position} bytes follow the {header.count} records of the batch at {header.base_offset}"
        )


def _read(data: bytes, position: int, header: BatchHeader) -> tuple[StoredRecord, int]:
    size, position = read_varint(data, position)
    end = position + size
    if size < 0 or end > len(data):
        raise InvalidRecord(f"a record states {size} bytes, and {len(data) - position} are left")
    timestamp_delta, position = read_varlong(data, position + 1)
    offset_delta, begin = read_varint(data, position)
    key_size, position = read_varint(data, begin)
    key = data[position : position + key_size] if key_size >= 0 else None
    value_size, position = read_varint(data, position + max(key_size, 0))
    if position + max(value_size, 0) > end:
        raise InvalidRecord(f"the key and value of a record exceed its {size} bytes")
    record = StoredRecord(
        header.base_offset + offset_delta,
        header.base_timestamp + timestamp_delta,
        key,
        value_size >= 0,
        data[begin:end],
    )
    return record, end


def rebuilt(header: BatchHeader, kept: Sequence[StoredRecord], delete_horizon_ms: int | None) -> bytes:
    """Return a batch with some of its records, compressed by its codec.

    Args:
        kept: at least one, in their order.
        delete_horizon_ms: the time from which tombstones may be removed; it takes the place of the base timestamp
            (KIP-534). None if the batch has none.
    """
    base_timestamp = kept[0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    out = bytearray()
    for record in kept:
        deltas = varint(record.timestamp - base_timestamp) + varint(record.offset - header.base_offset)
        out += varint(1 + len(deltas) + len(record.rest))
        out += b"\0"
        out += deltas
        out += record.rest
    newest = header.max_timestamp if header.has_log_append_time else max(record.timestamp for record in kept)
    return _with_header_of(
        header,
        compress(out, header.compression),
        count=len(kept),
        compression=header.compression,
        base_timestamp=base_timestamp,
        max_timestamp=newest,
        has_delete_horizon=delete_horizon_ms is not None,
    )


def emptied(header: BatchHeader) -> bytes:
    """Return a batch without records, which keeps the sequence numbers of its producer.

    Mirrors `DefaultRecordBatch.writeEmptyHeader`.
    """
    return _with_header_of(header, b"", count=0, max_timestamp=header.max_timestamp)


def _with_header_of(
    header: BatchHeader,
    records: bytes,
    *,
    count: int,
    max_timestamp: int,
    compression: Compression = Compression.NONE,
    base_timestamp: int = -1,
    has_delete_horizon: bool = False,
) -> bytes:
    return encode_batch(
        records,
        count=count,
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        compression=compression,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        has_log_append_time=header.has_log_append_time,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        has_delete_horizon=has_delete_horizon,
    )
