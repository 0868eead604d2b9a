"""Checks frames of lz4 as Kafka does, which implements a part of their format. Mirrors `Lz4BlockInputStream`.

Kafka refuses blocks that refer to blocks before them, which some libraries of lz4 write by default: its consumers
cannot read such a batch either. It reads one frame and ignores the bytes behind it. It does not verify the size and the
checksum of the content, which a frame may state.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from understudy.foundation.records.errors import NotDecompressed

_MAGIC: Final = b"\x04\x22\x4d\x18"
_DESCRIPTOR_AT: Final = 4
_DESCRIPTOR_BYTES: Final = 2
_CONTENT_SIZE_BYTES: Final = 8
_CHECKSUM_BYTES: Final = 4
_BLOCK_SIZE: Final = Struct("<I")
_NOT_COMPRESSED: Final = 0x8000_0000
_END_MARK: Final = bytes(4)

_RESERVED: Final = 0b0000_0011
_CONTENT_CHECKSUM: Final = 0b0000_0100
_CONTENT_SIZE: Final = 0b0000_1000
_BLOCK_CHECKSUM: Final = 0b0001_0000
_BLOCK_INDEPENDENCE: Final = 0b0010_0000
_VERSION_SHIFT: Final = 6
_VERSION: Final = 1


def checked_frame(data: memoryview, *, ignores_header_checksum: bool = False) -> memoryview:
    """Return the first frame in `data` without size and checksum of its content, and with a right header checksum.

    Blocks are not decompressed, and their checksums not verified: the library of lz4 does both.

    Args:
        ignores_header_checksum: take a frame of message format 0, whose header checksum old clients compute wrongly.

    Raises:
        NotDecompressed: Kafka refuses the frame by its descriptor or by the sizes of its blocks, or it is cut off.
    """
    size = len(data)
    if size < _DESCRIPTOR_AT + _DESCRIPTOR_BYTES:
        raise _cut_off(size)
    magic = bytes(data[:_DESCRIPTOR_AT])
    if magic != _MAGIC:
        raise NotDecompressed(f"records are no lz4: they begin with {magic.hex()}, not {_MAGIC.hex()}")
    flags, block_descriptor = data[_DESCRIPTOR_AT], data[_DESCRIPTOR_AT + 1]
    max_block = _max_block(flags, block_descriptor)
    begin = _DESCRIPTOR_AT + _DESCRIPTOR_BYTES + (_CONTENT_SIZE_BYTES if flags & _CONTENT_SIZE else 0) + 1
    if begin > size:
        raise _cut_off(size)
    stated, computed = data[begin - 1], _header_checksum(bytes(data[_DESCRIPTOR_AT : begin - 1]))
    if stated != computed and not ignores_header_checksum:
        raise NotDecompressed(f"records are no lz4: the checksum of the frame's header is {stated}, not {computed}")
    end = _end_of_blocks(data, begin, max_block, _CHECKSUM_BYTES if flags & _BLOCK_CHECKSUM else 0)
    if flags & _CONTENT_CHECKSUM and end + _CHECKSUM_BYTES > size:
        raise _cut_off(size)
    if not flags & (_CONTENT_CHECKSUM | _CONTENT_SIZE) and stated == computed and data[end - 1] == 0:
        return data[:end]
    descriptor = bytes((flags & ~(_CONTENT_CHECKSUM | _CONTENT_SIZE), block_descriptor))
    header = _MAGIC + descriptor + bytes((_header_checksum(descriptor),))
    return memoryview(b"".join((header, data[begin : end - len(_END_MARK)], _END_MARK)))


def _max_block(flags: int, block_descriptor: int) -> int:
    """Return the maximum size of a block, in bytes.

    Raises:
        NotDecompressed: the frame has a version, bits or block sizes that Kafka does not support.
    """
    version, block_size = flags >> _VERSION_SHIFT, block_descriptor >> 4
    refusal = None
    if flags & _RESERVED:
        refusal = "Reserved bits must be 0"
    elif not flags & _BLOCK_INDEPENDENCE:
        refusal = "Dependent block stream is unsupported; the producer has to write independent blocks"
    elif version != _VERSION:
        refusal = f"Version {version} is unsupported"
    elif block_descriptor & 0x0F:
        refusal = "Reserved2 field must be 0"
    elif block_size & 0x08:
        refusal = "Reserved3 field must be 0"
    elif block_size < 4:
        refusal = f"Block size value must be between 4 and 7, and is {block_size}"
    if refusal is not None:
        raise NotDecompressed(f"records in lz4 have a frame that Kafka refuses: {refusal}")
    return 1 << (2 * block_size + 8)


def _end_of_blocks(data: memoryview, position: int, max_block: int, checksum_bytes: int) -> int:
    """Return the position after the end mark of the blocks that begin at `position`.

    Raises:
        NotDecompressed: a block is too large, or the bytes end before the end mark.
    """
    size = len(data)
    while position + _BLOCK_SIZE.size <= size:
        (stated,) = _BLOCK_SIZE.unpack_from(data, position)
        position += _BLOCK_SIZE.size
        block = stated & ~_NOT_COMPRESSED
        if not block:
            return position
        if block > max_block:
            raise NotDecompressed(f"records are no lz4: Block size {block} exceeded max: {max_block}")
        position += block + checksum_bytes
    raise _cut_off(size)


def _cut_off(size: int) -> NotDecompressed:
    return NotDecompressed(f"records are no lz4: Stream ended prematurely, after {size} bytes")


# ------------------------------------------------------------------ the checksum of a header

_PRIME_1: Final = 0x9E3779B1
_PRIME_2: Final = 0x85EBCA77
_PRIME_3: Final = 0xC2B2AE3D
_PRIME_4: Final = 0x27D4EB2F
_PRIME_5: Final = 0x165667B1
_MASK: Final = 0xFFFF_FFFF


@lru_cache(maxsize=64)
def _header_checksum(descriptor: bytes) -> int:
    """Return the second byte of a descriptor's xxHash of 32 bits. It has 2 or 10 bytes; from 16 on the hash differs."""
    value = _PRIME_5 + len(descriptor)
    words = len(descriptor) // 4 * 4
    for at in range(0, words, 4):
        value = value + int.from_bytes(descriptor[at : at + 4], "little") * _PRIME_3 & _MASK
        value = _rotated(value, 17) * _PRIME_4 & _MASK
    for byte in descriptor[words:]:
        value = value + byte * _PRIME_5 & _MASK
        value = _rotated(value, 11) * _PRIME_1 & _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return (value ^ value >> 16) >> 8 & 0xFF


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
