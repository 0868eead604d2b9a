"""A network of simulated nodes that carries the real bytes, in order, after a drawn delay, until it does not.

A connection is bound to two incarnations. Bytes of one direction arrive in the order they were sent. Cutting a link
holds
what is sent over it, as TCP does: a cut *delays*, and what was held arrives when the link heals, however old it is by
then; that is where stale orders come from. A link may be cut in one direction only. When a process is killed its kernel
ends its connections (by a reset if something was left unread) and refuses new ones; while it is paused its kernel still
accepts, and nothing is read.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from foundation.wire.network import Connection, ConnectionFailed, ConnectionLost, Network, Server
from understudy.simulator.loop import Process, SimulatedLoop
from understudy.simulator.randomness import derived

BUFFER_BYTES = 4 * 1024 * 1024
"""Bytes on their way in one direction, unread ones included, before `send` waits."""

FRAGMENTED = 0.05
"""How often a read returns less than has arrived."""

_BACKLOG = 50
_LOOPBACK_MS = 0.02
_FIRST_FREE_PORT = 20_000
_HERE = ("", "localhost", "127.0.0.1", "0.0.0.0")


@dataclass(slots=True)
class _Way:
    """One direction between two nodes."""

    latency_ms: float
    cut: bool = False
    held: deque[Callable[[], None]] = field(default_factory=deque)

    def heal(self) -> None:
        """Let everything flow again. Harmless where the way is not cut."""
        if self.cut:
            self.cut = False
            held, self.held = self.held, deque()
            for travel in held:
                travel()


@dataclass(slots=True)
class _Listener:
    process: Process
    host: str
    port: int
    serve: Callable[[Connection], Awaitable[None]]
    started: bool = False
    backlog: deque[SimulatedConnection] = field(default_factory=deque)
    accepted: dict[SimulatedConnection, asyncio.Task[None]] = field(default_factory=dict)


class SimulatedNetwork:
    """All links of one run. A node's host name is its node name."""

    def __init__(self, loop: SimulatedLoop, *, seed: int, latency_ms: tuple[float, float] = (0.1, 3.0)) -> None:
        self.loop = loop
        self.context = contextvars.Context()
        """What is on the wire belongs to no process."""
        self.messages = 0
        self._seed = seed
        self._latency_ms = latency_ms
        self._ways: dict[tuple[str, str], _Way] = {}
        self._jitter = derived(seed, "network", "jitter")
        self._fragments = derived(seed, "network", "fragments")
        self._listeners: dict[tuple[str, int], _Listener] = {}
        self._connections: dict[SimulatedConnection, None] = {}

    def node(self, process: Process) -> NodeNetwork:
        """The network as one incarnation of a node sees it."""
        process.at_death(lambda: self._bury(process))
        return NodeNetwork(self, process)

    # ------------------------------------------------------------------ injected faults

    def cut(self, sources: Iterable[str], destinations: Iterable[str]) -> None:
        """Hold everything from any of `sources` to any of `destinations`; the other direction flows on."""
        for source in sources:
            for destination in destinations:
                if source != destination:
                    self._way(source, destination).cut = True

    def partition(self, one_side: Iterable[str], other_side: Iterable[str]) -> None:
        """Hold everything between two groups of nodes, both ways."""
        one, other = tuple(one_side), tuple(other_side)
        self.cut(one, other)
        self.cut(other, one)

    def heal(self) -> None:
        """Let everything flow again; what was held arrives, late and in order."""
        for _, way in sorted(self._ways.items()):
            way.heal()

    def heal_between(self, one_side: Iterable[str], other_side: Iterable[str]) -> None:
        """Let everything between two groups of nodes flow again, both ways."""
        one, other = frozenset(one_side), frozenset(other_side)
        for (source, destination), way in sorted(self._ways.items()):
            if (source in one and destination in other) or (source in other and destination in one):
                way.heal()

    def is_cut(self, source: str, destination: str) -> bool:
        """Whether what `source` sends to `destination` is held."""
        return self._way(source, destination).cut

    def reset(self, node: str) -> None:
        """Break every connection of a node, at both ends at once."""
        for connection in [connection for connection in self._connections if connection.process.name == node]:
            other = connection.other
            connection.break_now()
            other.break_now()

    # ------------------------------------------------------------------ the wire

    def _way(self, source: str, destination: str) -> _Way:
        way = self._ways.get((source, destination))
        if way is None:
            low, high = (_LOOPBACK_MS, _LOOPBACK_MS) if source == destination else self._latency_ms
            draw = derived(self._seed, "network", source, destination)
            way = self._ways[source, destination] = _Way(draw.uniform(low, high))
        return way

    def carry(
        self, source: str, destination: str, sender: SimulatedConnection | None, arrive: Callable[[], None]
    ) -> None:
        """Have `arrive` happen at the destination after the link's delay, or once the link is healed.

        Packets of one `sender` keep their order; None: an attempt to connect, which has none to keep.
        """
        way = self._way(source, destination)
        if way.cut:
            way.held.append(lambda: self.carry(source, destination, sender, arrive))
            return
        when = self.loop.time() + way.latency_ms * (0.9 + 0.2 * self._jitter.random()) / 1000
        if sender is not None:
            sender.last_arrival = when = max(sender.last_arrival, when)
        self.loop.call_at(when, arrive, context=self.context)

    def readable(self, size: int) -> int:
        """How many of `size` bytes that have arrived one read returns. TCP keeps no messages: now and then a frame's
        header or body comes in two."""
        return self._fragments.randint(1, size) if self._fragments.random() < FRAGMENTED else size

    # ------------------------------------------------------------------ connections

    def listen(
        self, process: Process, host: str, port: int, serve: Callable[[Connection], Awaitable[None]]
    ) -> _Listener:
        if port == 0:
            port = next(free for free in range(_FIRST_FREE_PORT, 65_536) if (process.name, free) not in self._listeners)
        if host not in (*_HERE, process.name):
            raise ConnectionFailed(f"{host}:{port} cannot be bound: {process.name} has no such address")
        if (process.name, port) in self._listeners:
            raise ConnectionFailed(f"{process.name}:{port} cannot be bound: the address is in use")
        listener = self._listeners[process.name, port] = _Listener(process, process.name, port, serve)
        return listener

    def stop_listening(self, listener: _Listener) -> None:
        if self._listeners.get((listener.host, listener.port)) is listener:
            del self._listeners[listener.host, listener.port]
        for waiting in listener.backlog:
            waiting.close()
        listener.backlog.clear()

    def knock(self, process: Process, host: str, port: int, opened: asyncio.Future[SimulatedConnection | None]) -> None:
        """Send a SYN; `opened` gets the connection, None when refused, and nothing while the way is cut."""
        destination = process.name if host in _HERE else host

        def arrive() -> None:
            listener = self._listeners.get((destination, port))
            if listener is None or not listener.process.alive or len(listener.backlog) >= _BACKLOG:
                self.carry(destination, process.name, None, lambda: _settle(opened, None))
                return
            near = SimulatedConnection(self, process, f"{destination}:{port}")
            far = SimulatedConnection(self, listener.process, f"{process.name}:{40_000 + len(self._connections)}")
            near.other, far.other = far, near
            self._connections |= {near: None, far: None}
            self.carry(destination, process.name, far, lambda: self._opened(near, opened))
            listener.backlog.append(far)
            if listener.started:
                self.accept(listener)

        self.carry(process.name, destination, None, arrive)

    def _opened(self, near: SimulatedConnection, opened: asyncio.Future[SimulatedConnection | None]) -> None:
        if opened.done() or not near.process.alive:
            near.close()
        else:
            opened.set_result(near)

    def accept(self, listener: _Listener) -> None:
        while listener.backlog:
            connection = listener.backlog.popleft()
            listener.accepted[connection] = listener.process.spawn(self._serve(listener, connection))

    async def _serve(self, listener: _Listener, connection: SimulatedConnection) -> None:
        try:
            await listener.serve(connection)
        finally:
            connection.close()
            listener.accepted.pop(connection, None)

    def forget(self, connection: SimulatedConnection) -> None:
        self._connections.pop(connection, None)

    def _bury(self, process: Process) -> None:
        """What the kernel does for a killed process."""
        for listener in [listener for listener in self._listeners.values() if listener.process is process]:
            self.stop_listening(listener)
        for connection in [connection for connection in self._connections if connection.process is process]:
            connection.close()


class NodeNetwork:
    """The network of one incarnation; implements `Network`."""

    def __init__(self, network: SimulatedNetwork, process: Process) -> None:
        self._network = network
        self._process = process

    async def connect(self, host: str, port: int, *, timeout_ms: int) -> Connection:
        opened: asyncio.Future[SimulatedConnection | None] = self._network.loop.create_future()
        self._network.knock(self._process, host, port, opened)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = await opened
        except TimeoutError:
            raise ConnectionFailed(f"{host}:{port} did not answer within {timeout_ms} ms") from None
        if connection is None:
            raise ConnectionFailed(f"{host}:{port} refused the connection: nobody listens there")
        return connection

    async def bind(self, host: str, port: int, serve: Callable[[Connection], Awaitable[None]]) -> Server:
        return SimulatedServer(self._network, self._network.listen(self._process, host, port, serve))


class SimulatedServer:
    def __init__(self, network: SimulatedNetwork, listener: _Listener) -> None:
        self._network = network
        self._listener = listener

    @property
    def port(self) -> int:
        return self._listener.port

    def start(self) -> None:
        self._listener.started = True
        self._network.accept(self._listener)

    async def close(self) -> None:
        self._network.stop_listening(self._listener)
        serving = tuple(self._listener.accepted.items())
        for connection, task in serving:
            connection.close()
            task.cancel()
        await asyncio.gather(*(task for _, task in serving), return_exceptions=True)


class SimulatedConnection:
    """One end of a connection; implements `Connection`."""

    other: SimulatedConnection

    def __init__(self, network: SimulatedNetwork, process: Process, peer: str) -> None:
        self.process = process
        self.last_arrival = 0.0
        """When the newest packet this end has sent reaches the other."""
        self._network = network
        self._peer = peer
        self._open = True
        self._received: deque[bytes] = deque()
        self._unread_bytes = 0
        self._ended: str | None = None
        """Why nothing more will come: `closed` or `reset`."""
        self._reader: asyncio.Future[None] | None = None
        self._in_transit_bytes = 0
        self._writers: deque[asyncio.Future[None]] = deque()

    @property
    def peer(self) -> str:
        return self._peer

    async def send(self, data: bytes) -> None:
        while self._open and self._in_transit_bytes > BUFFER_BYTES:
            writer = self._network.loop.create_future()
            self._writers.append(writer)
            await writer
        if not self._open or self._ended == "reset":
            raise ConnectionLost(f"the connection to {self._peer} is over")
        if data:
            self._in_transit_bytes += len(data)
            self._network.messages += 1
            self._carry(lambda: self.other.arrived(data))

    async def receive(self) -> bytes:
        while not self._received:
            if self._ended == "closed" and self._open:
                return b""
            if self._ended is not None or not self._open:
                raise ConnectionLost(f"the connection to {self._peer} was {self._ended or 'closed on this side'}")
            self._reader = self._network.loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        data = b"".join(self._received) if len(self._received) > 1 else self._received[0]
        self._received.clear()
        if (kept := len(data) - self._network.readable(len(data))) > 0:
            data, rest = data[:-kept], data[-kept:]
            self._received.append(rest)
        self._unread_bytes -= len(data)
        self.other.delivered(len(data))
        return data

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        how = "reset" if self._unread_bytes else "closed"
        self._carry(lambda: self.other.end(how))
        self._network.forget(self)
        self._wake()

    # ------------------------------------------------------------------ what the wire does to it

    def arrived(self, data: bytes) -> None:
        if not self._open:
            self._carry(lambda: self.other.end("reset"))
            return
        if self._ended is None:
            self._received.append(data)
            self._unread_bytes += len(data)
            self._wake()

    def delivered(self, size: int) -> None:
        """The other side has read `size` bytes: there is room again."""
        self._in_transit_bytes -= size
        while self._writers and self._in_transit_bytes <= BUFFER_BYTES:
            writer = self._writers.popleft()
            if not writer.done():
                writer.set_result(None)

    def end(self, how: str) -> None:
        """The other side has closed (`closed`) or reset the connection."""
        if self._ended is None:
            self._ended = how
            if how == "reset":
                self._received.clear()
            self._wake()

    def break_now(self) -> None:
        """The connection is reset from outside."""
        self.end("reset")
        self._network.forget(self)

    def _carry(self, arrive: Callable[[], None]) -> None:
        self._network.carry(self.process.name, self.other.process.name, self, arrive)

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
        if not self._open or self._ended == "reset":
            for writer in self._writers:
                if not writer.done():
                    writer.set_result(None)
            self._writers.clear()


def _settle(opened: asyncio.Future[SimulatedConnection | None], connection: SimulatedConnection | None) -> None:
    if not opened.done():
        opened.set_result(connection)


_CONFORMS: Callable[[NodeNetwork], Network] = lambda network: network  # noqa: E731  checked by mypy
