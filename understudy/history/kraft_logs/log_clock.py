"""`LogClock` makes times of the run from the times of batches, each of which is by the clock of one epoch's leader."""

from __future__ import annotations

from understudy.history.kraft_logs.segments import MetadataBatch
from understudy.history.writing import counted


class LogClock:
    """The time of the run along the log.

    The order of the log is known, whatever the clocks of two leaders say. So if an epoch seems to begin before the end
    of the one before it, all of its times are moved by that much. Within an epoch a time that goes back becomes the
    time before it.

    Attributes:
        moved: by epoch, how far its times were moved, in milliseconds.
        shown_by: how far the times are moved that `wall_ms` is asked for.
    """

    def __init__(self) -> None:
        self.moved: dict[int, float] = {}
        self.shown_by = 0.0
        self._epoch = -1
        self._last_ms = 0.0

    def run_ms(self, batch: MetadataBatch) -> float:
        """Return the time of the run of the next batch."""
        if batch.epoch != self._epoch:
            self._epoch = batch.epoch
            if self._last_ms > batch.ms:
                self.moved[batch.epoch] = self._last_ms - batch.ms
        self._last_ms = max(self._last_ms, self.of_epoch(batch.epoch, batch.ms))
        return self._last_ms

    def advanced_to(self, ms: float) -> float:
        """Return the time of the run of a state from some time, before the next batch."""
        self._last_ms = max(self._last_ms, ms)
        return self._last_ms

    def of_epoch(self, epoch: int, ms: float) -> float:
        """Return the time of the run at a time of the clock of an epoch's leader."""
        return ms + self.moved.get(epoch, 0.0)

    def show(self, epoch: int | None) -> None:
        """Let `wall_ms` return times of the clock of an epoch's leader; None for a clock that was not moved."""
        self.shown_by = 0.0 if epoch is None else self.moved.get(epoch, 0.0)

    def wall_ms(self, run_ms: float) -> float:
        """Return the time of the shown clock at a time of the run."""
        return run_ms - self.shown_by

    def notes(self) -> list[str]:
        """Return which clocks contradict the order of the log, in words."""
        return [
            f"the clock of epoch {epoch}'s controller is behind the one before it by at least "
            f"{counted(round(ms), 'millisecond')}: the times of that epoch are moved by as much"
            for epoch, ms in self.moved.items()
        ]
