"""Compresses and decompresses the records of a batch, with a bound on what comes out.

Snappy is framed as by snappy-java: a header, then blocks with their size in front. gzip, lz4 and zstd have the frames
of their own formats. Mirrors `org.apache.kafka.common.compress`.
"""

from __future__ import annotations

import enum
import struct
from types import ModuleType
from typing import Final

import cramjam

from understudy.foundation.records.errors import CorruptRecord, InvalidRecord
from understudy.foundation.records.varint import Buffer


class Compression(enum.IntEnum):
    """The codecs by their numbers in a batch's attributes. Mirrors `CompressionType`."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_CODECS: Final[dict[Compression, ModuleType]] = {
    Compression.GZIP: cramjam.gzip,
    Compression.LZ4: cramjam.lz4,
    Compression.ZSTD: cramjam.zstd,
}
_FIRST_GUESS: Final = 8
"""Factor by which the buffer exceeds the compressed bytes at first, and by which it grows if that is not enough."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_SNAPPY_BLOCK_BYTES: Final = 32 * 1024
_SIZE: Final = struct.Struct(">i")


COMPRESSION_MASK: Final = 0x07


def codec_of(attributes: int, kind: str, offset: int) -> Compression:
    """Return the codec in the attributes of a batch or message.

    Args:
        kind: `batch` or `message`, for the error, as is the offset.

    Raises:
        CorruptRecord: its number is unknown.
    """
    number = attributes & COMPRESSION_MASK
    if number > Compression.ZSTD:
        raise CorruptRecord(f"the {kind} at offset {offset} has compression {number}; known are 0 to 4")
    return Compression(number)


class RecordsTooLarge(InvalidRecord):
    """The records of a batch would become larger than the limit when they are decompressed."""


def compress(data: Buffer, codec: Compression) -> bytes:
    """Return `data` compressed."""
    if codec is Compression.NONE:
        return bytes(data)
    if codec is Compression.SNAPPY:
        return _snappy_framed(memoryview(data))
    if codec is Compression.LZ4:
        # Java's readers refuse blocks that refer to the blocks before them.
        compressor = cramjam.lz4.Compressor(block_linked=False)
        compressor.compress(bytes(data))
        return bytes(compressor.finish())
    return bytes(_CODECS[codec].compress(data))


def decompress(data: Buffer, codec: Compression, limit: int) -> Buffer:
    """Return what was compressed.

    Args:
        limit: the most bytes that may come out.

    Raises:
        CorruptRecord: `data` is not what the codec writes.
        TooLarge: more than `limit` bytes would come out.
    """
    if codec is Compression.NONE:
        return data
    if codec is Compression.SNAPPY:
        return _from_snappy(memoryview(data), limit)
    size = min(max(len(data) * _FIRST_GUESS, 64), limit)
    while True:
        buffer = bytearray(size)
        try:
            written = _CODECS[codec].decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise CorruptRecord(f"records are no {codec.name.lower()}: {error}") from None
            if size >= limit:
                raise RecordsTooLarge(_too_large(codec, limit)) from None
            size = min(size * _FIRST_GUESS, limit)
        else:
            return memoryview(buffer)[:written]


def _too_large(codec: Compression, limit: int) -> str:
    return f"records in {codec.name.lower()} would have more than {limit} bytes without it"


def _snappy_framed(data: memoryview) -> bytes:
    out = [_XERIAL_HEADER]
    for begin in range(0, len(data), _SNAPPY_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[begin : begin + _SNAPPY_BLOCK_BYTES]))
        out += (_SIZE.pack(len(block)), block)
    return b"".join(out)


def _from_snappy(data: memoryview, limit: int) -> bytes:
    """Decompress snappy in snappy-java's frames, or a single block without them, as some clients write."""
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(data, limit, 0)
    blocks: list[bytes] = []
    position, size = len(_XERIAL_HEADER), 0
    while position < len(data):
        if position + _SIZE.size > len(data):
            raise CorruptRecord("records in snappy end in the size of a block")
        (length,) = _SIZE.unpack_from(data, position)
        position += _SIZE.size
        if not 0 < length <= len(data) - position:
            raise CorruptRecord(
                f"records in snappy have a block of {length} bytes, and {len(data) - position} are left"
            )
        blocks.append(_snappy_block(data[position : position + length], limit, size))
        size += len(blocks[-1])
        position += length
    return b"".join(blocks)


def _snappy_block(block: memoryview, limit: int, before: int) -> bytes:
    """Decompress a block that comes after `before` bytes of others."""
    try:
        if before + cramjam.snappy.decompress_raw_len(block) > limit:
            raise RecordsTooLarge(_too_large(Compression.SNAPPY, limit))
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptRecord(f"records are no snappy: {error}") from None
