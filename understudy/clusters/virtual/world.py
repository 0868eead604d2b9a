"""`VirtualWorld`: the processes of a user's code beside the brokers of one simulated cluster."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from understudy.clusters.nearest_word import did_you_mean
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.virtual import machine
from understudy.clusters.virtual.current import current_loop
from understudy.clusters.virtual.process_loop import ProcessLoop, new_process_loop
from understudy.clusters.virtual.process_network import Addresses, ProcessNetwork, Tap
from understudy.clusters.virtual.service import Service, check_main, name_of
from understudy.foundation.times import moment

TEST: Final = "test"
"""The name of the node that runs the test itself."""
_NODE_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of a user's process that no handler has taken.

    Attributes:
        at_ms: virtual time.
        process: the name of the process.
        what: the error in words, without the exception.
        error: the exception; None if there is none.
        source: the task, future or callback that has raised it; None for the main function of a service.
    """

    at_ms: float
    process: str
    what: str
    error: BaseException | None = None
    source: object = None

    def __str__(self) -> str:
        error = "" if self.error is None else f": {self.error!r}"
        return f"{moment(self.at_ms)}, {self.process}: {self.what}{error}"


class CrashPoint(NamedTuple):
    """A place between two awaits at which a service is killed, and started again.

    Attributes:
        service: its name.
        number: counts the places of its first process, from 1; 0 to only count them.
        words: the place in words.
    """

    service: str
    number: int = 0
    words: str = ""

    def __str__(self) -> str:
        return f"{self.service} is killed at await {self.number}, {self.words}, and started again"


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that a user's process has logged."""

    at_ms: float
    process: str
    level: str
    logger: str
    text: str


@dataclass(slots=True)
class VirtualWorld:
    """The user's processes of one run.

    Attributes:
        cluster: the brokers, ZooKeeper and the network.
        tap: sees the bytes of the connections that the processes open; None for none.
        failures: errors that no handler of a process has taken, in order.
        lines: what the processes have logged, in order.
        services: by name.
        last_action_ms: the time of the last action that is scheduled, such as the end of a fault.
        crash_point: the place at which a service is killed; None for none.
    """

    cluster: SimulatedCluster
    tap: Tap | None = None
    failures: list[Failure] = field(default_factory=list)
    lines: list[LogLine] = field(default_factory=list)
    services: dict[str, Service] = field(default_factory=dict)
    crash_point: CrashPoint | None = None
    loops: list[ProcessLoop] = field(default_factory=list)
    last_action_ms: float = 0.0
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _addresses: Addresses = field(default_factory=Addresses)

    def __post_init__(self) -> None:
        machine.install()
        machine.seed(self.cluster.seed)
        for broker in self.cluster.brokers:
            self._addresses.add(broker.name)
        self._addresses.add(TEST)
        self.cluster.client_nodes.append(TEST)

    # ------------------------------------------------------------------ processes

    def new_process(self, name: str, incarnation: int = 1) -> ProcessLoop:
        """Start an empty process on a node, and return its event loop."""
        kernel = self.cluster.loop
        process = kernel.process(name, incarnation)
        network = ProcessNetwork(self.cluster.network, process, self._addresses, self.tap)
        loop = new_process_loop(kernel, process, network, numbers=self._numbers, failed=self._failed)
        self.loops.append(loop)
        return loop

    def start(
        self, main: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any], name: str | None, restarts: bool
    ) -> Service:
        """Start a program on a node of its own. See `Service`.

        Raises:
            ValueError: a node of this name exists.
        """
        check_main(main, args, named)
        name = name or self._free_name(name_of(main))
        if not _NODE_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a node; expected letters, digits, - and ., as in a host name")
        if name in self._node_names():
            raise ValueError(f"there is a node {name!r} already; give the service another name=")
        service = Service(self, name, main, args, named, restarts=restarts)
        if self.crash_point is not None and self.crash_point.service == name:
            service.strikes.collects = True
            service.strikes.at_place = self.crash_point.number
        self._addresses.add(name)
        self.cluster.client_nodes.append(name)
        self.services[name] = service
        service.launch()
        return service

    def _free_name(self, base: str) -> str:
        base = base.strip("_<>").replace("_", "-") or "service"
        names = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
        taken = self._node_names()
        return next(name for name in names if name not in taken)

    def _node_names(self) -> list[str]:
        return [*(node.name for node in self.cluster.nodes), TEST, *self.services]

    def names_of(self, nodes: Sequence[Any]) -> list[str]:
        """Return the names of brokers and services, which are given as such or by name.

        Raises:
            ValueError: there is no such node.
        """
        names = [str(getattr(node, "name", node)) for node in nodes]
        known = self._node_names()
        for name in names:
            if name not in known:
                raise ValueError(f"there is no node {name!r}{did_you_mean(name, known)}; there are {', '.join(known)}")
        return names

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Schedule an action of no process."""
        self.last_action_ms = max(self.last_action_ms, self.cluster.now_ms + seconds * 1000)
        self.cluster.after(seconds * 1000, action)

    # ------------------------------------------------------------------ faults

    def record(self, fault: str, target: str) -> None:
        """Record a fault of a service in the event log; call it before the fault is injected."""
        self.cluster.record_fault(fault, target)

    def isolate(self, name: str, others: Sequence[str] = ()) -> None:
        """Hold everything between a node and others, by default all of them."""
        if others:
            self.record("cut", f"{name} -> {', '.join(others)}")
            self.cluster.network.partition([name], others)
        else:
            self.record("isolate", name)
            self.cluster.isolate_node(name, self._others(name))

    def delay(self, name: str, by_s: float) -> None:
        """Make the links of a node slower by `by_s` seconds each way; 0 ends it."""
        self.record("delay" if by_s else "heal", name)
        self.cluster.network.delay([name], self._others(name), by_s * 1000)

    def heal_links(self, name: str, others: Sequence[str] = ()) -> None:
        """End the isolation of a node from others; by default from all of them, and its delays."""
        self.record("heal", name)
        if others:
            self.cluster.network.heal_between([name], others)
        else:
            self.cluster.network.delay([name], self._others(name), 0.0)
            self.cluster.end_isolation(name, self._others(name))

    def heal(self) -> None:
        """End every fault of services: they run, are not paused, have the right time, and reach each other."""
        for service in self.services.values():
            service.strikes.disarm()
            service.resume()
            service.start_if_due()
            service.correct_clock()
            self.cluster.end_isolation(service.name, self._others(service.name))

    def _others(self, name: str) -> list[str]:
        nodes = [*(broker.name for broker in self.cluster.brokers), *self.services, TEST]
        return [node for node in nodes if node != name]

    # ------------------------------------------------------------------ errors and log lines

    def _failed(self, loop: ProcessLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        source = next((each for name in ("task", "future", "handle") if (each := context.get(name)) is not None), None)
        what = str(context.get("message") or "an error")
        self.failures.append(Failure(self.cluster.now_ms, loop.process.name, what, error, source))

    def record_exit(self, name: str, error: BaseException, *, is_expected: bool) -> None:
        """Note that the main function of a service has raised an exception."""
        self.record("exit", name)
        if not is_expected:
            self.failures.append(Failure(self.cluster.now_ms, name, "the service has ended", error))

    def collect_log_lines(self, level: int = logging.INFO) -> logging.Handler:
        """Return a handler for the root logger that keeps what the user's processes log."""
        handler = _Lines(level)
        handler.world = self
        return handler


class _Lines(logging.Handler):
    world: VirtualWorld

    def emit(self, record: logging.LogRecord) -> None:
        loop = current_loop()
        if loop is not None:
            world = self.world
            line = LogLine(world.cluster.now_ms, loop.process.name, record.levelname, record.name, record.getMessage())
            world.lines.append(line)
