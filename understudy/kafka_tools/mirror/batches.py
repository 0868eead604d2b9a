"""Makes the batches of a source ready for the target: whole if possible, otherwise record by record.

A whole batch keeps its bytes, compressed as they are, but for the fields that a producer sets: offset, leader epoch,
producer id and sequence number, and the checksum over them. Its records are read only if the target would refuse
them: compaction has left gaps in their offsets, a leader has stamped them, or only a part of them is wanted.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from understudy.foundation.records.batch import NO_LEADER_EPOCH, RecordBatch, check_crc, place, read_header
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.record import Record, encode_records, records

SEQUENCE_MASK: Final = 0x7FFFFFFF
"""Largest sequence number; the next one is 0."""

_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_PRODUCER: Final = struct.Struct(">qhi")
_CRC_AT, _ATTRIBUTES_AT, _PRODUCER_AT = 17, 21, 43
_KEPT_ATTRIBUTES: Final = 0x0F
"""Attributes that are kept: codec and type of the timestamps, but not the bits of transactions and delete horizons."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A batch for the target, whose producer fields are still to be set by `stamp`.

    Attributes:
        first: the source offset of its first record.
        following: the source offset after the batch.
        count: its records.
        offsets: the records' source offsets if these have gaps; None if they follow each other.
    """

    data: bytearray
    first: int
    following: int
    count: int
    offsets: tuple[int, ...] | None = None


def ready(batch: RecordBatch, position: int) -> Ready | None:
    """Return a batch for the target with its records from `position` on; None if it has none of these.

    Raises:
        CorruptRecord, InvalidRecord: the batch is damaged.
    """
    header = batch.header
    check_crc(batch)
    is_whole = header.count == header.last_offset_delta + 1 and header.base_offset >= position
    if is_whole and header.count and not header.has_log_append_time:
        data = bytearray(batch.data)
        (attributes,) = _ATTRIBUTES.unpack_from(data, _ATTRIBUTES_AT)
        _ATTRIBUTES.pack_into(data, _ATTRIBUTES_AT, attributes & _KEPT_ATTRIBUTES)
        return Ready(data, header.base_offset, header.next_offset, header.count)
    wanted = [record for record in records(batch) if record.offset >= position] if header.count else []
    return _encoded(wanted, header.next_offset, header.compression) if wanted else None


def split(batch: Ready) -> tuple[Ready, Ready] | None:
    """Return two halves of a batch that is too large for the target; None if it has one record."""
    if batch.count < 2:
        return None
    whole = RecordBatch(read_header(batch.data), memoryview(batch.data))
    offsets = batch.offsets or range(batch.first, batch.first + batch.count)
    found = [record._replace(offset=offset) for record, offset in zip(records(whole), offsets, strict=True)]
    middle = batch.count // 2
    codec = whole.header.compression
    return (
        _encoded(found[:middle], found[middle].offset, codec),
        _encoded(found[middle:], batch.following, codec),
    )


def stamp(data: bytearray, producer_id: int, producer_epoch: int, sequence: int) -> None:
    """Set the fields that a producer sets, and compute the checksum again."""
    place(data, 0, base_offset=0, leader_epoch=NO_LEADER_EPOCH)
    _PRODUCER.pack_into(data, _PRODUCER_AT, producer_id, producer_epoch, sequence & SEQUENCE_MASK)
    _CRC.pack_into(data, _CRC_AT, crc32c(memoryview(data)[_ATTRIBUTES_AT:]))


def _encoded(wanted: Sequence[Record], following: int, compression: Compression) -> Ready:
    offsets = tuple(record.offset for record in wanted)
    dense = [record._replace(offset=number) for number, record in enumerate(wanted)]
    data = bytearray(encode_records(dense, compression=compression))
    has_gaps = following - offsets[0] != len(offsets)
    return Ready(data, offsets[0], following, len(offsets), offsets if has_gaps else None)
