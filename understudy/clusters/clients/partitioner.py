"""Chooses the partition of a record: by the hash of its key, or one that stays the same for a while.

Mirrors `BuiltInPartitioner`, the default of Kafka's producer since 3.3 (KIP-794).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from understudy.foundation.cluster.java import signed_32

BATCH_SIZE: Final = 16_384
"""The default of `batch.size`."""

_SEED: Final = 0x9747B28C
_MIX: Final = 0x5BD1E995
_MASK: Final = 0xFFFF_FFFF


def murmur2(data: bytes) -> int:
    """Return the hash of a key, in 32 signed bits. Mirrors `Utils.murmur2`."""
    hashed = _SEED ^ len(data)
    whole = len(data) & ~3
    for place in range(0, whole, 4):
        block = int.from_bytes(data[place : place + 4], "little") * _MIX & _MASK
        block = (block ^ block >> 24) * _MIX & _MASK
        hashed = hashed * _MIX & _MASK ^ block
    if rest := data[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _MIX & _MASK
    hashed = (hashed ^ hashed >> 13) * _MIX & _MASK
    return signed_32(hashed ^ hashed >> 15)


def to_positive(number: int) -> int:
    """Return an `int` without its sign bit, which is not its absolute value. Mirrors `Utils.toPositive`."""
    return number & 0x7FFF_FFFF


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key. Mirrors `BuiltInPartitioner.partitionForKey`."""
    return to_positive(murmur2(key)) % partitions


class StickyPartition:
    """The partition of records without a key: a random one, until `batch_size` bytes were sent to it.

    Kafka weights the choice by the queues of the partitions (`partitioner.adaptive.partitioning.enable`); here all
    queues count as equally long.

    Args:
        available: the partitions that have a leader.
        batch_size: the producer's `batch.size`, in bytes.
    """

    def __init__(self, available: Sequence[int], source: random.Random, *, batch_size: int = BATCH_SIZE) -> None:
        self._available = available
        self._source = source
        self._batch_size = batch_size
        self._sent_bytes = 0
        self._current = source.choice(available)

    def partition_for(self, size: int) -> int:
        """Return the partition of a record that takes `size` bytes of a batch."""
        partition = self._current
        self._sent_bytes += size
        if self._sent_bytes >= self._batch_size:
            self._sent_bytes = 0
            self._current = self._source.choice(self._available)
        return partition
