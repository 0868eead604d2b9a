"""Writes, finds and deletes the snapshot files of producers in the folder of a log.

A snapshot is named by the offset up to which it reflects the log. Mirrors the file handling of `ProducerStateManager`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import structlog

from understudy.brokers.log import producer_snapshot
from understudy.brokers.log.log_files import SNAPSHOT, file_name, offset_of
from understudy.brokers.log.log_segments import batches_from, place_of
from understudy.brokers.log.producer_snapshot import CorruptSnapshot, ProducerEntry
from understudy.brokers.log.producer_state import ProducerStateManager
from understudy.brokers.log.record_errors import api_error
from understudy.brokers.log.segment import LogSegment
from understudy.brokers.world import Disk
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import NO_PRODUCER_ID, BatchHeader, RecordBatch
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord
from understudy.foundation.records.varint import Buffer

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.log.ProducerStateManager")


class ProducerSnapshots:
    """The snapshots of one log.

    Args:
        names: the files in the log's folder.
        partition, expiration_ms: as in `ProducerStateManager`.

    Attributes:
        offsets: of the snapshots there are, ascending.
    """

    __slots__ = ("_disk", "_expiration_ms", "_folder", "_partition", "offsets")

    def __init__(
        self, disk: Disk, folder: str, names: Iterable[str], *, partition: TopicPartition, expiration_ms: int
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._partition = partition
        self._expiration_ms = expiration_ms
        self.offsets = tuple(
            sorted(offset for name in names if name.endswith(SNAPSHOT) and (offset := offset_of(name)) is not None)
        )

    def new_producers(self, entries: Iterable[ProducerEntry], end_offset: int) -> ProducerStateManager:
        """Return the producers that a snapshot at `end_offset` has."""
        return ProducerStateManager(
            entries, partition=self._partition, end_offset=end_offset, expiration_ms=self._expiration_ms
        )

    def path(self, offset: int) -> str:
        return f"{self._folder}/{file_name(offset, SNAPSHOT)}"

    def take(self, producers: ProducerStateManager, *, log_start_offset: int, flush: bool = False) -> bool:
        """Write a snapshot as of the end of `producers`, unless there is one or the log begins there.

        Returns:
            Whether one was written.
        """
        offset = producers.end_offset
        is_new = offset > (self.offsets[-1] if self.offsets else log_start_offset)
        if is_new:
            self._disk.write(self.path(offset), producer_snapshot.encode(producers.entries()), flush=flush)
            self.offsets = (*self.offsets, offset)
        return is_new

    def newest(self, *, log_start_offset: int) -> tuple[int, list[ProducerEntry]] | None:
        """Return the newest snapshot that can be read, with its offset; None without one inside the log.

        Those that cannot be read are deleted.
        """
        for offset in reversed(self.offsets):
            if offset < log_start_offset:
                return None
            path = self.path(offset)
            try:
                return offset, producer_snapshot.decode(path, self._disk.read(path) or b"")
            except CorruptSnapshot as corrupt:
                log.warning("a snapshot of producers is not used", why=str(corrupt))
                self.delete(offset)
        return None

    def rebuild(
        self,
        segments: Sequence[LogSegment],
        *,
        log_start_offset: int,
        log_end_offset: int,
        now_ms: float,
    ) -> ProducerStateManager:
        """Return the producers as of the log's end: from the newest usable snapshot, then from the batches after it.

        Snapshots of segments after it are lost, and are written again: compaction may remove all batches of a producer
        below a segment, because it has appended later ones, and these may be lost or truncated.
        """
        self.delete_after(log_end_offset)
        newest = self.newest(log_start_offset=log_start_offset)
        offset, entries = (log_start_offset, []) if newest is None else newest
        producers = self.new_producers(entries, offset)
        producers.remove_expired(int(now_ms))
        for segment in segments[place_of(segments, offset) :]:
            if segment.base_offset > offset and not producers.is_empty:
                producers.end_offset = segment.base_offset
                self.take(producers, log_start_offset=log_start_offset, flush=True)
            for batch in batches_from((segment,), offset):
                producers.append(batch)
        producers.end_offset = log_end_offset
        return producers

    def delete(self, offset: int) -> None:
        """Delete a snapshot; harmless if there is none."""
        if offset in self.offsets:
            self._disk.delete(self.path(offset))
            self.offsets = tuple(each for each in self.offsets if each != offset)

    def delete_after(self, offset: int) -> bool:
        """Delete the snapshots of offsets that the log no longer reaches; return whether there were any."""
        beyond = [each for each in self.offsets if each > offset]
        for each in beyond:
            self.delete(each)
        return bool(beyond)

    def delete_strays(self, bases: Collection[int]) -> None:
        """Delete the snapshots at whose offset no segment begins, except the newest."""
        for each in self.offsets[:-1]:
            if each not in bases:
                self.delete(each)


def note_producers(producers: ProducerStateManager, data: Buffer, headers: Sequence[BatchHeader]) -> None:
    """Note batches that are added to the log; `data` has them one after the other.

    Raises:
        ApiError: INVALID_RECORD or UNKNOWN_SERVER_ERROR, a control batch cannot be read.
    """
    if any(header.producer_id > NO_PRODUCER_ID for header in headers):
        view, position = memoryview(data), 0
        for header in headers:
            try:
                producers.append(RecordBatch(header, view[position : position + header.size]))
            except (CorruptRecord, InvalidRecord) as error:
                raise api_error(error) from None
            position += header.size
    producers.end_offset = headers[-1].next_offset
