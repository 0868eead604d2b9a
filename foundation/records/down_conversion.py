"""Converts batches into message sets, for consumers before Kafka 0.11. Mirrors `RecordsUtil.downConvert`."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from understudy.foundation.records.batch import NO_TIMESTAMP, RecordBatch, batches
from understudy.foundation.records.compression import Compression, compress
from understudy.foundation.records.record import Record, records
from understudy.foundation.records.varint import Buffer

_OFFSET_AND_SIZE: Final = Struct(">qi")
_CHECKSUM: Final = Struct(">I")
_MAGIC_AND_ATTRIBUTES: Final = Struct(">Bb")
_TIMESTAMP: Final = Struct(">q")
_LENGTH: Final = Struct(">i")
_LOG_APPEND_TIME: Final = 0x08


class NotConvertible(ValueError):
    """A batch that the older message formats cannot hold. Mirrors `UnsupportedCompressionTypeException`."""


def down_convert(data: Buffer, magic: int, first_offset: int) -> Buffer:
    """Return the records of whole batches as messages of format 0 or 1; control batches and headers are left out.

    The result is not larger than `data`, but for the first batch. If not one batch is whole, `data` itself is returned:
    it also begins as a message does, and shows the consumer how many bytes it has to fetch.

    Args:
        first_offset: records before it are left out, except in compressed batches.

    Raises:
        NotConvertible: a batch is in zstd, which these formats do not have.
        CorruptRecord, InvalidRecord: a batch cannot be read.
    """
    converted = bytearray()
    has_batch = False
    for batch in batches(data):
        has_batch = True
        messages = b"".join(_messages(batch, magic, first_offset))
        if converted and len(converted) + len(messages) > len(data):
            break
        converted += messages
    return bytes(converted) if has_batch else data


def _messages(batch: RecordBatch, magic: int, first_offset: int) -> Iterator[bytes]:
    """The messages of one batch; a compressed one as a message that contains the others."""
    header = batch.header
    if header.is_control:
        return
    codec = header.compression
    if codec is Compression.ZSTD:
        raise NotConvertible("batches in zstd cannot be converted for consumers of old versions")
    attributes = _LOG_APPEND_TIME if header.has_log_append_time and magic else 0
    if codec is Compression.NONE:
        for record in records(batch):
            if record.offset >= first_offset:
                yield _message(record.offset, magic, attributes, record.timestamp, record.key, record.value)
        return
    found = tuple(records(batch))
    if not found:
        return
    if codec is Compression.LZ4 and magic == 0:
        # The frames of lz4 in format 0 have a wrong checksum, which only old consumers expect.
        yield from (_message(each.offset, magic, 0, NO_TIMESTAMP, each.key, each.value) for each in found)
        return
    yield _wrapper(found, codec, magic, attributes)


def _wrapper(found: Sequence[Record], codec: Compression, magic: int, attributes: int) -> bytes:
    """The message that contains others, with the offset of the last; in format 1 theirs are relative to the first."""
    base = found[0].offset if magic else 0
    inner = b"".join(
        _message(each.offset - base, magic, attributes, each.timestamp, each.key, each.value) for each in found
    )
    timestamp = max(each.timestamp for each in found)
    return _message(found[-1].offset, magic, attributes | codec, timestamp, None, compress(inner, codec))


def _message(offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    body = _MAGIC_AND_ATTRIBUTES.pack(magic, attributes) + (_TIMESTAMP.pack(timestamp) if magic else b"")
    body += b"".join(_field(field) for field in (key, value))
    return _OFFSET_AND_SIZE.pack(offset, _CHECKSUM.size + len(body)) + _CHECKSUM.pack(zlib.crc32(body)) + body


def _field(field: bytes | None) -> bytes:
    return _LENGTH.pack(-1) if field is None else _LENGTH.pack(len(field)) + field
