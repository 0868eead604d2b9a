"""Recognises event-log files as unchanged, as grown, as copies, or as files of another run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import BinaryIO

import msgspec

from understudy.history.storage.paths import storage_path

_END_BYTES = 1024
"""Number of bytes at the beginning and at the end of a file that its checksums cover."""


class FileMark(msgspec.Struct, frozen=True, kw_only=True):
    """The properties by which a file is recognised when it is read again."""

    path: str
    """Absolute path, or URL."""
    bytes: int
    head: str
    """Checksum of its beginning."""
    tail: str
    """Checksum of its end."""


def mark(path: str) -> FileMark:
    """Return the mark of a file.

    Raises:
        OSError: it cannot be read.
    """
    with storage_path(path).open("rb") as stream:
        size = stream.seek(0, 2)
        return FileMark(path=path, bytes=size, head=_head(stream, size), tail=_tail(stream, size))


def continues(path: str, known: FileMark) -> bool:
    """Return whether a file begins with the bytes of which `known` is the mark: it is the same file, or has grown.

    Only the beginning and the end of the known bytes are compared.

    Raises:
        OSError: it cannot be read.
    """
    with storage_path(path).open("rb") as stream:
        if stream.seek(0, 2) < known.bytes:
            return False
        return _head(stream, known.bytes) == known.head and _tail(stream, known.bytes) == known.tail


def same_content(files: Sequence[str]) -> bool:
    """Return whether all files have the same marks but for their paths."""
    marks = [mark(file) for file in files]
    return len({(each.bytes, each.head, each.tail) for each in marks}) == 1


def by_name(files: Iterable[str]) -> dict[str, list[str]]:
    """Return the paths by the name of the file, which has the node, the incarnation and the number of the file."""
    found: dict[str, list[str]] = {}
    for file in files:
        found.setdefault(file.rpartition("/")[2], []).append(file)
    return found


def _head(stream: BinaryIO, size: int) -> str:
    stream.seek(0)
    return _checksum(stream.read(min(size, _END_BYTES)))


def _tail(stream: BinaryIO, size: int) -> str:
    begin = max(size - _END_BYTES, 0)
    stream.seek(begin)
    return _checksum(stream.read(size - begin))


def _checksum(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
