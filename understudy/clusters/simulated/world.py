"""A simulated node: its disk, clock, event log and points, and the `World` that its broker gets.

A `Node` outlives its processes. Each start is an incarnation with its own process, session, connections and event log;
all incarnations share the node's disk and clocks. Wall clocks start at `EPOCH_MS`, so that two runs of a seed write the
same event logs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from understudy.brokers.world import World
from understudy.clusters.simulated.clocks import SHARED_BOOT, EventLogClock, SimulatedClock, own_boot
from understudy.clusters.simulated.disk import SimulatedDisk
from understudy.clusters.simulated.loop import Process, SimulatedLoop
from understudy.clusters.simulated.network import SimulatedNetwork
from understudy.clusters.simulated.node_log import NodeLog
from understudy.clusters.simulated.randomness import derived
from understudy.clusters.simulated.zookeeper import SimulatedZooKeeper
from understudy.clusters.simulated.zookeeper_client import NodeZooKeeper
from understudy.foundation.eventlog.fences import Fences, Switch
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import PointReached
from understudy.foundation.wire.armed_answers import AnswerList


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


class Armed(NamedTuple):
    """A fault that is injected when a node next reaches a point."""

    action: str
    """The name of the fault in the event log: `pause` or `crash`."""
    inject: Callable[[], None]


class Node:
    """A machine of the simulation, on which the processes of one broker, or of the testbed, run one after the other.

    Args:
        broker_id: the id of its broker; −1 for the testbed.
        has_own_clock: whether the machine has a monotonic clock of its own, drawn from the seed.

    Attributes:
        clock: what its processes measure time with.
        log: the node's event log.
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
        broker_id: int = -1,
        has_own_clock: bool = False,
    ) -> None:
        self.name = name
        self.log_lines = log_lines
        self.disk = SimulatedDisk()
        self.clock = SimulatedClock(loop)
        self._has_own_clock = has_own_clock
        self._boot_number = 0
        self.event_clock = EventLogClock(loop, self.clock, SHARED_BOOT)
        self.log = NodeLog(name, run=run, clock=self.event_clock, write=log_lines.append)
        self.switched_off = switched_off
        self.process: Process | None = None
        self.events: EventLog | None = None
        self.fence_hits: Counter[Switch] = Counter()
        """Number of times that each fence was reached with an old epoch, in all incarnations."""
        self._broker_id = broker_id
        self._seed = seed
        self._loop = loop
        self._boot()
        self.armed: dict[str, Armed] = {}
        self.answers = AnswerList()
        self.at_point: Callable[[str], None] | None = None

    @property
    def incarnation(self) -> int:
        return self.log.incarnation

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
        zookeeper_servers: Sequence[int] = (),
    ) -> World:
        """Start the next incarnation, write the first record of its event log, and return its world.

        Args:
            zookeeper_servers: the ids of the servers in its connect string; by default all.
        """
        self.disk.end_process()
        incarnation = self.incarnation + 1
        self.process = process = self._loop.process(self.name, incarnation)
        self.disk.faults.stall = process.stall
        role = "simulator" if self._broker_id < 0 else "broker"
        self.events = self.log.start(role, broker_id=self._broker_id, machine=self.name)
        fences = Fences(self.events, switched_off=self.switched_off)
        fences.hits = self.fence_hits
        return World(
            zookeeper=NodeZooKeeper(
                server,
                self.name,
                session_timeout_ms=session_timeout_ms,
                connection_timeout_ms=connection_timeout_ms,
                servers=zookeeper_servers,
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
        """Undo changes that were not flushed to the disk, as the seed draws them, and boot again.

        The process has ended.
        """
        self.disk.lose_power(derived(self._seed, self.name, "loss of power", self.incarnation))
        self._boot()

    def _boot(self) -> None:
        """Begin the next boot of its machine; a machine that shares a clock keeps it."""
        if self._has_own_clock:
            self._boot_number += 1
            self.event_clock.boot = own_boot(self._seed, self.name, self._boot_number, self._loop.now * 1000)

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
