"""`LiveClocks`: aligns records of other boots and machines to this machine's clock while a run continues.

A run's messages bound the offsets of its clocks (`understudy.history.reading.clocks`), but only all of them together.
So while a run continues, its clocks are aligned by the wall clocks, whose error is not known.
"""

from __future__ import annotations

from understudy.foundation.eventlog.records import Envelope, ProcessStarted
from understudy.history.reading.clocks import Incarnation


class LiveClocks:
    """The clocks of the incarnations of a run that continues.

    Args:
        boot: this machine's boot, as in `ProcessStarted`; empty if it is not known, and nothing is aligned then.
        wall_minus_mono_ms: this machine's wall clock minus its monotonic clock.
    """

    def __init__(self, boot: str = "", wall_minus_mono_ms: float = 0.0) -> None:
        self._boot = boot
        self._wall_minus_mono_ms = wall_minus_mono_ms
        self._offsets_ms: dict[Incarnation, float] = {}
        self._boots: set[str] = set()

    @property
    def are_several(self) -> bool:
        """Whether records of another boot than this machine's were aligned."""
        return bool(self._offsets_ms)

    @property
    def note(self) -> str:
        """A sentence for the page; empty if all records are of this machine's clock."""
        if not self.are_several:
            return ""
        return (
            f"This run has the clocks of {len(self._boots) + 1} boots. While it continues, the wall clocks align them, "
            "with an error that is not known. Run `understudy watch` again after its end: then messages align them."
        )

    def see(self, record: Envelope) -> None:
        """Note the clock of an incarnation that has started."""
        data = record.data
        if isinstance(data, ProcessStarted) and data.boot and self._boot and data.boot != self._boot:
            ahead_ms = record.wall_ms - record.mono_ms - self._wall_minus_mono_ms
            self._offsets_ms[record.node, record.incarnation] = ahead_ms
            self._boots.add(data.boot)

    def offset_ms(self, record: Envelope) -> float:
        """Return what has to be added to the clock of a record for the time by this machine's clock."""
        return self._offsets_ms.get((record.node, record.incarnation), 0.0) if self._offsets_ms else 0.0
