"""Reads and writes the snapshots of producers, `NNN.snapshot`: what each producer has appended up to an offset.

A broker that starts reads the newest one instead of the whole log. Mirrors the format of `ProducerStateManager`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

import msgspec
from crc32c import crc32c

VERSION: Final = 1

NO_OFFSET: Final = -1

_HEAD: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")


class CorruptSnapshot(ValueError):
    """A snapshot that cannot be read. The message names the file and the mistake."""


class ProducerEntry(msgspec.Struct, frozen=True, gc=False):
    """What a snapshot has of one producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """Of the last record that it appended; -1 if there was only a marker of a transaction."""
    last_offset: int
    offset_delta: int
    """From the first to the last record of its last batch."""
    timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int
    """Where its open transaction begins; `NO_OFFSET` without one."""


def encode(entries: Sequence[ProducerEntry]) -> bytes:
    """Return the bytes of a snapshot."""
    body = _COUNT.pack(len(entries)) + b"".join(_ENTRY.pack(*msgspec.structs.astuple(entry)) for entry in entries)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode(name: str, data: bytes) -> list[ProducerEntry]:
    """Return the producers of a snapshot.

    Raises:
        CorruptSnapshot: the version is unknown, the checksum differs, or bytes are missing or left.
    """
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptSnapshot(f"Snapshot {name} is corrupt: it has {len(data)} bytes")
    version, stored = _HEAD.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshot(f"Snapshot {name} contained an unknown file version {version}; expected {VERSION}")
    computed = crc32c(memoryview(data)[_HEAD.size :])
    if computed != stored:
        raise CorruptSnapshot(
            f"Snapshot {name} is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
        )
    (count,) = _COUNT.unpack_from(data, _HEAD.size)
    begin = _HEAD.size + _COUNT.size
    if count < 0 or begin + count * _ENTRY.size != len(data):
        raise CorruptSnapshot(f"Snapshot {name} is corrupt: it states {count} producers in {len(data)} bytes")
    return list(_entries(data, begin))


def _entries(data: bytes, begin: int) -> Iterable[ProducerEntry]:
    return (ProducerEntry(*fields) for fields in _ENTRY.iter_unpack(memoryview(data)[begin:]))
