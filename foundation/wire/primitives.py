"""Reads and writes Kafka's primitive types other than integers of fixed size.

Two families exist. *Legacy* versions put an int16 before a string and an int32 before bytes and arrays, -1 for null.
*Flexible* versions (KIP-482) put an unsigned varint of length + 1, 0 for null, and close every struct with tagged
fields. Mirrors `ByteUtils`, `Readable` and `Writable` of `org.apache.kafka.common.protocol`.

Readers take `data` and a position and return a value and the position after it; on malformed bytes they raise
`ValueError` or `IndexError`, and `diagnosis` finds the field. Writers return bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

MAX_STRING_BYTES: Final = 0x7FFF
"""Maximum length of a string, in bytes; Kafka refuses longer ones also if the type of the length allows them."""

_MAX_VARINT_SHIFT: Final = 28
_UINT32_MAX: Final = 0xFFFFFFFF

_int16 = Struct(">h").pack


# ------------------------------------------------------------------ unsigned varints


def read_uvarint(data: bytes, pos: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes and 32 bits."""
    value = data[pos]
    if value < 0x80:
        return value, pos + 1
    return read_rest_of_uvarint(data, pos + 1, value)


def read_rest_of_uvarint(data: bytes, pos: int, first: int) -> tuple[int, int]:
    """Read the rest of a varint whose first byte was `first` (0x80 or more); `pos` is after that byte."""
    value = first & 0x7F
    for shift in range(7, _MAX_VARINT_SHIFT + 1, 7):
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _UINT32_MAX:
                raise ValueError("varint exceeds 32 bits")
            return value, pos
    raise ValueError("varint is longer than five bytes")


def write_uvarint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    if value > _UINT32_MAX:
        raise ValueError(f"{value} exceeds 32 bits")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE: Final = tuple(bytes([value]) for value in range(0x80))


# ------------------------------------------------------------------ strings


def write_compact_string(text: str) -> bytes:
    raw = _utf8(text)
    return write_uvarint(len(raw) + 1) + raw


def write_legacy_string(text: str) -> bytes:
    raw = _utf8(text)
    return _int16(len(raw)) + raw


def _utf8(text: str) -> bytes:
    raw = text.encode()
    if len(raw) > MAX_STRING_BYTES:
        raise ValueError(f"string of {len(raw)} bytes; at most {MAX_STRING_BYTES} can be sent")
    return raw


# ------------------------------------------------------------------ tagged fields


def skip_tagged_fields(data: bytes, pos: int, count: int) -> int:
    """Return the position after `count` tagged fields. `count` is checked: each has at least two bytes."""
    if count >= 0x80:
        count, pos = read_rest_of_uvarint(data, pos, count)
    if 2 * count > len(data) - pos:
        raise ValueError("more tagged fields than bytes")
    for _ in range(count):
        _, pos = read_uvarint(data, pos)
        size, pos = read_uvarint(data, pos)
        pos += size
    if pos > len(data):
        raise ValueError("tagged fields reach beyond the end")
    return pos


def write_tagged_field(number: int, value: bytes) -> bytes:
    return write_uvarint(number) + write_uvarint(len(value)) + value


# ------------------------------------------------------------------ arrays of integers

_Unpack: TypeAlias = Callable[[bytes, int], tuple[int, ...]]
_Shape: TypeAlias = tuple[Callable[..., bytes] | int | bytes, ...]


class IntegerArrays(dict[int, _Unpack]):
    """Readers of arrays of integers, by length: one `struct` call for each array. Only short ones are cached."""

    _LONGEST_KEPT: Final = 256

    def __init__(self, code: str) -> None:
        super().__init__()
        self._code = code

    def __missing__(self, count: int) -> _Unpack:
        if count < 0:
            raise ValueError("negative array length")
        unpack = Struct(f">{count}{self._code}").unpack_from
        if count <= self._LONGEST_KEPT:
            self[count] = unpack
        return unpack


class Shapes(dict[tuple[int, ...], _Shape]):
    """Packers of integers with arrays of integers in between, by the arrays' lengths.

    `parts` are the `struct` letters of the integers before, between and after the arrays; `array_codes` has one letter
    for each array. A *shape* is the `pack` for these lengths, followed by the encoded lengths: a partition with its
    replicas is packed by one call.
    """

    most_kept: Final = 4096

    def __init__(self, parts: tuple[str, ...], array_codes: tuple[str, ...], *, flexible: bool) -> None:
        super().__init__()
        self._parts = parts
        self._array_codes = array_codes
        self._flexible = flexible

    def __missing__(self, lengths: tuple[int, ...]) -> _Shape:
        if len(self) >= self.most_kept:
            self.clear()  # lengths are chosen by users and peers: memory stays bounded, the next calls build anew
        layout = ">" + self._parts[0]
        prefixes: list[int | bytes] = []
        for length, code, after in zip(lengths, self._array_codes, self._parts[1:], strict=True):
            if not self._flexible:
                layout += "i"
                prefixes.append(length)
            elif length < 0x7F:
                layout += "B"
                prefixes.append(length + 1)
            else:
                prefix = write_uvarint(length + 1)
                layout += f"{len(prefix)}s"
                prefixes.append(prefix)
            layout += f"{length}{code}" + after
        shape = (Struct(layout).pack, *prefixes)
        self[lengths] = shape
        return shape
