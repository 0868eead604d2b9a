"""Flushes the files of a log, perhaps on another thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from understudy.brokers.log.log_files import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from understudy.brokers.log.log_segments import place_of
from understudy.brokers.log.segment import LogSegment
from understudy.brokers.world import Disk


class FlushPlan(NamedTuple):
    """Files whose flush makes a log durable up to an offset. `run` may be called on another thread."""

    folder: str
    paths: tuple[str, ...]
    end_offset: int
    generation: int

    def run(self, disk: Disk) -> None:
        """Flush the files and their folder. A file that is gone was deleted with its segment or its partition.

        Raises:
            OSError: the disk fails; the broker has to stop.
        """
        for path in self.paths:
            with contextlib.suppress(FileNotFoundError):
                disk.flush(path)
        with contextlib.suppress(FileNotFoundError):
            disk.flush_directory(self.folder)


def unflushed(segments: Sequence[LogSegment], recovery_point: int, end_offset: int) -> list[LogSegment]:
    """Return the segments of a log with offsets from its recovery point to `end_offset`; write their index files.

    After a recovery the indexes of closed segments are in memory, and those on disk may be of another content.
    """
    found = segments[place_of(segments, recovery_point) :]
    for segment in found[:-1]:
        segment.close()
    return [segment for segment in found if segment.base_offset < end_offset]


def plan_of(
    folder: str, segments: Iterable[LogSegment], snapshots: tuple[str, ...], end_offset: int, generation: int
) -> FlushPlan:
    """Return the plan for segments and snapshots of producers, with the leader epochs and the topic's id."""
    paths = tuple(path for segment in dict.fromkeys(segments) for path in segment.files())
    checkpoints = (f"{folder}/{LEADER_EPOCH_CHECKPOINT}", f"{folder}/{PARTITION_METADATA}")
    return FlushPlan(folder, (*paths, *snapshots, *checkpoints), end_offset, generation)
