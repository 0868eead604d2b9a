"""`RecordSequence` judges the sequence numbers and the clocks of one incarnation."""

from __future__ import annotations

from typing import TypeAlias

from understudy.history.reading.findings import CLOCK_WENT_BACK, GAP, REPEAT

Flaws: TypeAlias = tuple[tuple[str, int], ...]
"""The kind of each flaw, and how often it occurs: for a gap, how many numbers are missing."""


class RecordSequence:
    """The last sequence number of an incarnation that was read, and the clock of its record.

    A record is compared with the record before it. If records are given as they are read, the flaws are about their
    order; for the flaws of the whole log, they have to be sorted by number first.
    """

    __slots__ = ("mono_ms", "seq")

    def __init__(self) -> None:
        self.seq = 0
        self.mono_ms = 0.0

    def flaws(self, seq: int, mono_ms: float) -> Flaws:
        """Return the flaws of the next record. A repeat leaves the sequence as it was."""
        missing, goes_back = seq - self.seq - 1, mono_ms < self.mono_ms
        if missing < 0:
            return ((REPEAT, 1),)
        self.seq, self.mono_ms = seq, mono_ms
        if not missing and not goes_back:
            return ()
        return (*(((GAP, missing),) if missing else ()), *(((CLOCK_WENT_BACK, 1),) if goes_back else ()))
