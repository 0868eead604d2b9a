"""The leader epochs of one partition's log: in which epoch each offset was written. Mirrors `LeaderEpochFileCache`.

A follower truncates its log by them: it asks the leader where an epoch ended (KIP-101, KIP-279).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from understudy.brokers.log.checkpoint_file import EpochEntry
from understudy.foundation.records.batch import BatchHeader

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1

_EPOCH = itemgetter(0)
_START_OFFSET = itemgetter(1)


class EpochEnd(NamedTuple):
    """Where an epoch ended: the largest epoch up to the one asked for, and the offset after its last record."""

    epoch: int
    end_offset: int


UNDEFINED = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)


class LeaderEpochCache:
    """The epochs of a log, with ascending epochs and ascending start offsets.

    Args:
        entries: the entries of the checkpoint, in any order; entries that contradict later ones are dropped.
    """

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        for entry in entries:
            self._assign(entry)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest(self) -> EpochEntry | None:
        """The entry of the largest epoch, None if the log has no epoch."""
        return self._entries[-1] if self._entries else None

    @property
    def latest_epoch(self) -> int:
        return self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that records from `start_offset` on are of `epoch`; return whether the entries changed.

        Entries that contradict it, with an epoch or a start offset not below, are removed.

        Raises:
            ValueError: the epoch or offset is negative.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"Received invalid partition leader epoch entry ({epoch}, {start_offset})")
        return self._assign(EpochEntry(epoch, start_offset))

    def note(self, headers: Iterable[BatchHeader]) -> bool:
        """Note the epochs of batches that are appended; return whether the entries changed."""
        changed = False
        for header in headers:
            epoch = header.partition_leader_epoch
            if epoch >= 0 and epoch != self.latest_epoch:
                changed = self.assign(epoch, header.base_offset) or changed
        return changed

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Return where an epoch ended, as the answer to OffsetForLeaderEpoch.

        An epoch that is larger than all known ones has no end. One between known epochs ended where the next one began,
        and the answer names the epoch before it that has records here.
        """
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED
        if epoch == self.latest_epoch:
            return EpochEnd(epoch, log_end_offset)
        after = bisect_right(self._entries, epoch, key=_EPOCH)
        if after == len(self._entries):
            return UNDEFINED
        floor = self._entries[after - 1].epoch if after > 0 else epoch
        return EpochEnd(floor, self._entries[after].start_offset)

    def epoch_of(self, offset: int) -> int | None:
        """Return the epoch in which the record at an offset was written, None if it is before all entries."""
        place = bisect_right(self._entries, offset, key=_START_OFFSET)
        return self._entries[place - 1].epoch if place > 0 else None

    def previous_epoch(self, epoch: int) -> int | None:
        """Return the largest epoch below `epoch`, None without one."""
        place = bisect_left(self._entries, epoch, key=_EPOCH)
        return self._entries[place - 1].epoch if place > 0 else None

    def truncate_from_end(self, end_offset: int) -> bool:
        """Remove the epochs that begin at or after `end_offset`, where the log now ends; return whether there were."""
        if end_offset < 0:
            return False
        kept = bisect_left(self._entries, end_offset, key=_START_OFFSET)
        changed = kept < len(self._entries)
        del self._entries[kept:]
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Remove the epochs that ended before `start_offset`, where the log now begins; return whether it changed.

        The epoch of the record at `start_offset` stays, and begins there.
        """
        if start_offset < 0:
            return False
        after = bisect_right(self._entries, start_offset, key=_START_OFFSET)
        if after == 0:
            return False
        first = EpochEntry(self._entries[after - 1].epoch, start_offset)
        changed = after > 1 or self._entries[0] != first
        self._entries[:after] = [first]
        return changed

    def _assign(self, entry: EpochEntry) -> bool:
        latest = self.latest
        if latest is not None and entry.epoch == latest.epoch and entry.start_offset >= latest.start_offset:
            return False
        while self._entries and (
            self._entries[-1].epoch >= entry.epoch or self._entries[-1].start_offset >= entry.start_offset
        ):
            self._entries.pop()
        self._entries.append(entry)
        return True
