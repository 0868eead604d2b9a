"""Event logs for tests: several nodes write lines with one clock, which the test sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import Envelope, Payload


@dataclass
class HandClock:
    now_ms: float = 1000.0

    def monotonic_ms(self) -> float:
        return self.now_ms

    def wall_ms(self) -> float:
        return 1_700_000_000_000.0 + self.now_ms


@dataclass
class Logs:
    """The event logs of one run: `logs.node("broker-1").append(...)` writes, `logs.lines` holds the written lines."""

    run: str = "run-1"
    clock: HandClock = field(default_factory=HandClock)
    lines: dict[str, list[bytes]] = field(default_factory=dict)
    _logs: dict[tuple[str, int], EventLog] = field(default_factory=dict)

    def node(self, name: str, incarnation: int = 1) -> EventLog:
        if (name, incarnation) not in self._logs:
            sink = self.lines.setdefault(f"{name}-{incarnation:04d}-0001.jsonl", [])
            self._logs[name, incarnation] = EventLog(
                run=self.run, node=name, incarnation=incarnation, clock=self.clock, write=sink.append
            )
        return self._logs[name, incarnation]

    def at(self, ms: float, name: str, payload: Payload, *, cause: int | None = None, incarnation: int = 1) -> int:
        """Write `payload` on `name` when the clock shows `ms`."""
        self.clock.now_ms = ms
        return self.node(name, incarnation).append(payload, cause=cause)


def by_run(records: Iterable[Envelope]) -> dict[str, list[Envelope]]:
    """Return the records of each run, runs sorted by id."""
    runs: dict[str, list[Envelope]] = {}
    for record in records:
        runs.setdefault(record.run, []).append(record)
    return {run: runs[run] for run in sorted(runs)}
