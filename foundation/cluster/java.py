"""Computes hashes and 32-bit integers as Java does, because Kafka's choices depend on them."""

from __future__ import annotations

import struct


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: 31 times the hash so far plus the next UTF-16 unit, in 32 signed bits (CO-1)."""
    hashed = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le")):
        hashed = (31 * hashed + unit) & 0xFFFF_FFFF
    return signed_32(hashed)


def signed_32(number: int) -> int:
    """Return the `int` that the lowest 32 bits of a number stand for."""
    low = number & 0xFFFF_FFFF
    return low - (1 << 32) if low >> 31 else low
