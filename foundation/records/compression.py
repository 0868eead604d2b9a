"""Compresses and decompresses the records of a batch, with a bound on what comes out.

Snappy is framed as by snappy-java: a header, then blocks with their size in front. gzip, lz4 and zstd have the frames
of their own formats. Mirrors `org.apache.kafka.common.compress`.
"""

from __future__ import annotations

import enum
import struct
import zlib
from types import ModuleType
from typing import Final

import cramjam

from understudy.foundation.records.errors import InvalidRecord, NotDecompressed
from understudy.foundation.records.lz4_frame import checked_frame
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
_XERIAL_MAGIC_HEAD: Final = int.from_bytes(_XERIAL_MAGIC[:4], "big", signed=True)
"""First bytes of a stream, read as the size of a block."""
_SNAPPY_BLOCK_BYTES: Final = 32 * 1024
_MOST_OF_SNAPPY: Final = 22
"""Factor by which a block grows at most: three bytes may stand for 64."""
_SIZE: Final = struct.Struct(">i")

_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_GZIP_HEADER_BYTES: Final = 10
_GZIP_CHUNK_BYTES: Final = 8 * 1024
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
"""Argument of zlib for data with the header and trailer of gzip."""


COMPRESSION_MASK: Final = 0x07


def codec_of(attributes: int, kind: str, offset: int) -> Compression:
    """Return the codec in the attributes of a batch or message.

    Args:
        kind: `batch` or `message`, for the error, as is the offset.

    Raises:
        NotDecompressed: its number is unknown.
    """
    number = attributes & COMPRESSION_MASK
    if number > Compression.ZSTD:
        raise NotDecompressed(f"the {kind} at offset {offset} has compression {number}; known are 0 to 4")
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


def decompress(data: Buffer, codec: Compression, limit: int, *, message_format: int = 2) -> Buffer:
    """Return what was compressed, if Kafka can decompress it.

    As Kafka's streams do, it takes any number of members of gzip, frames of zstd and streams of snappy-java one after
    the other, and the first frame of lz4. What follows the last member of gzip, the frame of lz4 or the last block of
    snappy is ignored.

    Args:
        limit: the most bytes that may come out.
        message_format: the magic of the batch or message. Old clients compute the header checksum of lz4's frames
            wrongly in format 0, so it is not verified there.

    Raises:
        NotDecompressed: Kafka refuses `data`.
        RecordsTooLarge: more than `limit` bytes would come out.
    """
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _from_gzip(data, limit)
        case Compression.SNAPPY:
            return _from_snappy(memoryview(data), limit)
        case Compression.LZ4:
            frame = checked_frame(memoryview(data), ignores_header_checksum=message_format == 0)
            return _from_library(frame, codec, limit)
        case Compression.ZSTD:
            # No frame is no error, unlike no member, stream or frame of the others.
            return _from_library(data, codec, limit) if len(data) else data


def _from_library(data: Buffer, codec: Compression, limit: int) -> memoryview:
    size = min(max(len(data) * _FIRST_GUESS, 64), limit)
    while True:
        buffer = bytearray(size)
        try:
            written = _CODECS[codec].decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise NotDecompressed(f"records are no {codec.name.lower()}: {error}") from None
            if size >= limit:
                raise RecordsTooLarge(_too_large(codec, limit)) from None
            size = min(size * _FIRST_GUESS, limit)
        else:
            return memoryview(buffer)[:written]


def _from_gzip(data: Buffer, limit: int) -> Buffer:
    """Decompress the members of gzip at the beginning of `data`, as Java's `GZIPInputStream` does."""
    try:
        return _from_library(data, Compression.GZIP, limit)
    except NotDecompressed:
        # The library refuses bytes behind the last member.
        return _gzip_members(data, limit)


def _gzip_members(data: Buffer, limit: int) -> bytes:
    view, found = memoryview(data), bytearray()
    position = _add_gzip_member(view, 0, found, limit)
    while bytes(view[position : position + len(_GZIP_MAGIC)]) == _GZIP_MAGIC:
        if len(view) - position < _GZIP_HEADER_BYTES:
            break
        position = _add_gzip_member(view, position, found, limit)
    return bytes(found)


def _add_gzip_member(view: memoryview, position: int, found: bytearray, limit: int) -> int:
    """Decompress the member that begins at `position`, and return the position after it."""
    member = zlib.decompressobj(_GZIP_WINDOW)
    while not member.eof:
        # Of the last chunk the bytes behind the member are copied: they are few, however many members there are.
        chunk = view[position : position + _GZIP_CHUNK_BYTES]
        if not chunk:
            raise NotDecompressed("records are no gzip: unexpected end of file")
        try:
            found += member.decompress(chunk, limit - len(found) + 1)
        except zlib.error as error:
            raise NotDecompressed(f"records are no gzip: {error}") from None
        if len(found) > limit:
            raise RecordsTooLarge(_too_large(Compression.GZIP, limit))
        position += len(chunk) - len(member.unused_data)
    return position


def _too_large(codec: Compression, limit: int) -> str:
    return f"records in {codec.name.lower()} would have more than {limit} bytes without it"


def _snappy_framed(data: memoryview) -> bytes:
    out = [_XERIAL_HEADER]
    for begin in range(0, len(data), _SNAPPY_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[begin : begin + _SNAPPY_BLOCK_BYTES]))
        out += (_SIZE.pack(len(block)), block)
    return b"".join(out)


def _from_snappy(data: memoryview, limit: int) -> bytes:
    """Decompress snappy in snappy-java's frames, or a single block without them, as some clients write.

    As for `SnappyInputStream`, another header may stand in the place of a block, and fewer bytes than the size of a
    block has are the end.
    """
    if len(data) < len(_XERIAL_HEADER) or bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(data, limit, 0)
    blocks: list[bytes] = []
    position, size = len(_XERIAL_HEADER), 0
    while position + _SIZE.size <= len(data):
        (length,) = _SIZE.unpack_from(data, position)
        if length == _XERIAL_MAGIC_HEAD:
            _check_snappy_header(data[position : position + len(_XERIAL_HEADER)])
            position += len(_XERIAL_HEADER)
            continue
        position += _SIZE.size
        if not 0 < length <= len(data) - position:
            raise NotDecompressed(
                f"records in snappy have a block of {length} bytes, and {len(data) - position} are left"
            )
        blocks.append(_snappy_block(data[position : position + length], limit, size))
        size += len(blocks[-1])
        position += length
    return b"".join(blocks)


def _check_snappy_header(header: memoryview) -> None:
    """Check the header of a stream that follows another one.

    Raises:
        NotDecompressed: the header is cut off, or has a version that snappy-java does not read.
    """
    if len(header) < len(_XERIAL_HEADER):
        raise NotDecompressed("records in snappy end in the header of a stream")
    (version,) = _SIZE.unpack_from(header, len(_XERIAL_MAGIC))
    if version < 1:
        raise NotDecompressed(f"records in snappy have a stream of version {version}; expected at least 1")


def _snappy_block(block: memoryview, limit: int, before: int) -> bytes:
    """Decompress a block that comes after `before` bytes of others."""
    try:
        stated = cramjam.snappy.decompress_raw_len(block)
        if stated > _MOST_OF_SNAPPY * len(block):
            raise NotDecompressed(f"records are no snappy: a block of {len(block)} bytes states {stated}")
        if before + stated > limit:
            raise RecordsTooLarge(_too_large(Compression.SNAPPY, limit))
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise NotDecompressed(f"records are no snappy: {error}") from None
