"""`MirroredOffsets` maps the offsets of a copied partition to its source's and back. Mirrors `OffsetSyncStore`.

MirrorMaker 2 writes an offset sync after the records were copied. Here a run, its counterpart, is stored before the
first record that needs it is sent, so that every end that the target's log can have has exactly one position in the
source.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

LIMIT: Final = 64
"""Number of runs of a partition above which older ones are left out. Mirrors `OffsetSyncStore.SYNCS_PER_PARTITION`."""
_RECENT: Final = 32
"""Number of newest runs, none of which is left out."""


class Run(NamedTuple):
    """Offsets that follow each other on both sides.

    Attributes:
        source, target: the offsets of its first record.
        dense: how many records follow each other without a gap on both sides; None for the last run, to which records
            are still added. 0 if a batch had gaps, because then only its beginning is known.
    """

    source: int
    target: int
    dense: int | None


class Position(NamedTuple):
    """The source offset at which reading continues.

    Attributes:
        is_exact: whether all records before it are in the target, and none after it.
    """

    source: int
    is_exact: bool


class MirroredOffsets:
    """The runs of one partition, ascending; the last is open."""

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._runs = list(runs)

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(self._runs)

    def add(self, first: int, following: int, target: int, count: int) -> bool:
        """Note a batch that will be the next one in the target; return whether the runs have changed.

        Args:
            first: the source offset of its first record.
            following: the source offset after the batch.
            target: the offset that its first record will have.
            count: its records.
        """
        is_dense = following - first == count
        if is_dense and self._runs and self._runs[-1].dense is None and self._expected(target) == first:
            return False
        if self._runs and first < self._expected(target):
            # The source was truncated: earlier runs no longer have its offsets.
            self._runs.clear()
        while self._runs and self._runs[-1].target >= target:
            self._runs.pop()
        if self._runs and self._runs[-1].dense is None:
            last = self._runs[-1]
            self._runs[-1] = last._replace(dense=target - last.target)
        if is_dense:
            self._runs.append(Run(first, target, None))
        else:
            self._runs += (Run(first, target, 0), Run(following, target + count, None))
        return True

    def truncate(self, end: int) -> None:
        """Leave out the runs that were planned after the target's end, and continue the last run from there."""
        while self._runs and self._runs[-1].target > end:
            self._runs.pop()
        if self._runs and (dense := self._runs[-1].dense) is not None and end - self._runs[-1].target <= dense:
            self._runs[-1] = self._runs[-1]._replace(dense=None)

    def thin(self, confirmed: int) -> None:
        """Leave out every second of the older runs if there are more than `LIMIT`.

        Args:
            confirmed: the target's acknowledged end; runs after it are kept.
        """
        while len(self._runs) > LIMIT:
            old = sum(run.target <= confirmed for run in self._runs) - _RECENT
            if old < 3:
                return
            self._runs[1:old] = self._runs[2:old:2]

    def position_for(self, end: int) -> Position | None:
        """Return the position in the source for a target whose log ends at `end`; None if it is not known."""
        run = next((run for run in reversed(self._runs) if run.target <= end), None)
        if run is None:
            return None
        beyond = end - run.target
        dense = beyond if run.dense is None else run.dense
        return Position(run.source + min(beyond, dense), beyond <= dense)

    def translate(self, offset: int, end: int) -> int | None:
        """Return the target offset of a group's committed source offset; None if nothing was copied yet.

        It is never after the record that the group would read next. If runs were left out or a batch had gaps, it
        may be before it: the group reads some records again, as with MirrorMaker 2.

        Args:
            end: the target's acknowledged end.
        """
        if not self._runs or end < self._runs[0].target:
            return None
        found = self._runs[0]
        for run in self._runs:
            if run.source <= offset and run.target <= end:
                found = run
        beyond = max(0, offset - found.source)
        return min(found.target + (beyond if found.dense is None else min(beyond, found.dense)), end)

    def _expected(self, target: int) -> int:
        """The source offset that would follow without a gap."""
        last = self._runs[-1]
        return last.source + (target - last.target if last.dense is None else last.dense)
