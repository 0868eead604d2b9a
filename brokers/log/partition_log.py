"""The log of one partition, as far as replication and requests read it. Mirrors `kafka.log.UnifiedLog`."""

from __future__ import annotations

from typing import Protocol


class PartitionLog(Protocol):
    """The offsets of one partition's log on this broker."""

    @property
    def log_start_offset(self) -> int:
        """The offset of the first record that may be read."""

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets; `logEndOffset`, also LEO."""

    @property
    def high_watermark(self) -> int:
        """The offset up to which every in-sync replica has the log; a leader raises it, a follower is sent it."""

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which no transaction is open; consumers with READ_COMMITTED read up to here."""


class EmptyLog:
    """The log of a broker that serves no Produce: nothing is appended, and every offset is 0."""

    log_start_offset = 0
    log_end_offset = 0
    high_watermark = 0
    last_stable_offset = 0


EMPTY_LOG = EmptyLog()
"""The one log that all partitions share, because none of them has records."""
