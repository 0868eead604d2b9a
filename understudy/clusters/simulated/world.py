"""A simulated node: its disk, clock, event log and points, and the `World` that its broker gets.

A `Node` outlives its processes. Each start is an incarnation with its own process, session, connections and event log;
all incarnations share the node's disk and clock. Wall clocks start at `EPOCH_MS`, so that two runs of a seed write the
same event logs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from understudy.brokers.world import World
from understudy.clusters.simulated.disk import SimulatedDisk
from understudy.clusters.simulated.loop import Process, SimulatedLoop
from understudy.clusters.simulated.network import SimulatedNetwork
from understudy.clusters.simulated.randomness import derived
from understudy.clusters.simulated.zookeeper import SimulatedZooKeeper
from understudy.clusters.simulated.zookeeper_client import NodeZooKeeper
from understudy.foundation.eventlog.fences import Fences, Switch
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import PointReached
from understudy.foundation.wire.armed_answers import AnswerList

EPOCH_MS = 1_767_225_600_000.0
"""The wall clock at the start of every simulation: 2026-01-01T00:00:00Z."""


class RunLog(list[bytes]):
    """The lines of all nodes' event logs, in the order in which they were written.

    Attributes:
        observe: called with each line when it has been written, in the middle of the callback that writes it.
    """

    observe: Callable[[bytes], None] | None = None

    def append(self, line: bytes) -> None:
        super().append(line)
        if self.observe is not None:
            self.observe(line)


class SimulatedClock:
    """A node's clock."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.offset_ms = 0.0
        """Time by which its wall clock is ahead; may be changed during the run (a step)."""
        self.drift = 0.0
        """Fraction by which its monotonic clock runs too fast, for example 0.001."""
        self._rate = 1.0
        self._since_ms = 0.0

    def monotonic_ms(self) -> float:
        return self._loop.now * 1000 * (1 + self.drift)

    def wall_ms(self) -> float:
        now_ms = EPOCH_MS + self.offset_ms + self._loop.now * 1000
        return now_ms if self._rate == 1.0 else now_ms + self._drifted_ms()

    def run_at(self, rate: float) -> None:
        """Let the wall clock run at another speed from now on: 1.0 is the right speed; at 0.0 it stands still."""
        self.offset_ms += self._drifted_ms()
        self._rate, self._since_ms = rate, self._loop.now * 1000

    def correct(self) -> None:
        """Set the wall clock to the right time and speed."""
        self.offset_ms, self._rate = 0.0, 1.0

    def _drifted_ms(self) -> float:
        return (self._rate - 1.0) * (self._loop.now * 1000 - self._since_ms) if self._rate != 1.0 else 0.0


class Armed(NamedTuple):
    """A fault that is injected when a node next reaches a point."""

    action: str
    """The name of the fault in the event log: `pause` or `crash`."""
    inject: Callable[[], None]


class Node:
    """A machine of the simulation, on which the processes of one broker run one after the other.

    Attributes:
        lines: the lines of the node's event log, by incarnation.
        log_lines: the lines of all nodes' event logs, in the order in which they were written.
        switched_off: fences and fixes that are switched off, from the next incarnation on.
        armed: the armed faults, by point.
        answers: the armed answers, which outlive a process.
        at_point: called with the name of each point that is reached, before an armed fault is injected; it may arm a
            fault at that point.
    """

    def __init__(
        self,
        name: str,
        *,
        run: str,
        seed: int,
        loop: SimulatedLoop,
        log_lines: list[bytes],
        switched_off: tuple[Switch, ...] = (),
    ) -> None:
        self.name = name
        self.log_lines = log_lines
        self.disk = SimulatedDisk()
        self.clock = SimulatedClock(loop)
        self.lines: dict[int, list[bytes]] = {}
        self.switched_off = switched_off
        self.process: Process | None = None
        self.events: EventLog | None = None
        self.fence_hits: Counter[Switch] = Counter()
        """Number of times that each fence was reached with an old epoch, in all incarnations."""
        self._run = run
        self._seed = seed
        self._loop = loop
        self.armed: dict[str, Armed] = {}
        self.answers = AnswerList()
        self.at_point: Callable[[str], None] | None = None

    @property
    def incarnation(self) -> int:
        return len(self.lines)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.alive

    def start(
        self,
        server: SimulatedZooKeeper,
        network: SimulatedNetwork,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int,
    ) -> World:
        """Start the next incarnation, and return its world."""
        self.disk.end_process()
        lines: list[bytes] = []

        def write(line: bytes) -> None:
            lines.append(line)
            self.log_lines.append(line)

        self.lines[self.incarnation + 1] = lines
        incarnation = self.incarnation
        self.process = process = self._loop.process(self.name, incarnation)
        self.disk.faults.stall = process.stall
        self.events = EventLog(run=self._run, node=self.name, incarnation=incarnation, clock=self.clock, write=write)
        fences = Fences(self.events, switched_off=self.switched_off)
        fences.hits = self.fence_hits
        return World(
            zookeeper=NodeZooKeeper(
                server,
                self.name,
                session_timeout_ms=session_timeout_ms,
                connection_timeout_ms=connection_timeout_ms,
            ),
            network=network.node(process),
            clock=self.clock,
            random=derived(self._seed, self.name, incarnation),
            disk=self.disk,
            events=self.events,
            fences=fences,
            points=self,
            answers=self.answers,
        )

    def lose_power(self) -> None:
        """Undo changes that were not flushed to the disk, as the seed draws them; the process has ended."""
        self.disk.lose_power(derived(self._seed, self.name, "loss of power", self.incarnation))

    def arm(self, point: str, action: str, inject: Callable[[], None]) -> None:
        """Call `inject` when this node next reaches `point`.

        Args:
            action: the name of the fault in the event log: `pause` or `crash`.
        """
        self.armed[point] = Armed(action, inject)

    async def reach(self, name: str) -> None:
        """Inject the fault that is armed at a point, if there is one; it is injected once. Implements `Points`."""
        if self.at_point is not None:
            self.at_point(name)
        if (armed := self.armed.pop(name, None)) is not None:
            assert self.events is not None, "a process has reached the point"
            self.events.append(PointReached(point=name, action=armed.action))
            armed.inject()
            await asyncio.sleep(0)  # the process has been paused or killed: it does not continue

    def dump(self, folder: Path) -> None:
        """Write the event log as the files that a broker process leaves."""
        folder.mkdir(parents=True, exist_ok=True)
        for incarnation, lines in self.lines.items():
            (folder / f"{self.name}-{incarnation:04d}-0001.jsonl").write_bytes(b"".join(lines))
