"""Flushes the files of a log, perhaps on another thread."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

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
