"""Reads message sets, the records of producers before Kafka 0.11 (message formats 0 and 1). Nothing writes them.

A message is a record with an offset and a checksum of its own. A compressed message has a message set as its value.
Mirrors `LegacyRecord` and `AbstractLegacyRecordBatch`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from understudy.foundation.records.batch import LOG_OVERHEAD, MAGIC, NO_TIMESTAMP, SIZE_UP_TO_MAGIC, size_of_first
from understudy.foundation.records.compression import Compression, codec_of, decompress
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord
from understudy.foundation.records.varint import Buffer

_OFFSET: Final = Struct(">q")
_START: Final = Struct(">IBb")
"""Checksum, magic and attributes."""
_TIMESTAMP: Final = Struct(">q")
_LENGTH: Final = Struct(">i")
_CHECKED_FROM: Final = 4

_LOG_APPEND_TIME: Final = 0x08


class LegacyMessage(NamedTuple):
    """One message.

    Attributes:
        magic: 0 or 1.
        size: all of its bytes, with offset and size.
        timestamp: milliseconds since 1970; -1 for none, as in message format 0.
        value: for a compressed message the compressed messages in it.
    """

    offset: int
    magic: int
    attributes: int
    size: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def compression(self) -> Compression:
        """The codec.

        Raises:
            NotDecompressed: its number is unknown.
        """
        return codec_of(self.attributes, "message", self.offset)

    @property
    def has_log_append_time(self) -> bool:
        """Whether the timestamp was set by a leader."""
        return self.magic > 0 and bool(self.attributes & _LOG_APPEND_TIME)


def first_magic(data: Buffer) -> int | None:
    """Return the message format of the first message or batch; None if fewer bytes are there than name it.

    Raises:
        CorruptRecord: its size or magic is impossible.
    """
    return None if size_of_first(data) is None else data[SIZE_UP_TO_MAGIC - 1]


def messages(data: Buffer) -> Iterator[LegacyMessage]:
    """Yield the whole messages in `data`, compressed ones as they are. What follows the last one is left out.

    Raises:
        CorruptRecord: a size, magic or checksum is wrong.
        InvalidRecord: a key or value is longer than its message, or something of message format 2 follows.
    """
    view = memoryview(data)
    position = 0
    while (size := size_of_first(view, position)) is not None and position + size <= len(view):
        yield _read(view[position : position + size])
        position += size


def messages_in(wrapper: LegacyMessage, max_bytes: int) -> list[LegacyMessage]:
    """Return the messages in a compressed message, with timestamps as the wrapper demands.

    Their offsets follow the wrapper's format: relative ones in format 1, which not all producers set.

    Raises:
        NotDecompressed: they cannot be decompressed.
        CorruptRecord: a size, magic or checksum is wrong.
        InvalidRecord: there are none, they have another format or are compressed again, the wrapper's offset is too
            small for them, or they would become larger than `max_bytes`.
    """
    codec = wrapper.compression
    if codec is Compression.ZSTD:
        raise InvalidRecord(f"zstd needs message format 2, and this is {wrapper.magic}")
    if wrapper.value is None:
        raise InvalidRecord(f"Found invalid compressed record set with null value (magic = {wrapper.magic})")
    found = list(messages(decompress(wrapper.value, codec, max_bytes, message_format=wrapper.magic)))
    if not found:
        raise InvalidRecord("Found invalid compressed record set with no inner records")
    for message in found:
        if message.magic != wrapper.magic:
            raise InvalidRecord(f"a message's magic {message.magic} does not match outer magic {wrapper.magic}")
        if message.compression is not Compression.NONE:
            raise InvalidRecord("Inner messages must not be compressed")
    # librdkafka has produced wrappers with offset 0.
    if wrapper.magic == 1 and wrapper.offset != 0 and wrapper.offset < found[-1].offset:
        raise InvalidRecord(
            f"Found invalid wrapper offset in compressed v1 message set, wrapper offset '{wrapper.offset}' is less "
            f"than the last inner message offset '{found[-1].offset}' and it is not zero."
        )
    if wrapper.has_log_append_time:
        return [message._replace(timestamp=wrapper.timestamp) for message in found]
    return found


def _read(whole: memoryview) -> LegacyMessage:
    data = whole[LOG_OVERHEAD:]
    (offset,) = _OFFSET.unpack_from(whole)
    crc, magic, attributes = _START.unpack_from(data)
    if magic == MAGIC:
        raise InvalidRecord("a batch of message format 2 follows messages of another format")
    computed = zlib.crc32(data[_CHECKED_FROM:])
    if computed != crc:
        raise CorruptRecord(f"Record is corrupt (stored crc = {crc}, computed crc = {computed})")
    position, timestamp = _START.size, NO_TIMESTAMP
    if magic == 1:
        if len(data) < position + _TIMESTAMP.size:
            raise InvalidRecord(f"a message ends after {len(data)} bytes, in its timestamp")
        (timestamp,) = _TIMESTAMP.unpack_from(data, position)
        position += _TIMESTAMP.size
    key, position = _field(data, position)
    value, position = _field(data, position)
    if position != len(data):
        raise InvalidRecord(f"{len(data) - position} bytes follow the value of a message")
    return LegacyMessage(offset, magic, attributes, len(whole), timestamp, key, value)


def _field(data: memoryview, position: int) -> tuple[bytes | None, int]:
    if position + _LENGTH.size > len(data):
        raise InvalidRecord(f"a message ends after {len(data)} bytes, in a field")
    (length,) = _LENGTH.unpack_from(data, position)
    position += _LENGTH.size
    if length < 0:
        return None, position
    if length > len(data) - position:
        raise InvalidRecord(f"a field of {length} bytes begins {len(data) - position} bytes before the end")
    return bytes(data[position : position + length]), position + length
