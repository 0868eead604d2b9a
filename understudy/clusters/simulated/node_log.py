"""`NodeLog`: the event log of a simulated node, kept in memory until it is written as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from understudy.clusters.simulated.clocks import Boot, EventLogClock
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import ProcessStarted


class NodeLog:
    """The event logs of one node's processes, one incarnation for each.

    Args:
        clock: the clock of its records.
        write: called with each line, for the log of the whole run.

    Attributes:
        lines: the lines of the log, by incarnation.
        boots: the boot of each incarnation, whose clock its event log has.
    """

    def __init__(self, name: str, *, run: str, clock: EventLogClock, write: Callable[[bytes], None]) -> None:
        self.name = name
        self.lines: dict[int, list[bytes]] = {}
        self.boots: dict[int, Boot] = {}
        self._run = run
        self._clock = clock
        self._write = write

    @property
    def incarnation(self) -> int:
        return len(self.lines)

    @property
    def last_seq(self) -> int:
        """The last sequence number in the log of the last incarnation; 0 if there is none."""
        return len(self.lines.get(self.incarnation, ()))

    def start(self, role: str, *, broker_id: int = -1, machine: str) -> EventLog:
        """Begin the next incarnation's log with its `ProcessStarted`, and return it."""
        after_seq = self.last_seq
        lines: list[bytes] = []
        write_to_run = self._write

        def write(line: bytes) -> None:
            lines.append(line)
            write_to_run(line)

        incarnation = self.incarnation + 1
        self.lines[incarnation] = lines
        self.boots[incarnation] = self._clock.boot
        events = EventLog(run=self._run, node=self.name, incarnation=incarnation, clock=self._clock, write=write)
        events.append(
            ProcessStarted(
                role=role,
                broker_id=broker_id,
                software="understudy",
                machine=machine,
                boot=self._clock.boot.text,
                after_seq=after_seq,
                has_testbed=True,
            )
        )
        return events

    def dump(self, folder: Path) -> None:
        """Write the event log as the files that a process leaves."""
        folder.mkdir(parents=True, exist_ok=True)
        for incarnation, lines in self.lines.items():
            (folder / f"{self.name}-{incarnation:04d}-0001.jsonl").write_bytes(b"".join(lines))
