"""A network between simulated nodes: it carries bytes over connections, in order, after a delay drawn from the seed.

A connection belongs to two processes. A link is one direction between two nodes. Cutting it holds the sent bytes, as
TCP does: nothing is lost, and the held bytes arrive when the link is healed, however old they are by then; so a
broker may receive requests of an old controller. When a process is killed, its connections are closed (reset, if
received bytes were not read) and new ones are refused; while it is paused, connections are accepted but not read.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections import deque
from collections.abc import Awaitable, Callable, Collection

from understudy.clusters.simulated.links import Link
from understudy.clusters.simulated.listening import ListeningSocket, SimulatedServer
from understudy.clusters.simulated.loop import Process, SimulatedLoop, resolve
from understudy.clusters.simulated.randomness import derived
from understudy.clusters.simulated.request_faults import RequestFaults
from understudy.foundation.wire.network import Connection, ConnectionFailed, ConnectionLost, ServerSocket

BUFFER_BYTES = 4 * 1024 * 1024
"""Number of bytes of one direction, unread ones included, that may be on their way before `send` waits."""

FRAGMENTED = 0.05
"""Probability that a read returns only part of the bytes that have arrived."""

_LOOPBACK_MS = 0.02
_PIECE_GAP_S = 0.001
"""Time between two pieces of bytes that a link carries in pieces."""
_DUPLICATE_S = 5.0
"""Time for which the second connection of a duplicated request stays open."""
_FIRST_EPHEMERAL_PORT = 20_000
LOCAL_HOSTS = ("", "localhost", "127.0.0.1", "0.0.0.0")


class SimulatedNetwork:
    """All links of one run. A node's host name is its node name."""

    def __init__(self, loop: SimulatedLoop, *, seed: int, latency_ms: tuple[float, float] = (0.1, 3.0)) -> None:
        self.loop = loop
        self.context = contextvars.Context()
        """The context of sent packets: they belong to no process, and arrive after it was killed."""
        self.messages = 0
        self._seed = seed
        self._latency_ms = latency_ms
        self._links: dict[tuple[str, str], Link] = {}
        self._jitter = derived(seed, "network", "jitter")
        self._fragments = derived(seed, "network", "fragments")
        self.servers: dict[tuple[str, int], ListeningSocket] = {}
        """The listening sockets, by node and port."""
        self._connections: dict[SimulatedConnection, None] = {}
        self.requests = RequestFaults()

    @property
    def connections(self) -> int:
        """Number of ends of connections that are open."""
        return len(self._connections)

    def has_connections(self, process: Process) -> bool:
        """Whether a process has an end of a connection over which bytes may still arrive."""
        return any(each.process is process and not each.has_ended for each in self._connections)

    def node(self, process: Process) -> NodeNetwork:
        """The network of one incarnation of a node."""
        process.on_kill(lambda: self._close_sockets(process))
        return NodeNetwork(self, process)

    # ------------------------------------------------------------------ injected faults

    def cut(self, sources: Collection[str], destinations: Collection[str]) -> None:
        """Hold everything that `sources` send to `destinations`, but not the opposite direction."""
        for link in self._links_from(sources, destinations):
            link.cut = True

    def partition(self, one_side: Collection[str], other_side: Collection[str]) -> None:
        """Hold everything between two groups of nodes, both ways."""
        for link in self._both_ways(one_side, other_side):
            link.cut = True

    def delay(self, one_side: Collection[str], other_side: Collection[str], by_ms: float) -> None:
        """Add `by_ms` to the latency of the links between two groups of nodes, both ways; 0 ends it."""
        for link in self._both_ways(one_side, other_side):
            link.delay_ms = by_ms

    def throttle(self, one_side: Collection[str], other_side: Collection[str], bytes_per_s: float) -> None:
        """Limit each connection between two groups of nodes to `bytes_per_s`, both ways; 0 ends the limit."""
        for link in self._both_ways(one_side, other_side):
            link.bytes_per_s = bytes_per_s

    def split(self, one_side: Collection[str], other_side: Collection[str], piece_bytes: int) -> None:
        """Carry what two groups of nodes send to each other in pieces, one a millisecond; 0 ends it."""
        for link in self._both_ways(one_side, other_side):
            link.piece_bytes = piece_bytes

    def refuse(self, sources: Collection[str], destinations: Collection[str], is_refusing: bool) -> None:
        """Refuse the connections that `sources` open to `destinations`, or accept them again; open ones stay."""
        for link in self._links_from(sources, destinations):
            link.is_refusing = is_refusing

    def _links_from(self, sources: Collection[str], destinations: Collection[str]) -> list[Link]:
        return [self._link(source, other) for source in sources for other in destinations if source != other]

    def _both_ways(self, one_side: Collection[str], other_side: Collection[str]) -> list[Link]:
        return [*self._links_from(one_side, other_side), *self._links_from(other_side, one_side)]

    def heal(self) -> None:
        """End all faults of links and requests; what was held arrives, late and in order."""
        for _, link in sorted(self._links.items()):
            link.delay_ms = link.bytes_per_s = 0.0
            link.piece_bytes = 0
            link.is_refusing = False
            link.heal()
        self.requests.clear()

    def heal_between(self, one: Collection[str], other: Collection[str]) -> None:
        """End the cuts between two groups of nodes, both ways."""
        for (source, destination), link in sorted(self._links.items()):
            if (source in one and destination in other) or (source in other and destination in one):
                link.heal()

    def is_cut(self, source: str, destination: str) -> bool:
        """Whether what `source` sends to `destination` is held."""
        return self._link(source, destination).cut

    def reset(self, node: str) -> None:
        """Reset every connection of a node, at both ends at once."""
        for connection in [connection for connection in self._connections if connection.process.name == node]:
            connection.break_both()

    # ------------------------------------------------------------------ links

    def _link(self, source: str, destination: str) -> Link:
        link = self._links.get((source, destination))
        if link is None:
            low, high = (_LOOPBACK_MS, _LOOPBACK_MS) if source == destination else self._latency_ms
            draw = derived(self._seed, "network", source, destination)
            link = self._links[source, destination] = Link(draw.uniform(low, high))
        return link

    def carry(
        self, link: Link, sender: SimulatedConnection | None, arrive: Callable[[], None], *, size: int = 0
    ) -> None:
        """Call `arrive` after the link's delay, or once the link is healed.

        Args:
            sender: the end of a connection that sends the packet; its packets keep their order. None for a packet that
                opens or refuses a connection.
            size: the number of its bytes, for a limited link.
        """
        if link.cut:
            link.held.append(lambda: self.carry(link, sender, arrive, size=size))
            return
        when = self.loop.now + link.latency_ms * (0.9 + 0.2 * self._jitter.random()) / 1000 + link.delay_ms / 1000
        if sender is not None:
            if when < sender.last_arrival:
                when = sender.last_arrival
            if link.bytes_per_s:
                when += size / link.bytes_per_s
            if link.piece_bytes and size:
                when += _PIECE_GAP_S
            sender.last_arrival = when
        self.loop.call_at(when, arrive, context=self.context)

    def readable(self, size: int) -> int:
        """Draw the number of bytes that one read returns, of `size` that have arrived.

        TCP has no message boundaries: a frame may be read in several parts.
        """
        return self._fragments.randint(1, size) if self._fragments.random() < FRAGMENTED else size

    # ------------------------------------------------------------------ connections

    def open_connection(
        self,
        process: Process,
        host: str,
        port: int,
        opened: asyncio.Future[SimulatedConnection | None],
        *,
        own_port: int | None = None,
    ) -> None:
        """Connect to a listening socket; set `opened` to the connection, or to None if it is refused.

        While a link between the two nodes is cut, `opened` is not set.

        Args:
            own_port: the port of this end; None for any.
        """
        destination = process.name if host in LOCAL_HOSTS else host
        there, back = self._link(process.name, destination), self._link(destination, process.name)

        def arrive() -> None:
            server = self.servers.get((destination, port))
            if server is None or not server.is_listening or there.is_refusing:
                self.carry(back, None, lambda: resolve(opened, None))
                return
            near = SimulatedConnection(self, process, there, f"{destination}:{port}", has_opened=True)
            origin = f"{process.name}:{own_port or 40_000 + len(self._connections)}"
            far = SimulatedConnection(self, server.process, back, origin)
            near.other, far.other = far, near
            self._connections |= {near: None, far: None}
            self.carry(back, far, lambda: self._opened(near, opened))
            server.connected(far)

        self.carry(there, None, arrive)

    def pair(self, process: Process) -> tuple[SimulatedConnection, SimulatedConnection]:
        """Both ends of a connection of a process with itself."""
        link = self._link(process.name, process.name)
        near, far = (SimulatedConnection(self, process, link, f"{process.name}:0") for _ in range(2))
        near.other, far.other = far, near
        self._connections |= {near: None, far: None}
        return near, far

    def _opened(self, near: SimulatedConnection, opened: asyncio.Future[SimulatedConnection | None]) -> None:
        if opened.done() or not near.process.alive:
            near.close()
        else:
            opened.set_result(near)

    def free_port(self, node: str) -> int:
        """A port of a node on which no process listens."""
        return next(free for free in range(_FIRST_EPHEMERAL_PORT, 65_536) if (node, free) not in self.servers)

    def forget(self, connection: SimulatedConnection) -> None:
        self._connections.pop(connection, None)

    def _close_sockets(self, process: Process) -> None:
        """Close the sockets of a killed process, as its operating system does."""
        for server in [server for server in self.servers.values() if server.process is process]:
            server.stop_listening()
        for connection in [connection for connection in self._connections if connection.process is process]:
            connection.close()


class NodeNetwork:
    """The network of one incarnation; implements `Network`."""

    def __init__(self, network: SimulatedNetwork, process: Process) -> None:
        self._network = network
        self._process = process

    async def connect(self, host: str, port: int, *, timeout_ms: int) -> Connection:
        opened: asyncio.Future[SimulatedConnection | None] = self._network.loop.create_future()
        self._network.open_connection(self._process, host, port, opened)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = await opened
        except TimeoutError:
            raise ConnectionFailed(f"{host}:{port} did not answer within {timeout_ms} ms") from None
        if connection is None:
            raise ConnectionFailed(f"{host}:{port} refused the connection: no process listens there")
        return connection

    async def bind(self, host: str, port: int, serve: Callable[[Connection], Awaitable[None]]) -> ServerSocket:
        node, servers = self._process.name, self._network.servers
        if port == 0:
            port = self._network.free_port(node)
        if host not in (*LOCAL_HOSTS, node):
            raise ConnectionFailed(f"{host}:{port} cannot be bound: {node} has no such address")
        if (node, port) in servers:
            raise ConnectionFailed(f"{node}:{port} cannot be bound: the address is in use")
        server = servers[node, port] = SimulatedServer(self._network, self._process, port, serve)
        return server


class SimulatedConnection:
    """One end of a connection; implements `Connection`."""

    other: SimulatedConnection

    def __init__(
        self, network: SimulatedNetwork, process: Process, link: Link, peer: str, *, has_opened: bool = False
    ) -> None:
        self.process = process
        self.has_opened = has_opened
        """Whether this end has opened the connection, and so sends the requests."""
        self.last_arrival = 0.0
        """Time at which the last packet that this end has sent reaches the other end."""
        self._network = network
        self._link = link
        """Link that carries the bytes that this end sends."""
        self.peer = peer
        self._open = True
        self._received: deque[bytes] = deque()
        self._unread_bytes = 0
        self._ended: str | None = None
        """Ending of the connection by the other end: `closed` or `reset`; None if it has not ended it."""
        self._reader: asyncio.Future[None] | None = None
        self.changed: Callable[[], None] | None = None
        """Called when bytes or an ending have arrived, or there is room for more bytes to send; for `read_now`."""
        self._in_transit_bytes = 0
        self._writers: deque[asyncio.Future[None]] = deque()
        self._holds = 0
        """Number of faults that hold the packets of this end."""
        self._held: deque[tuple[Callable[[], None], int]] = deque()
        self._lost_answers: set[int] = set()
        """Correlation ids of the requests that this end must not answer."""

    @property
    def nodes(self) -> tuple[str, str]:
        """The nodes of this end and of the other end."""
        return self.process.name, self.other.process.name

    async def send(self, data: bytes) -> None:
        while self._open and not self.has_room:
            writer = self._network.loop.create_future()
            self._writers.append(writer)
            await writer
        self.send_now(data)

    @property
    def has_ended(self) -> bool:
        """Whether the other end has closed or reset the connection."""
        return self._ended is not None

    @property
    def has_room(self) -> bool:
        """Whether `send` does not wait."""
        return self._in_transit_bytes <= BUFFER_BYTES

    def send_now(self, data: bytes) -> None:
        """Send without waiting for room. Raises ConnectionLost as `send`."""
        if not self._open or self._ended == "reset":
            raise ConnectionLost(f"the connection to {self.peer} is over")
        if data:
            network = self._network
            self._in_transit_bytes += len(data)
            network.messages += 1
            if network.requests.is_used:
                network.requests.send(self, data)
            else:
                self.transmit(data)

    async def receive(self) -> bytes:
        while (data := self.read_now()) is None:
            self._reader = self._network.loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return data

    @property
    def is_over(self) -> bool:
        """Whether sending fails."""
        return not self._open or self._ended == "reset"

    @property
    def is_readable(self) -> bool:
        """Whether `read_now` returns something now, or raises."""
        return bool(self._received) or self._ended is not None or not self._open

    def read_now(self, limit: int | None = None) -> bytes | None:
        """Return bytes that have arrived, nothing (b"") if the other end has closed the connection, or None to wait.

        Args:
            limit: the most bytes that are returned; None for all.

        Raises:
            ConnectionLost: the connection was reset, or closed on this side.
        """
        received = self._received
        if not received:
            if self._ended == "closed" and self._open:
                return b""
            if self._ended is not None or not self._open:
                raise ConnectionLost(f"the connection to {self.peer} was {self._ended or 'closed on this side'}")
            return None
        data = b"".join(received) if len(received) > 1 else received[0]
        received.clear()
        size = len(data)
        read = self._network.readable(size)
        if limit is not None and limit < read:
            read = limit
        if read < size:
            data, rest = data[:read], data[read:]
            received.append(rest)
        self._unread_bytes -= read
        self.other.delivered(read)
        return data

    def shut_down_sending(self) -> None:
        """Send the end of the bytes; this end still receives."""
        if self._open:
            self._carry(lambda: self.other.end("closed"))

    def close(self, *, is_reset: bool = False) -> None:
        """Close this end. The other end is reset if `is_reset`, or if bytes that arrived here were not read."""
        if not self._open:
            return
        self._open = False
        ending = "reset" if self._unread_bytes or is_reset else "closed"
        self._carry(lambda: self.other.end(ending))
        self._network.forget(self)
        self._wake()

    # ------------------------------------------------------------------ faults of requests (see `RequestFaults`)

    def transmit(self, data: bytes) -> None:
        """Carry bytes to the other end."""
        size = self._link.piece_bytes or len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self._carry(functools.partial(self.other.arrived, piece), len(piece))

    def hold(self) -> None:
        """Keep everything that this end sends from now on, its closing included."""
        self._holds += 1

    def release(self) -> None:
        """Send the kept packets, in order."""
        self._holds -= 1
        if not self._holds:
            held, self._held = self._held, deque()
            for arrive, size in held:
                self._carry(arrive, size)

    def release_after(self, ms: float) -> None:
        self._network.loop.call_later(ms / 1000, self.release, context=self._network.context)

    def lose_answer(self, correlation_id: int) -> None:
        """Break the connection instead of carrying the answer to this request."""
        self.other._lost_answers.add(correlation_id)

    def is_lost(self, correlation_id: int) -> bool:
        return correlation_id in self._lost_answers

    def break_both(self) -> None:
        self.break_now()
        self.other.break_now()

    def break_after_sending(self) -> None:
        """Break this end; the other end receives everything sent before."""
        self.break_now()
        self._carry(lambda: self.other.end("closed"))

    def send_again(self, data: bytes) -> None:
        """Send a request on a second connection, and ignore its answer."""
        opened: asyncio.Future[SimulatedConnection | None] = self._network.loop.create_future()
        opened.add_done_callback(functools.partial(self._send_once, data), context=self._network.context)
        host, _, port = self.peer.rpartition(":")
        self._network.open_connection(self.process, host, int(port), opened)

    def _send_once(self, data: bytes, opened: asyncio.Future[SimulatedConnection | None]) -> None:
        second = opened.result()
        if second is not None:
            second.transmit(data)
            self._network.loop.call_later(_DUPLICATE_S, second.close, context=self._network.context)

    # ------------------------------------------------------------------ packets that arrive

    def arrived(self, data: bytes) -> None:
        """Receive bytes; reset the connection if this end is closed."""
        if not self._open:
            self._carry(lambda: self.other.end("reset"))
            return
        if self._ended is None:
            self._received.append(data)
            self._unread_bytes += len(data)
            self._wake()

    def delivered(self, size: int) -> None:
        """Make room for `size` bytes that the other end has read."""
        self._in_transit_bytes -= size
        while self._writers and self.has_room:
            resolve(self._writers.popleft(), None)
        if self.changed is not None:
            self.changed()

    def end(self, ending: str) -> None:
        """Note that the other end has closed (`closed`) or reset (`reset`) the connection."""
        if self._ended is None:
            self._ended = ending
            if ending == "reset":
                self._received.clear()
            self._wake()

    def break_now(self) -> None:
        """Reset this end, as an injected fault."""
        self.end("reset")
        self._network.forget(self)

    def _carry(self, arrive: Callable[[], None], size: int = 0) -> None:
        if self._holds:
            self._held.append((arrive, size))
        else:
            self._network.carry(self._link, self, arrive, size=size)

    def _wake(self) -> None:
        if self.changed is not None:
            self.changed()
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
        if not self._open or self._ended == "reset":
            for writer in self._writers:
                resolve(writer, None)
            self._writers.clear()
