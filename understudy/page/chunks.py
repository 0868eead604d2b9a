"""`Chunks`: the encoded records of a run, in compressed chunks that any number of readers can be sent."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from typing import Final

CHUNK_RECORDS: Final = 5_000
FAST: Final = 1
"""The level of gzip for chunks that are served on this machine. A better one costs more time than it saves."""
_BETWEEN: Final = b",\n"


class Chunks:
    """The records of one run in the order in which they were added; the number of a record never changes.

    Chunks that are full are kept compressed, the records of the last one as they are. It is used in one thread.

    Args:
        level: the level of gzip, from 1 to 9.
    """

    def __init__(self, *, level: int = FAST) -> None:
        self._level = level
        self.size = CHUNK_RECORDS
        """The number of records in a full chunk."""
        self._full: list[bytes] = []
        self._last: list[bytes] = []

    def __len__(self) -> int:
        """The number of records."""
        return len(self._full) * self.size + len(self._last)

    @property
    def count(self) -> int:
        """The number of chunks, with the one that is not full."""
        return len(self._full) + bool(self._last)

    @property
    def full(self) -> int:
        """The number of chunks that change no more."""
        return len(self._full)

    @property
    def compressed_bytes(self) -> int:
        """The size of all chunks, compressed."""
        return sum(map(len, self._full)) + (len(self._compressed(self._last)) if self._last else 0)

    def add(self, records: Iterable[bytes]) -> None:
        """Append records, each a JSON array without a newline."""
        for record in records:
            self._last.append(record)
            if len(self._last) == self.size:
                self._full.append(self._compressed(self._last))
                self._last = []

    def chunk(self, number: int) -> bytes:
        """Return a chunk, compressed by gzip: the text of a JSON array of records, a line for each.

        The chunk after the last full one may have no records.

        Raises:
            IndexError: there is no chunk of this number.
        """
        if not 0 <= number <= len(self._full):
            raise IndexError(f"there is no chunk {number}; the chunks are 0 to {len(self._full)}")
        return self._full[number] if number < len(self._full) else self._compressed(self._last)

    def records_in(self, number: int) -> int:
        """The number of records in a chunk."""
        return self.size if number < len(self._full) else len(self._last)

    def since(self, position: int, most: int) -> list[bytes]:
        """Return up to `most` records from a position on: the first record has position 0."""
        number, start = divmod(position, self.size)
        if number < len(self._full):
            text = gzip.decompress(self._full[number])[1:-1]
            return text.split(_BETWEEN)[start : start + most]
        return self._last[start : start + most] if number == len(self._full) else []

    def _compressed(self, records: list[bytes]) -> bytes:
        return gzip.compress(as_array(records), self._level, mtime=0)


def as_array(records: Iterable[bytes]) -> bytes:
    """Return the JSON array of encoded records, a line for each."""
    return b"[" + _BETWEEN.join(records) + b"]"
