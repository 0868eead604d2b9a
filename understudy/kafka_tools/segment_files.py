"""Opens the files of a log's folder for reading, without changing any, and finds the batches in a segment."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from understudy.foundation.records.batch import RecordBatch, batches
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord, UnsupportedMagic
from understudy.foundation.records.record import Record, records
from understudy.foundation.records.varint import Buffer
from understudy.kafka_tools.errors import API, ToolError, unreadable


@contextmanager
def in_file(path: Path) -> Iterator[Buffer]:
    """Yield the bytes of a file, which are read only when they are looked at. Raises ToolError."""
    try:
        with path.open("rb") as file:
            if not path.stat().st_size:
                yield b""
                return
            # Batches are views of the map; it goes away with the last of them.
            yield memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise _unreadable(path, error) from None


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file. Raises ToolError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None


def base_offset_of(path: Path) -> int:
    """Return the offset in the name of a segment's file. Raises ToolError if there is none."""
    stem = path.name.partition(".")[0]
    if not stem.isdecimal():
        raise ToolError("java.lang.NumberFormatException", f'For input string: "{stem}"')
    return int(stem)


def batches_in(log: Buffer, path: Path) -> Iterator[RecordBatch]:
    """Yield the batches of a segment. Raises ToolError if what follows is no batch of message format 2."""
    try:
        yield from batches(log)
    except CorruptRecord as error:
        raise ToolError(f"{API}CorruptRecordException", f"{error} in file {path}.") from None
    except UnsupportedMagic as error:
        raise ToolError(f"{API}UnsupportedVersionException", f"{error}, in file {path}") from None


def records_in(batch: RecordBatch) -> list[Record]:
    """Return the records of a batch. Raises ToolError if they cannot be read."""
    try:
        return list(records(batch))
    except (CorruptRecord, InvalidRecord) as error:
        raise unreadable(error) from None


def _unreadable(path: Path, error: OSError) -> ToolError:
    if isinstance(error, FileNotFoundError):
        return ToolError("java.nio.file.NoSuchFileException", str(path))
    return ToolError("java.io.IOException", f"{path}: {error.strerror}")
