"""The newest offset of each key in the part of a log that is being compacted. Mirrors `SkimpyOffsetMap`.

A key is kept by its digest (`md5`, as in Kafka), so that long keys take no more memory than short ones.
"""

from __future__ import annotations

from hashlib import md5
from typing import Final

BYTES_PER_ENTRY: Final = 192
"""Number of bytes that an entry of a dictionary takes, about, with its digest and offset. In Kafka's table it is 24."""

NO_OFFSET: Final = -1


class OffsetMap:
    """The newest offsets of keys, as many as a buffer has room for.

    Args:
        buffer_bytes: `log.cleaner.dedupe.buffer.size` of one cleaner.
        load_factor: the share of it that may be used.

    Attributes:
        latest_offset: the offset up to which the log is in the map, with the records that have no key; -1 before any.
    """

    def __init__(self, buffer_bytes: int, load_factor: float) -> None:
        self._offsets: dict[bytes, int] = {}
        self._slots = max(1, buffer_bytes // BYTES_PER_ENTRY)
        # One key at least, or the log would never be compacted.
        self._most = max(1, int(self._slots * load_factor))
        self.latest_offset = NO_OFFSET

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def utilization(self) -> float:
        """The share of the buffer that is used."""
        return len(self._offsets) / self._slots

    def put(self, key: bytes, offset: int) -> bool:
        """Note that a key has a record at an offset, the newest so far; return False if there is no room for it.

        As in Kafka a full map takes no known key either, so that it ends at one offset.
        """
        if len(self._offsets) >= self._most:
            return False
        self._offsets[_digest(key)] = offset
        return True

    def newest(self, key: bytes) -> int:
        """Return the newest offset of a key; -1 if it is not in the map."""
        return self._offsets.get(_digest(key), NO_OFFSET)


def _digest(key: bytes) -> bytes:
    return md5(key, usedforsecurity=False).digest()
