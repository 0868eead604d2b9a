"""`NodeLog` reads the log of `__cluster_metadata` that one node keeps: its segments and snapshots.

A segment `<base offset>.log` has record batches, a snapshot `<end offset>-<epoch>.checkpoint` also. Each checksum is
compared. The last segment of a node that was killed may end within a batch; that end is left out and named. Offsets
that are missing between two batches begin another stretch.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from understudy.foundation.records.batch import RecordBatch, check_crc, read_header, size_of_first
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord, UnsupportedMagic
from understudy.foundation.records.record import records
from understudy.history.kafka_logs.wrapping import LogError
from understudy.history.kraft_logs.metadata_records import Decoded, decode_control, decode_metadata

PARTITION: Final = "__cluster_metadata-0"
"""Name of the folder with the log, in a node's `metadata.log.dir`."""

_SEGMENT: Final = re.compile(r"(?P<offset>\d{20})\.log")
_SNAPSHOT: Final = re.compile(r"(?P<offset>\d{20})-(?P<epoch>\d{10})\.checkpoint")
_QUORUM_STATE: Final = "quorum-state"
_NODE_ID: Final = re.compile(r"^(?:node|broker)\.id\s*=\s*(\d+)\s*$", re.MULTILINE)


class MetadataBatch(NamedTuple):
    """A batch of `__cluster_metadata`.

    Attributes:
        next_offset: the offset after its last record.
        epoch: the epoch of the leader that appended it.
        ms: when the leader appended it, in milliseconds since 1970 by its wall clock.
        is_control: whether its records are the quorum's own.
    """

    base_offset: int
    next_offset: int
    epoch: int
    ms: int
    is_control: bool
    batch: RecordBatch
    place: str
    """The file and the position in it."""

    def decoded(self) -> Iterator[Decoded]:
        """Decode its records. Raises LogError."""
        try:
            for record in records(self.batch):
                if self.is_control:
                    yield decode_control(record.key or b"", record.value or b"")
                else:
                    yield decode_metadata(record.value or b"")
        except (CorruptRecord, InvalidRecord) as error:
            raise _corrupt(self.place, str(error)) from None


class Snapshot(NamedTuple):
    """A snapshot: the state of the cluster after all records below `end_offset`."""

    end_offset: int
    epoch: int
    path: Path

    def batches(self) -> Iterator[MetadataBatch]:
        """Yield its batches. Raises LogError."""
        torn = yield from _batches(self.path)
        if torn:
            raise _corrupt(f"{self.path}, {torn}", "the snapshot ends within a batch")


@dataclass(slots=True)
class Stretch:
    """Offsets of a log without a gap.

    Attributes:
        end: the offset after the last one.
        starts: the first offset of each epoch in it; `epochs`: these epochs; `checksums`: of their first batches.
        last_ms: the time of its last batch.
    """

    first: int
    end: int
    starts: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    checksums: list[int] = field(default_factory=list)
    last_ms: int = 0

    def epoch_at(self, offset: int) -> int:
        return self.epochs[bisect_right(self.starts, offset) - 1]

    def add(self, batch: MetadataBatch) -> None:
        """Append the batch that begins at `end`."""
        if not self.epochs or batch.epoch != self.epochs[-1]:
            self.starts.append(batch.base_offset)
            self.epochs.append(batch.epoch)
            self.checksums.append(batch.batch.header.crc)
        self.end, self.last_ms = batch.next_offset, batch.ms


class NodeLog:
    """The log of one node.

    Args:
        folder: a folder `__cluster_metadata-0`, or one that contains it.
        name: the node's name; by default it is made of its id in `meta.properties`, or else of the folder.

    Attributes:
        stretches: the offsets that it has, ascending.
        leader: the epoch and the leader in its `quorum-state`; None if that names no leader.
        torn: the place at which its last segment ends within a batch; empty if it does not.
        batches_scanned: the number of batches.

    Raises:
        LogError: the folder has no such log, or a file of it is corrupt.
    """

    def __init__(self, folder: Path, name: str = "") -> None:
        self.folder = _folder_of_log(folder)
        self.name = name or _name_of_node(self.folder)
        self._segments = sorted(path for path in self.folder.iterdir() if _SEGMENT.fullmatch(path.name))
        self.snapshots = sorted(
            Snapshot(int(match["offset"]), int(match["epoch"]), path)
            for path in self.folder.iterdir()
            if (match := _SNAPSHOT.fullmatch(path.name))
        )
        self.leader = _leader(self.folder / _QUORUM_STATE)
        self.stretches: list[Stretch] = []
        self.torn = ""
        self.batches_scanned = 0
        self._scan()

    @property
    def end(self) -> tuple[int, int]:
        """The last epoch and the offset after the last record, as a vote compares them; (−1, 0) if it is empty."""
        if not self.stretches:
            return -1, 0
        last = self.stretches[-1]
        return last.epochs[-1], last.end

    def batches(self, first: int, end: int) -> Iterator[MetadataBatch]:
        """Yield the batches that begin at `first` or later and before `end`. Raises LogError."""
        for path, following in zip(self._segments, (*self._segments[1:], None), strict=True):
            if following is not None and _base_offset(following) <= first:
                continue
            if _base_offset(path) >= end:
                return
            for batch in _batches(path):
                if first <= batch.base_offset < end:
                    yield batch

    def _scan(self) -> None:
        """Read all batches once, so that a corrupt one is found before anything is imported."""
        for path in self._segments:
            batches = _batches(path)
            while True:
                try:
                    batch = next(batches)
                except StopIteration as end:
                    torn = end.value
                    break
                self.batches_scanned += 1
                self._extend(batch)
            if torn and path != self._segments[-1]:
                raise _corrupt(f"{path}, {torn}", "it ends within a batch, and is not the last segment")
            self.torn = f"{path}, {torn}" if torn else ""

    def _extend(self, batch: MetadataBatch) -> None:
        last = self.stretches[-1] if self.stretches else None
        if last is not None and batch.base_offset < last.end:
            raise _corrupt(batch.place, f"offset {batch.base_offset} follows offset {last.end - 1}")
        if last is None or batch.base_offset > last.end:
            last = Stretch(batch.base_offset, batch.base_offset)
            self.stretches.append(last)
        if last.epochs and batch.epoch < last.epochs[-1]:
            raise _corrupt(batch.place, f"epoch {batch.epoch} follows epoch {last.epochs[-1]}")
        last.add(batch)


def _batches(path: Path) -> Generator[MetadataBatch, None, str]:
    """Yield the batches of a file; return the position of one that is cut off, as text, or an empty text."""
    view, position = memoryview(path.read_bytes()), 0
    while position < len(view):
        place = f"{path}, position {position:,}"
        try:
            size = size_of_first(view, position)
            if size is None or position + size > len(view):
                return f"position {position:,}"
            batch = RecordBatch(read_header(view, position), view[position : position + size])
            check_crc(batch)
        except (CorruptRecord, UnsupportedMagic) as error:
            if not any(view[position:]):
                return f"position {position:,}"  # a file system that lost its power fills a file with zeros
            raise _corrupt(place, str(error)) from None
        header = batch.header
        yield MetadataBatch(
            header.base_offset,
            header.next_offset,
            header.partition_leader_epoch,
            header.max_timestamp,
            header.is_control,
            batch,
            place,
        )
        position += size
    return ""


def _corrupt(place: str, why: str) -> LogError:
    return LogError(f"{place}: {why}; copy the folder {PARTITION} again, or leave this one out and give another node's")


def _base_offset(path: Path) -> int:
    return int(path.name[:20])


def _folder_of_log(folder: Path) -> Path:
    """Return the folder with the log. Raises LogError."""
    try:
        for each in (folder, folder / PARTITION):
            if each.is_dir() and any(_SEGMENT.fullmatch(p.name) or _SNAPSHOT.fullmatch(p.name) for p in each.iterdir()):
                return each
    except OSError as error:
        raise LogError(f"{folder}: {error.strerror}") from None
    what = "is no folder" if not folder.is_dir() else f"holds no log of {PARTITION}"
    raise LogError(
        f"{folder} {what}; expected a node's folder {PARTITION} with files such as {0:020}.log, or the log directory "
        "that contains it (metadata.log.dir, or else the first of log.dirs)"
    )


def _name_of_node(folder: Path) -> str:
    """Return a name of the node that keeps a log, from its `meta.properties` or of its folder."""
    properties = folder.parent / "meta.properties"
    if properties.is_file() and (match := _NODE_ID.search(properties.read_text(encoding="utf-8", errors="replace"))):
        return f"node {match[1]}"
    return str(folder)


def _leader(path: Path) -> tuple[int, int] | None:
    """Return the epoch and the leader that a node has last noted; None if its file is not there or names none."""
    try:
        state = msgspec.json.decode(path.read_bytes(), type=_QuorumState)
    except (OSError, msgspec.MsgspecError):
        return None
    return (state.epoch, state.leader) if state.leader >= 0 else None


class _QuorumState(msgspec.Struct):
    epoch: int = msgspec.field(name="leaderEpoch")
    leader: int = msgspec.field(name="leaderId", default=-1)
