"""Reads, checks and changes the headers of record batches, whose records stay bytes. Mirrors `DefaultRecordBatch`.

A batch begins with its base offset and the number of bytes that follow. A broker sets two fields of what a producer
sent, the base offset and the leader epoch, which are not part of the checksum; so it need not be computed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

import msgspec
from crc32c import crc32c

from understudy.foundation.records.compression import Compression, codec_of
from understudy.foundation.records.errors import CorruptRecord, UnsupportedMagic
from understudy.foundation.records.varint import Buffer

MAGIC: Final = 2

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

HEADER: Final = Struct(">qiibIhiqqqhii")
LOG_OVERHEAD: Final = 12
"""Number of bytes of base offset and size, which the size does not count."""
SIZE_UP_TO_MAGIC: Final = 17

_MIN_SIZE: Final = 14
"""Minimum size of a batch of any magic; `LegacyRecord.RECORD_OVERHEAD_V0`."""

_CHECKED_FROM: Final = 21
"""Place of the attributes in a batch: the checksum covers the bytes from there to the end."""

_SIZE: Final = Struct(">i")
_OFFSET_AND_SIZE: Final = Struct(">qi")
_OFFSET: Final = Struct(">q")
_LEADER_EPOCH_AT: Final = 12
_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
_MAX_TIMESTAMP_AT: Final = 35
_ATTRIBUTES: Final = Struct(">h")

_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_DELETE_HORIZON: Final = 0x40


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """The fields of a batch before its records."""

    base_offset: int
    length: int
    """The bytes after this field."""
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    """Milliseconds since 1970; the timestamps of records are relative to it."""
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    """The number of records, as the writer states it."""

    @property
    def size(self) -> int:
        """The bytes of the whole batch."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, which wraps at 2^31; `NO_SEQUENCE` without any."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def compression(self) -> Compression:
        """The codec.

        Raises:
            NotDecompressed: its number is unknown.
        """
        return codec_of(self.attributes, "batch", self.base_offset)

    @property
    def has_log_append_time(self) -> bool:
        """Whether the maximal timestamp is every record's timestamp, set by the leader."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch has control records, such as the end of a transaction."""
        return bool(self.attributes & _CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp is the time from which tombstones of the batch may be removed (KIP-534)."""
        return bool(self.attributes & _DELETE_HORIZON)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which compaction may remove tombstones of the batch; None if that is not set yet."""
        return self.base_timestamp if self.has_delete_horizon else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID


class RecordBatch(NamedTuple):
    """One batch.

    Attributes:
        data: all of its bytes.
    """

    header: BatchHeader
    data: memoryview

    @property
    def records(self) -> memoryview:
        """The bytes of the records, compressed as the attributes say."""
        return self.data[HEADER.size :]


def size_of_first(data: Buffer, position: int = 0, max_bytes: int = 2**31 - 1) -> int | None:
    """Return the size of the batch that begins at `position`; None if fewer bytes are there than name it.

    Raises:
        CorruptRecord: the size or the magic is impossible, or the size exceeds `max_bytes`.
    """
    left = len(data) - position
    if left < LOG_OVERHEAD:
        return None
    _, length = _OFFSET_AND_SIZE.unpack_from(data, position)
    if length < _MIN_SIZE:
        raise CorruptRecord(f"Record size {length} is less than the minimum record overhead ({_MIN_SIZE})")
    if length > max_bytes:
        raise CorruptRecord(f"Record size {length} exceeds the largest allowable message size ({max_bytes}).")
    if left < SIZE_UP_TO_MAGIC:
        return None
    magic = data[position + SIZE_UP_TO_MAGIC - 1]
    if magic > MAGIC:
        raise CorruptRecord(f"Invalid magic found in record: {magic}")
    return int(length) + LOG_OVERHEAD


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """Read the header of the batch that begins at `position`.

    Raises:
        UnsupportedMagic: it is of message format 0 or 1.
        CorruptRecord: the bytes end in the header, or the batch is smaller than one.
    """
    if len(data) - position < HEADER.size:
        raise CorruptRecord(f"a batch ends after {len(data) - position} bytes, in its header of {HEADER.size}")
    header = BatchHeader(*HEADER.unpack_from(data, position))
    if header.magic != MAGIC:
        raise UnsupportedMagic(f"the batch at offset {header.base_offset} has message format {header.magic}, not 2")
    if header.size < HEADER.size:
        raise CorruptRecord(
            f"Record batch is corrupt (the size {header.size} is smaller than the minimum allowed overhead "
            f"{HEADER.size})"
        )
    return header


def batches(data: Buffer, *, max_bytes: int = 2**31 - 1) -> Iterator[RecordBatch]:
    """Yield the whole batches in `data`. What follows the last one, a batch that is cut off, is left out.

    Args:
        max_bytes: the largest size that a batch may state.

    Raises:
        CorruptRecord: a size or magic is impossible.
        UnsupportedMagic: a batch is of message format 0 or 1.
    """
    view = memoryview(data)
    position = 0
    while (size := size_of_first(view, position, max_bytes)) is not None and position + size <= len(view):
        yield RecordBatch(read_header(view, position), view[position : position + size])
        position += size


def check_crc(batch: RecordBatch) -> None:
    """Compare the checksum with the bytes.

    Raises:
        CorruptRecord: they differ.
    """
    computed = crc32c(batch.data[_CHECKED_FROM:])
    if computed != batch.header.crc:
        raise CorruptRecord(f"Record is corrupt (stored crc = {batch.header.crc}, computed crc = {computed})")


# ------------------------------------------------------------------ changes


def place(data: bytearray | memoryview, position: int, *, base_offset: int, leader_epoch: int) -> None:
    """Set the base offset and the leader epoch of the batch that begins at `position`; its checksum stays right."""
    _OFFSET.pack_into(data, position, base_offset)
    _SIZE.pack_into(data, position + _LEADER_EPOCH_AT, leader_epoch)


def set_max_timestamp(data: bytearray | memoryview, position: int, timestamp: int, *, is_log_append_time: bool) -> None:
    """Set the maximal timestamp of the batch that begins at `position`, and compute its checksum again.

    Mirrors `DefaultRecordBatch.setMaxTimestamp`.

    Args:
        is_log_append_time: whether it becomes the timestamp of all records; otherwise they have their own ones.
    """
    end = position + LOG_OVERHEAD + _OFFSET_AND_SIZE.unpack_from(data, position)[1]
    (attributes,) = _ATTRIBUTES.unpack_from(data, position + _CHECKED_FROM)
    attributes = attributes | _LOG_APPEND_TIME if is_log_append_time else attributes & ~_LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(data, position + _CHECKED_FROM, attributes)
    _OFFSET.pack_into(data, position + _MAX_TIMESTAMP_AT, timestamp)
    _CRC.pack_into(data, position + _CRC_AT, crc32c(memoryview(data)[position + _CHECKED_FROM : end]))


def encode_batch(
    records: Buffer,
    *,
    count: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    compression: Compression = Compression.NONE,
    last_offset_delta: int | None = None,
    base_timestamp: int = NO_TIMESTAMP,
    max_timestamp: int = NO_TIMESTAMP,
    has_log_append_time: bool = False,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    has_delete_horizon: bool = False,
) -> bytes:
    """Return a batch.

    Args:
        records: its records, compressed already.
        count: their number.
        last_offset_delta: by default `count` - 1; more if compaction removed records at the end.
        has_delete_horizon: whether `base_timestamp` is the time from which its tombstones may be removed.
    """
    attributes = compression | (_LOG_APPEND_TIME if has_log_append_time else 0)
    attributes |= (_TRANSACTIONAL if is_transactional else 0) | (_CONTROL if is_control else 0)
    attributes |= _DELETE_HORIZON if has_delete_horizon else 0
    batch = bytearray(HEADER.size + len(records))
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    batch[HEADER.size :] = records
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_CHECKED_FROM:]))
    return bytes(batch)
