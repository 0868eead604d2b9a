"""Finds, reads, deletes and renames the segments of a log, which are in a list by base offset.

Mirrors `org.apache.kafka.storage.internals.log.LogSegments`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from understudy.brokers.log.log_files import DELETED, SWAP
from understudy.brokers.log.segment import LogSegment
from understudy.brokers.world import Disk
from understudy.foundation.records.batch import BatchHeader, RecordBatch
from understudy.foundation.records.varint import Buffer

_BASE_OFFSET: Final = attrgetter("base_offset")


def place_of(segments: Sequence[LogSegment], offset: int) -> int:
    """Return the place of the segment that has an offset; 0 for one before them all."""
    return max(bisect_right(segments, offset, key=_BASE_OFFSET) - 1, 0)


def batches_from(segments: Sequence[LogSegment], offset: int) -> Iterator[RecordBatch]:
    """Yield the batches that end at or after an offset: the first may begin before it."""
    for segment in segments[place_of(segments, offset) :]:
        found = segment.find(max(offset, segment.base_offset))
        if found is not None:
            for _, batch in segment.batches(found.position):
                yield batch


def read_from(
    segments: Sequence[LogSegment], offset: int, max_bytes: int, *, end_offset: int | None, min_one: bool
) -> Buffer:
    """Return batches from the one that has `offset` on, of one segment; takes what `LogSegment.read` does."""
    for place in range(place_of(segments, offset), len(segments)):
        data = segments[place].read(offset, max_bytes, end_offset=end_offset, min_one=min_one)
        if data is not None:
            return data
    return b""


def parts_of(headers: Sequence[BatchHeader], max_bytes: int) -> Iterator[tuple[BatchHeader, ...]]:
    """Yield batches in groups of at most `max_bytes`: a fetch may be larger than a segment. A larger batch is alone."""
    begin, size = 0, 0
    for place, header in enumerate(headers):
        if place > begin and size + header.size > max_bytes:
            yield tuple(headers[begin:place])
            begin, size = place, 0
        size += header.size
    if headers:
        yield tuple(headers[begin:])


def delete_last_first(disk: Disk, segments: Sequence[LogSegment]) -> None:
    """Delete the files of segments. Those that are left when it is interrupted have no segment missing in between."""
    for segment in reversed(segments):
        for path in segment.files():
            disk.delete(path)


def rename_to_deleted(disk: Disk, segment: LogSegment) -> list[str]:
    """Let the files of a segment end in `.deleted`; return their new paths."""
    renamed = []
    for path in segment.files():
        if disk.size(path) is not None:
            disk.rename(path, path + DELETED)
            renamed.append(path + DELETED)
    return renamed


class DeletedFiles:
    """The files of segments that a log has removed, which stay for `file.delete.delay.ms`."""

    __slots__ = ("_disk", "_due")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._due: list[tuple[float, str]] = []

    def add(self, paths: Iterable[str], due_ms: float) -> None:
        self._due += [(due_ms, path) for path in paths]

    def delete_due(self, now_ms: float) -> bool:
        """Delete the files whose time has come; return whether others wait."""
        while self._due and self._due[0][0] <= now_ms:
            self._disk.delete(self._due.pop(0)[1])
        return bool(self._due)


def swap_in(disk: Disk, folder: str, cleaned: LogSegment, replaced: Sequence[LogSegment]) -> list[str]:
    """Let a flushed segment, whose files end in `.cleaned`, take the place of others; return the paths to delete.

    Whenever it is interrupted, `LogLoader` finds the old segments or the new one: the new one is complete once its
    files end in `.swap`. Nothing of a step may be lost with the power when the next one is not. Mirrors
    `LocalLog.replaceSegments`.
    """
    cleaned.rename(SWAP)
    disk.flush_directory(folder)
    deleted = []
    for segment in replaced:
        deleted += rename_to_deleted(disk, segment)
        # In order, or a loss of power could bring back a record without the later one that deletes it.
        disk.flush_directory(folder)
    cleaned.rename("")
    disk.flush_directory(folder)
    return deleted
