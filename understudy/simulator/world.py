"""What a simulated node stands on: its disk, clock, event log and points; and the `World` made of them.

A `Node` outlives its processes. Each start is an incarnation with a process, a session, connections and an event log of
its own; disk and clock go on. Times in logs begin at `EPOCH_MS`, so that two runs of a seed write the same bytes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from brokers.world import Storage, Volume, World
from foundation.eventlog.clock import Clock
from foundation.eventlog.fences import Fence, Fences
from foundation.eventlog.log import EventLog
from foundation.eventlog.points import Points
from foundation.eventlog.records import PointReached
from understudy.simulator.loop import Process, SimulatedLoop
from understudy.simulator.network import SimulatedNetwork
from understudy.simulator.randomness import derived
from understudy.simulator.zookeeper import SimulatedZooKeeper
from understudy.simulator.zookeeper_client import NodeZooKeeper

EPOCH_MS = 1_767_225_600_000.0
"""Wall time at the beginning of every simulation: 2026-01-01T00:00:00Z."""


VOLUME_BYTES = 2**40
"""What a node's disk holds: nobody runs out of it."""


class SimulatedClock:
    """A node's clock.

    Args:
        offset_ms: by how much its wall clock is wrong; may be changed during the run (a step).
        drift: how much faster its monotonic clock runs, for example 0.001.
    """

    def __init__(self, loop: SimulatedLoop, *, offset_ms: float = 0.0, drift: float = 0.0) -> None:
        self._loop = loop
        self.offset_ms = offset_ms
        self.drift = drift

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1000 * (1 + self.drift)

    def wall_ms(self) -> float:
        return EPOCH_MS + self.offset_ms + self._loop.time() * 1000


class SimulatedStorage:
    """A node's small files; they survive its processes."""

    directory = "/data"

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def lock(self) -> None:
        """Nobody else has this one."""

    def volume(self) -> Volume:
        return Volume(VOLUME_BYTES, VOLUME_BYTES - sum(map(len, self._files.values())))

    def read(self, path: str) -> bytes | None:
        return self._files.get(path)

    def write(self, path: str, data: bytes) -> None:
        self._files[path] = data

    def delete(self, path: str) -> None:
        self._files.pop(path, None)


class SimulatedPoints:
    """The points of one incarnation: an armed one pauses or crashes it, once, before another line of its code runs."""

    def __init__(self, node: Node, events: EventLog) -> None:
        self._node = node
        self._events = events

    async def reach(self, name: str) -> None:
        node = self._node
        if node.at_point is not None:
            node.at_point(name)
        if (armed := node.armed.pop(name, None)) is not None:
            self._events.append(PointReached(point=name, action=armed.action))
            armed.strike()
            await asyncio.sleep(0)  # the continuation belongs to a process that stands still now, or is dead


class Armed(NamedTuple):
    """What happens when a node next reaches a point."""

    action: str
    """Its name in the log: `pause` or `crash`."""
    strike: Callable[[], None]


class Node:
    """A machine of the simulation.

    Attributes:
        lines: the event log, by incarnation.
        chronicle: the lines of all nodes in the order in which they were written.
        switched_off: fences that let everything pass, from the next incarnation on.
        armed: what happens at which points.
        at_point: told of every point that is reached, before what it is armed with happens; it may arm that very point.
    """

    def __init__(
        self,
        name: str,
        *,
        run: str,
        seed: int,
        loop: SimulatedLoop,
        chronicle: list[bytes],
        switched_off: tuple[Fence, ...] = (),
    ) -> None:
        self.name = name
        self.chronicle = chronicle
        self.storage = SimulatedStorage()
        self.clock = SimulatedClock(loop)
        self.lines: dict[int, list[bytes]] = {}
        self.switched_off = switched_off
        self.process: Process | None = None
        self.events: EventLog | None = None
        self.fence_hits: Counter[Fence] = Counter()
        """Of all incarnations."""
        self._run = run
        self._seed = seed
        self._loop = loop
        self.armed: dict[str, Armed] = {}
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
        """Begin the next incarnation and return its world."""
        lines: list[bytes] = []

        def write(line: bytes) -> None:
            lines.append(line)
            self.chronicle.append(line)

        self.lines[self.incarnation + 1] = lines
        incarnation = self.incarnation
        self.process = process = self._loop.process(self.name, incarnation)
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
            storage=self.storage,
            events=self.events,
            fences=fences,
            points=SimulatedPoints(self, self.events),
        )

    def arm(self, point: str, action: str, strike: Callable[[], None]) -> None:
        """Have `strike` happen when this node next reaches `point`. `action` is its name in the log: `pause` or
        `crash`."""
        self.armed[point] = Armed(action, strike)

    def disarm(self) -> None:
        self.armed.clear()

    def dump(self, folder: Path) -> None:
        """Write the event log as the files a real node leaves."""
        folder.mkdir(parents=True, exist_ok=True)
        for incarnation, lines in self.lines.items():
            (folder / f"{self.name}-{incarnation:04d}-0001.jsonl").write_bytes(b"".join(lines))


_STORES: Callable[[SimulatedStorage], Storage] = lambda storage: storage  # noqa: E731  checked by mypy
_TELLS: Callable[[SimulatedClock], Clock] = lambda clock: clock  # noqa: E731
_REACHES: Callable[[SimulatedPoints], Points] = lambda points: points  # noqa: E731
