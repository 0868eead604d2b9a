"""Compressed bytes as other libraries and damaged producers write them, built by hand."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence

import cramjam

LZ4_MAGIC = 0x184D2204
LINKED, INDEPENDENT, BLOCK_CHECKSUM, CONTENT_SIZE, CONTENT_CHECKSUM = 0x00, 0x20, 0x10, 0x08, 0x04
VERSION_1 = 0x40
BLOCKS_OF_64_KB = 0x40
NOT_COMPRESSED = 0x8000_0000


def xxh32(data: bytes) -> int:
    """The checksum of lz4's frames, as the library computes it of the content of a frame."""
    return int.from_bytes(bytes(cramjam.lz4.compress(data))[-4:], "little")


def lz4_frame(
    *blocks: bytes,
    flags: int = INDEPENDENT,
    version: int = VERSION_1,
    block_sizes: int = BLOCKS_OF_64_KB,
    magic: int = LZ4_MAGIC,
    content_size: int | None = None,
    content_checksum: int | None = None,
    header_checksum: int | None = None,
    block_checksum: int | None = None,
    stored: bool = False,
    end: bytes = bytes(4),
) -> bytes:
    """A frame of lz4 with a block for each part of the content.

    Args:
        content_size, content_checksum, header_checksum, block_checksum: by default the right ones.
        stored: whether the blocks are not compressed.
        end: the end mark.
    """
    content = b"".join(blocks)
    descriptor = bytes((flags | version, block_sizes))
    if flags & CONTENT_SIZE:
        descriptor += struct.pack("<Q", len(content) if content_size is None else content_size)
    parts = [struct.pack("<I", magic), descriptor]
    parts.append(bytes(((xxh32(descriptor) >> 8 & 0xFF if header_checksum is None else header_checksum),)))
    for block in blocks:
        data = block if stored else bytes(cramjam.lz4.compress_block(block, store_size=False))
        parts += [struct.pack("<I", len(data) | (NOT_COMPRESSED if stored else 0)), data]
        if flags & BLOCK_CHECKSUM:
            parts.append(struct.pack("<I", xxh32(data) if block_checksum is None else block_checksum))
    parts.append(end)
    if flags & CONTENT_CHECKSUM:
        parts.append(struct.pack("<I", xxh32(content) if content_checksum is None else content_checksum))
    return b"".join(parts)


def lz4_linked(data: bytes) -> bytes:
    """A frame whose blocks refer to the blocks before them: the default of some libraries of lz4."""
    compressor = cramjam.lz4.Compressor(block_linked=True)
    compressor.compress(data)
    return bytes(compressor.finish())


def snappy_stream(*blocks: bytes, version: int = 1) -> bytes:
    """A stream of snappy-java with one block for each part."""
    compressed = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    header = b"\x82SNAPPY\x00" + struct.pack(">ii", version, 1)
    return header + b"".join(struct.pack(">i", len(block)) + block for block in compressed)


def gzip_members(parts: Sequence[bytes]) -> bytes:
    return b"".join(gzip.compress(part, mtime=0) for part in parts)


def zstd_frames(parts: Sequence[bytes]) -> bytes:
    return b"".join(bytes(cramjam.zstd.compress(part)) for part in parts)


def skippable_frame(data: bytes = b"skipped") -> bytes:
    """A frame that readers of lz4 and zstd skip."""
    return struct.pack("<II", 0x184D2A50, len(data)) + data
