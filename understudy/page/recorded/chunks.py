"""`Chunks`: the encoded records of a run, in compressed chunks that any number of readers can be sent."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from itertools import islice
from typing import Final

CHUNK_RECORDS: Final = 5_000
FAST: Final = 1
"""The level of gzip for chunks that are served on this machine. A better one costs more time than it saves."""
_BETWEEN: Final = b",\n"


class Chunks:
    """The records of one run in the order in which they were added; the number of a record never changes.

    Full chunks are kept compressed, the records of the last chunk uncompressed. All methods but `compress` are called
    in one thread.

    Args:
        level: the level of gzip, from 1 to 9.
        later: whether full chunks stay uncompressed until `compress` is called. A server calls it in another thread.
    """

    def __init__(self, *, level: int = FAST, later: bool = False) -> None:
        self._level = level
        self._later = later
        self.size = CHUNK_RECORDS
        """The number of records in a full chunk."""
        self._full: list[bytes] = []
        self._plain: dict[int, list[bytes]] = {}
        """The records of full chunks that are not compressed yet, whose places in `_full` are empty."""
        self._last: list[bytes] = []

    def __len__(self) -> int:
        """The number of records."""
        return len(self._full) * self.size + len(self._last)

    @property
    def count(self) -> int:
        """The number of chunks, including the last one, which is not full."""
        return len(self._full) + bool(self._last)

    @property
    def full(self) -> int:
        """The number of full chunks, which never change."""
        return len(self._full)

    @property
    def compressed_bytes(self) -> int:
        """The size of all chunks, compressed."""
        return sum(len(self.chunk(number)) for number in range(self.count))

    def add(self, records: Iterable[bytes]) -> None:
        """Append records, each a JSON array without a newline."""
        rest = iter(records)
        while more := list(islice(rest, self.size - len(self._last))):
            self._last += more
            if len(self._last) == self.size:
                self._plain[len(self._full)] = self._last
                self._full.append(b"")
                self._last = []
        if not self._later:
            self.compress()

    @property
    def can_compress(self) -> bool:
        """Whether `compress` has something to do."""
        return bool(self._plain)

    def is_compressed(self, number: int) -> bool:
        """Whether a chunk is full and compressed, so that sending it costs no processor time."""
        return number < len(self._full) and number not in self._plain

    def compress(self) -> None:
        """Compress the full chunks that are uncompressed, in any one thread; no other method waits for it."""
        for number, records in list(self._plain.items()):
            self._full[number] = self._compressed(records)
            del self._plain[number]

    def chunk(self, number: int) -> bytes:
        """Return a chunk, compressed by gzip: the text of a JSON array of records, a line for each.

        The chunk after the last full one may have no records.

        Raises:
            IndexError: there is no chunk of this number.
        """
        if not 0 <= number <= len(self._full):
            raise IndexError(f"there is no chunk {number}; the chunks are 0 to {len(self._full)}")
        plain = self._last if number == len(self._full) else self._plain.get(number)
        return self._full[number] if plain is None else self._compressed(plain)

    def records_in(self, number: int) -> int:
        """The number of records in a chunk."""
        return self.size if number < len(self._full) else len(self._last)

    def since(self, position: int, most: int) -> list[bytes]:
        """Return up to `most` records from a position on: the first record has position 0."""
        number, start = divmod(position, self.size)
        plain = self._last if number == len(self._full) else self._plain.get(number)
        if plain is None and number < len(self._full):
            text = gzip.decompress(self._full[number])[1:-1]
            return text.split(_BETWEEN)[start : start + most]
        return [] if plain is None else plain[start : start + most]

    def _compressed(self, records: list[bytes]) -> bytes:
        return gzip.compress(as_array(records), self._level, mtime=0)


def as_array(records: Iterable[bytes]) -> bytes:
    """Return the JSON array of encoded records, a line for each."""
    return b"[" + _BETWEEN.join(records) + b"]"
