"""Flushes the files of a log, perhaps on another thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import NamedTuple

from brokers.log.log_files import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from brokers.log.segment import LogSegment
from brokers.world import Disk


class FlushPlan(NamedTuple):
    """Files whose flush makes a log durable up to an offset. `run` may be called on another thread."""

    folder: str
    paths: tuple[str, ...]
    end_offset: int
    generation: int

    def run(self, disk: Disk) -> None:
        """Flush the files and their folder. What is gone was deleted with its segment or its partition.

        Raises:
            OSError: the disk fails; the broker has to stop.
        """
        for path in self.paths:
            with contextlib.suppress(FileNotFoundError):
                disk.flush(path)
        with contextlib.suppress(FileNotFoundError):
            disk.flush_directory(self.folder)


def plan_of(
    folder: str, segments: Iterable[LogSegment], snapshots: tuple[str, ...], end_offset: int, generation: int
) -> FlushPlan:
    """Return the plan for segments and snapshots of producers, with the leader epochs and the topic's id."""
    paths = tuple(path for segment in dict.fromkeys(segments) for path in segment.files())
    checkpoints = (f"{folder}/{LEADER_EPOCH_CHECKPOINT}", f"{folder}/{PARTITION_METADATA}")
    return FlushPlan(folder, (*paths, *snapshots, *checkpoints), end_offset, generation)
