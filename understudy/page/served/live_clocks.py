"""`LiveClocks`: puts records of other boots and machines on this machine's clock while a run continues.

A run's messages bound the offsets of its clocks (`understudy.history.reading.clocks`), but only all of them together.
So while a run continues, the wall clocks align its clocks, with an error that is not known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from understudy.foundation.eventlog.records import Envelope, ProcessStarted
from understudy.history.reading.clocks import REFERENCE, WALL_CLOCK, Incarnation


class _OtherClock(NamedTuple):
    """The clock of an incarnation that was started in another boot."""

    machine: str
    boot: str
    offset_ms: float
    """Added to it, it is the time by this machine's clock."""


class LiveClocks:
    """The clocks of the incarnations of a run that continues.

    Args:
        boot: this machine's boot, as in `ProcessStarted`; empty if it is not known, and nothing is aligned then.
        wall_minus_mono_ms: this machine's wall clock minus its monotonic clock.
        machine: this machine's name.
    """

    def __init__(self, boot: str = "", wall_minus_mono_ms: float = 0.0, machine: str = "") -> None:
        self._boot = boot
        self._machine = machine
        self._wall_minus_mono_ms = wall_minus_mono_ms
        self._others: dict[Incarnation, _OtherClock] = {}

    def see(self, record: Envelope) -> None:
        """Note the clock of an incarnation that has started."""
        data = record.data
        if isinstance(data, ProcessStarted) and data.boot and self._boot and data.boot != self._boot:
            offset_ms = record.wall_ms - record.mono_ms - self._wall_minus_mono_ms
            self._others[record.node, record.incarnation] = _OtherClock(data.machine, data.boot, offset_ms)

    def offset_ms(self, record: Envelope) -> float:
        """Return what has to be added to the clock of a record for the time by this machine's clock."""
        if not self._others:
            return 0.0
        other = self._others.get((record.node, record.incarnation))
        return other.offset_ms if other is not None else 0.0

    def facts(self) -> dict[str, Any]:
        """Return the values of `run.json`; none if all records are of this machine's clock."""
        if not self._others:
            return {}
        boots: dict[tuple[str, str], list[Incarnation]] = {}
        for incarnation, other in sorted(self._others.items()):
            boots.setdefault((other.machine, other.boot), []).append(incarnation)
        rows = [
            ((self._machine, self._boot), REFERENCE, []),
            *((boot, WALL_CLOCK, own) for boot, own in boots.items()),
        ]
        return {
            "clocks": [
                {"machine": machine, "boot": boot, "evidence": evidence, "incarnations": own, "points": []}
                for (machine, boot), evidence, own in rows
            ],
            "clocks_note": (
                f"This run has the clocks of {len(rows)} boots. While it continues, the wall clocks align them, with "
                "an error that is not known. Run `understudy watch` again after its end: then messages align them."
            ),
        }
