"""Transports and servers of asyncio on the simulated network."""

from __future__ import annotations

import asyncio
import errno
import socket
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from understudy.clusters.simulated.loop import Process
from understudy.clusters.simulated.network import LOCAL_HOSTS, SimulatedConnection, SimulatedNetwork
from understudy.clusters.virtual.process_loop import ProcessLoop
from understudy.foundation.wire.network import ConnectionLost

HIGH_WATER_BYTES: Final = 64 * 1024
_BACKLOG: Final = 100


class Tap(Protocol):
    """Sees the bytes of the connections that processes open."""

    def opened(self, connection: int, process: str, incarnation: int, broker: str, at_ms: float) -> None: ...
    def sent(self, connection: int, data: bytes, at_ms: float) -> None: ...
    def received(self, connection: int, data: bytes, at_ms: float) -> None: ...
    def closed(self, connection: int, at_ms: float) -> None: ...


class Addresses:
    """The names and IP addresses of the nodes: each name has one address of 10.0.0.0/8."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """The names by address."""
        self._known: set[str] = set()

    def add(self, name: str) -> None:
        """Give a node its address."""
        number = zlib.crc32(name.encode())
        while (address := f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}") in self._names:
            number += 1
        self._names[address] = name
        self._known.add(name)

    def address_of(self, name: str) -> str:
        """Return the address of a node. Raises socket.gaierror as a resolver does."""
        if name in LOCAL_HOSTS or name == "::1":
            return "127.0.0.1"
        if name in self._names:
            return name
        if name not in self._known:
            raise socket.gaierror(socket.EAI_NONAME, f"Name or service not known: no node is named {name!r}")
        return next(address for address, known in self._names.items() if known == name)

    def name_of(self, address: str) -> str:
        """Return the name of the node with an address, or the address itself."""
        return self._names.get(address, address)


class ProcessNetwork:
    """The network that one process sees.

    Args:
        tap: sees the bytes of the connections that the process opens; None for none.
    """

    def __init__(
        self, network: SimulatedNetwork, process: Process, addresses: Addresses, tap: Tap | None = None
    ) -> None:
        self._network = network
        self._process = process
        self._addresses = addresses
        self._tap = tap
        network.node(process)  # its sockets are closed when the process is killed
        self._ports = iter(range(49_152, 1 << 30))

    def getaddrinfo(self, host: Any, port: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host or ""
        address = self._addresses.address_of(name)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, int(port or 0)))]

    def name_of(self, address: str) -> str:
        return self._addresses.name_of(address)

    async def create_connection(
        self, loop: ProcessLoop, factory: Callable[[], Any], host: str, port: int
    ) -> tuple[SimulatedTransport, Any]:
        address = self._addresses.address_of(host)
        opened: asyncio.Future[SimulatedConnection | None] = loop.create_future()
        self._network.open_connection(self._process, self.name_of(address), port, opened)
        connection = await opened
        if connection is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ({address!r}, {port})")
        own = self._process.name
        ends = ((self._addresses.address_of(own), next(self._ports)), (address, port))
        transport = SimulatedTransport(loop, connection, factory(), ends, self._tap)
        return transport, transport.get_protocol()

    def create_server(
        self, loop: ProcessLoop, factory: Callable[[], Any], host: Any, port: int
    ) -> SimulatedAsyncioServer:
        node, network = self._process.name, self._network
        hosts = [host] if isinstance(host, str) or host is None else list(host)
        for each in hosts:
            if each is not None and each not in (*LOCAL_HOSTS, "::", "::1", node, self._addresses.address_of(node)):
                raise OSError(errno.EADDRNOTAVAIL, f"error while attempting to bind on address {each!r}")
        port = port or network.free_port(node)
        if (node, port) in network.servers:
            raise OSError(errno.EADDRINUSE, f"error while attempting to bind on address ({node!r}, {port}): in use")
        address = self._addresses.address_of(node)
        server = SimulatedAsyncioServer(loop, network, factory, (address, port))
        network.servers[node, port] = server
        return server


@dataclass(frozen=True, slots=True)
class SocketInfo:
    """What libraries ask of the socket under a transport: its addresses, and options, which have no effect."""

    own: tuple[str, int]
    peer: tuple[str, int]
    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP

    def getsockname(self) -> tuple[str, int]:
        return self.own

    def getpeername(self) -> tuple[str, int]:
        return self.peer

    def setsockopt(self, *_: Any) -> None:
        """Do nothing: options of sockets have no effect in the simulation."""

    def getsockopt(self, *_: Any) -> int:
        return 0

    def fileno(self) -> int:
        return -1


class SimulatedTransport(asyncio.Transport):
    """A transport over one end of a simulated connection.

    Args:
        ends: the addresses of this end and of the other one.
    """

    def __init__(
        self,
        loop: ProcessLoop,
        connection: SimulatedConnection,
        protocol: Any,
        ends: tuple[tuple[str, int], tuple[str, int]],
        tap: Tap | None = None,
        server: SimulatedAsyncioServer | None = None,
    ) -> None:
        own, self._peer = ends
        peer = self._peer
        super().__init__({"peername": peer, "sockname": own, "socket": SocketInfo(own, peer), "sslcontext": None})
        self._loop = loop
        self._connection = connection
        self._protocol = protocol
        self._server = server
        self._tap = tap
        self._number = next(loop.numbers)
        self._buffer: deque[bytes] = deque()
        self._buffered = 0
        self._high, self._low = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._is_writing_paused = False
        self._is_reading_paused = False
        self._is_read_scheduled = False
        self._has_ended = False
        """Whether the other end has closed the connection."""
        self._is_closing = False
        self._is_ending = False
        """Whether `write_eof` was called."""
        self._is_lost = False
        if tap is not None:
            process = loop.process
            name = loop.net("a connection").name_of(peer[0])
            tap.opened(self._number, process.name, process.incarnation, name, loop.kernel.now * 1000)
        protocol.connection_made(self)
        connection.changed = self._changed
        self._changed()

    def __repr__(self) -> str:
        return f"<SimulatedTransport to {self._peer}{' closing' if self._is_closing else ''}>"

    # ------------------------------------------------------------------ reading

    def _changed(self) -> None:
        """Let the process look at the connection, once however often it has changed."""
        if not self._is_read_scheduled and not self._is_lost:
            self._is_read_scheduled = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_read_scheduled = False
        if self._is_lost:
            return
        if self._buffer:
            self._flush()
        if self._is_reading_paused or self._is_closing or self._has_ended:
            return
        try:
            data = self._connection.read_now()
        except ConnectionLost as lost:
            self._lose(ConnectionResetError(errno.ECONNRESET, f"Connection reset by peer: {lost}"))
            return
        if data is None:
            return
        if data:
            if self._tap is not None:
                self._tap.received(self._number, data, self._loop.kernel.now * 1000)
            self._give(data)
            self._changed()
            return
        self._has_ended = True
        if not self._protocol.eof_received():
            self.close()

    def _give(self, data: bytes) -> None:
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(data)
            return
        left = memoryview(data)
        while left:
            buffer = memoryview(protocol.get_buffer(len(left)))
            size = min(len(buffer), len(left))
            buffer[:size] = left[:size]
            protocol.buffer_updated(size)
            left = left[size:]

    def pause_reading(self) -> None:
        self._is_reading_paused = True

    def resume_reading(self) -> None:
        self._is_reading_paused = False
        self._changed()

    def is_reading(self) -> bool:
        return not self._is_reading_paused and not self._is_closing

    # ------------------------------------------------------------------ writing

    def write(self, data: Any) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data: expecting a bytes-like instance, got {type(data).__name__}")
        if self._is_ending:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._is_lost or self._is_closing or not data:
            return
        self._buffer.append(bytes(data))
        self._buffered += len(data)
        self._flush()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _flush(self) -> None:
        """Send what the network takes, then tell the protocol whether it may write more."""
        try:
            while self._buffer and self._connection.has_room:
                data = self._buffer.popleft()
                self._buffered -= len(data)
                if self._tap is not None:
                    self._tap.sent(self._number, data, self._loop.kernel.now * 1000)
                self._connection.send_now(data)
        except ConnectionLost as lost:
            self._buffer.clear()
            self._buffered = 0
            self._loop.call_soon(self._lose, BrokenPipeError(errno.EPIPE, f"Broken pipe: {lost}"))
            return
        if not self._buffer and self._is_ending:
            self._connection.shut_down_sending()
        if not self._buffer and self._is_closing:
            self._loop.call_soon(self._lose, None)
        if self._buffered > self._high and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()
        elif self._buffered <= self._low and self._is_writing_paused:
            self._is_writing_paused = False
            self._protocol.resume_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low

    def get_write_buffer_size(self) -> int:
        return self._buffered

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._is_closing or self._is_ending:
            return
        self._is_ending = True
        if not self._buffer:
            self._connection.shut_down_sending()

    # ------------------------------------------------------------------ the end

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if not self._buffer:
                self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        if not self._is_lost:
            self._is_closing = True
            self._buffer.clear()
            self._connection.close(is_reset=True)
            self._loop.call_soon(self._lose, None)

    def _lose(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = self._is_closing = True
        self._connection.changed = None
        self._connection.close()
        if self._tap is not None:
            self._tap.closed(self._number, self._loop.kernel.now * 1000)
        if self._server is not None:
            self._server.forget(self)
        self._protocol.connection_lost(error)

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol


class SimulatedAsyncioServer(asyncio.AbstractServer):
    """A listening socket of a process; implements `ListeningSocket` for the network."""

    def __init__(
        self, loop: ProcessLoop, network: SimulatedNetwork, factory: Callable[[], Any], address: tuple[str, int]
    ) -> None:
        self.process = loop.process
        self._loop = loop
        self._network = network
        self._factory = factory
        self._address = address
        self._is_serving = False
        self._is_closed = False
        self._backlog: deque[SimulatedConnection] = deque()
        self._transports: dict[SimulatedTransport, None] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._forever: asyncio.Future[None] | None = None

    # ------------------------------------------------------------------ for the network

    @property
    def is_listening(self) -> bool:
        return self.process.alive and len(self._backlog) < _BACKLOG

    def connected(self, connection: SimulatedConnection) -> None:
        self._backlog.append(connection)
        if self._is_serving:
            self._loop.call_soon(self._accept)

    def stop_listening(self) -> None:
        servers, key = self._network.servers, (self.process.name, self._address[1])
        if servers.get(key) is self:
            del servers[key]
        while self._backlog:
            self._backlog.popleft().close()

    def _accept(self) -> None:
        while self._backlog:
            connection = self._backlog.popleft()
            host, _, port = connection.peer.rpartition(":")
            ends = (self._address, (self._loop.getaddress(host), int(port)))
            transport = SimulatedTransport(self._loop, connection, self._factory(), ends, server=self)
            self._transports[transport] = None

    def forget(self, transport: SimulatedTransport) -> None:
        self._transports.pop(transport, None)
        self._wake()

    def _wake(self) -> None:
        if self._is_closed and not self._transports:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    # ------------------------------------------------------------------ for the process

    @property
    def sockets(self) -> tuple[SocketInfo, ...]:
        return () if self._is_closed else (SocketInfo(self._address, ("", 0)),)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def is_serving(self) -> bool:
        return self._is_serving and not self._is_closed

    async def start_serving(self) -> None:
        if not self._is_serving:
            self._is_serving = True
            self._accept()

    async def serve_forever(self) -> None:
        if self._is_closed:
            raise RuntimeError(f"server {self!r} is closed")
        await self.start_serving()
        self._forever = self._loop.create_future()
        try:
            await self._forever
        finally:
            self.close()
            await self.wait_closed()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.stop_listening()
            if self._forever is not None and not self._forever.done():
                self._forever.cancel()
            self._wake()

    def close_clients(self) -> None:
        for transport in tuple(self._transports):
            transport.close()

    def abort_clients(self) -> None:
        for transport in tuple(self._transports):
            transport.abort()

    async def wait_closed(self) -> None:
        if not self._is_closed or self._transports:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter
