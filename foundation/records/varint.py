"""Reads and writes the signed varints of records, in zigzag coding. Mirrors `org.apache.kafka.common.utils.ByteUtils`.

Readers take a buffer and a position and return the value and the position after it.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

_MAX_INT_SHIFT: Final = 28
_MAX_LONG_SHIFT: Final = 63
_INT_MASK: Final = 0xFFFFFFFF
_LONG_MASK: Final = 0xFFFFFFFFFFFFFFFF


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Read an int32.

    Raises:
        IndexError: the buffer ends in it.
        ValueError: it has more than five bytes.
    """
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    second = data[position + 1]
    if second < 0x80:
        value = byte & 0x7F | second << 7
        return (value >> 1) ^ -(value & 1), position + 2
    return _read_rest(data, position + 1, byte & 0x7F, _MAX_INT_SHIFT, _INT_MASK)


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """Read an int64.

    Raises:
        IndexError: the buffer ends in it.
        ValueError: it has more than ten bytes.
    """
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read_rest(data, position + 1, byte & 0x7F, _MAX_LONG_SHIFT, _LONG_MASK)


def _read_rest(data: Buffer, position: int, value: int, max_shift: int, mask: int) -> tuple[int, int]:
    for shift in range(7, max_shift + 1, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # Java also drops the bits beyond the type.
            value &= mask
            return (value >> 1) ^ -(value & 1), position
    raise ValueError(f"a varint has more than {max_shift // 7 + 1} bytes")


def varint(value: int) -> bytes:
    """Return an int32 or int64 as a varint. A value beyond 64 bits is a mistake of the caller.

    Raises:
        OverflowError: the value has more than 64 bits.
    """
    if -64 <= value < 64:
        return _ONE_BYTE[value + 64]
    if not -(2**63) <= value < 2**63:
        raise OverflowError(f"{value} has more than 64 bits")
    rest = ((value << 1) ^ (value >> 63)) & _LONG_MASK
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_ONE_BYTE: Final = tuple(bytes([(value << 1) ^ (value >> 63)]) for value in range(-64, 64))
"""Varints of one byte, for the numbers from -64 to 63."""
