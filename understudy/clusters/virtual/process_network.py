"""The network that one process of a user's code sees: names, addresses, connections and listening sockets."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import itertools
import socket
import zlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from understudy.clusters.simulated.loop import Process, SimulatedLoop
from understudy.clusters.simulated.network import LOCAL_HOSTS, SimulatedConnection, SimulatedNetwork
from understudy.foundation.wire.network import ConnectionLost

if TYPE_CHECKING:
    from understudy.clusters.virtual.process_loop import ProcessLoop

Address = tuple[str, int]

CONNECT_TIMEOUT_S: Final = 127.0
"""Time after which Linux gives up to connect to a host that does not answer, with six repetitions of the first
packet."""
BACKLOG: Final = 100
_ANY: Final = (None, "", "0.0.0.0", "::")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_SERVICES: Final = {"http": 80, "https": 443}
_FIRST_PORT: Final = 32_768


class Tap(Protocol):
    """Sees the bytes of the connections that processes open, and their ends: closed, or its process was killed."""

    def opened(self, connection: int, process: str, incarnation: int, broker: str, at_ms: float) -> None: ...
    def sent(self, connection: int, data: bytes, at_ms: float) -> None: ...
    def received(self, connection: int, data: bytes, at_ms: float) -> None: ...
    def closed(self, connection: int, at_ms: float) -> None: ...


class ProcessTap:
    """Lets a tap see the connections that one process opens."""

    def __init__(self, tap: Tap, process: Process, kernel: SimulatedLoop) -> None:
        self._tap = tap
        self._process = process
        self._kernel = kernel
        self._open: dict[int, None] = {}
        process.on_kill(self._end)

    def opened(self, connection: int, broker: str) -> None:
        self._open[connection] = None
        self._tap.opened(connection, self._process.name, self._process.incarnation, broker, self._now_ms)

    def sent(self, connection: int, data: bytes) -> None:
        self._tap.sent(connection, data, self._now_ms)

    def received(self, connection: int, data: bytes) -> None:
        self._tap.received(connection, data, self._now_ms)

    def closed(self, connection: int) -> None:
        """Note the end of a connection. Harmless if it has ended before."""
        if connection in self._open:
            del self._open[connection]
            self._tap.closed(connection, self._now_ms)

    def _end(self) -> None:
        """Note the ends of all connections: the operating system closes them when the process is killed."""
        for connection in tuple(self._open):
            self.closed(connection)

    @property
    def _now_ms(self) -> float:
        return self._kernel.now * 1000


class Addresses:
    """The names and IP addresses of the nodes: each name has one address of 10.0.0.0/8."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._addresses: dict[str, str] = {}

    def add(self, name: str) -> None:
        """Give a node its address."""
        number = zlib.crc32(name.encode())
        while (address := f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}") in self._names:
            number += 1
        self._names[address] = name
        self._addresses[name] = address

    def address_of(self, host: str) -> str:
        """Return the address of a node, or the address that is given. Raises socket.gaierror as a resolver does."""
        if (known := self._addresses.get(host)) is not None:
            return known
        if host in LOCAL_HOSTS or host in _LOOPBACK:
            return "127.0.0.1"
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise socket.gaierror(
                socket.EAI_NONAME,
                f"Name or service not known: no node of the simulation is named {host!r}; start a fake of it with "
                f"cluster.start(main, name={host!r})",
            ) from None

    def name_of(self, address: str) -> str:
        """Return the name of the node with an address, or the address itself."""
        return self._names.get(address, address)


class Wire:
    """One end of a connection of a process, with the addresses of both ends.

    Args:
        tap: sees the bytes; None for a connection that another process has opened.
    """

    __slots__ = ("_connection", "_number", "_tap", "own", "peer")

    def __init__(
        self,
        loop: ProcessLoop,
        connection: SimulatedConnection,
        own: Address,
        peer: Address,
        tap: ProcessTap | None = None,
    ) -> None:
        self.own = own
        self.peer = peer
        self._connection = connection
        self._tap = tap
        self._number = next(loop.numbers)
        if tap is not None:
            tap.opened(self._number, connection.nodes[1])

    def watch(self, changed: Callable[[], None] | None) -> None:
        """Call a function whenever the end has something to read, room to send, or is over; None ends it."""
        self._connection.changed = changed

    @property
    def has_room(self) -> bool:
        """Whether bytes can be sent now, or sending them fails."""
        return self._connection.has_room or self._connection.is_over

    @property
    def is_readable(self) -> bool:
        """Whether reading returns something now, or fails."""
        return self._connection.is_readable

    def send(self, data: bytes) -> None:
        """Send bytes. Raises BrokenPipeError if the connection is over."""
        if self._tap is not None:
            self._tap.sent(self._number, data)
        try:
            self._connection.send_now(data)
        except ConnectionLost as lost:
            raise BrokenPipeError(errno.EPIPE, f"Broken pipe: {lost}") from None

    def read(self, limit: int | None = None) -> bytes | None:
        """Return bytes that have arrived, nothing (b"") at the end of the stream, or None to wait.

        Raises:
            ConnectionResetError: the other end has reset the connection.
        """
        try:
            data = self._connection.read_now(limit)
        except ConnectionLost as lost:
            raise ConnectionResetError(errno.ECONNRESET, f"Connection reset by peer: {lost}") from None
        if data and self._tap is not None:
            self._tap.received(self._number, data)
        return data

    def shut_down_sending(self) -> None:
        """Send the end of the bytes; this end still receives."""
        self._connection.shut_down_sending()

    def close(self, *, is_reset: bool = False) -> None:
        """Close this end. Harmless if it is closed."""
        self._connection.changed = None
        self._connection.close(is_reset=is_reset)
        if self._tap is not None:
            self._tap.closed(self._number)


class Listener:
    """A listening socket of a process, with the connections that it has not accepted; implements `ListeningSocket`."""

    def __init__(self, loop: ProcessLoop, network: SimulatedNetwork, address: Address, backlog: int = BACKLOG) -> None:
        self.process = loop.process
        self.address = address
        self.changed: Callable[[], None] | None = None
        """Called when a connection has arrived."""
        self._loop = loop
        self._network = network
        self._limit = max(backlog, 1)
        self._waiting: deque[SimulatedConnection] = deque()
        network.servers[self.process.name, address[1]] = self

    @property
    def is_listening(self) -> bool:
        return self.process.alive and len(self._waiting) <= self._limit

    @property
    def is_readable(self) -> bool:
        """Whether a connection can be accepted now."""
        return bool(self._waiting)

    def connected(self, connection: SimulatedConnection) -> None:
        self._waiting.append(connection)
        if self.changed is not None:
            self.changed()

    def accept(self) -> Wire | None:
        """Return the next connection; None if none waits."""
        if not self._waiting:
            return None
        connection = self._waiting.popleft()
        host, _, port = connection.peer.rpartition(":")
        net = self._loop.net("accept()")
        own_host = "127.0.0.1" if host == self.process.name else self.address[0]
        peer_host = "127.0.0.1" if host == self.process.name else net.addresses.address_of(host)
        return Wire(self._loop, connection, (own_host, self.address[1]), (peer_host, int(port)))

    def stop_listening(self) -> None:
        servers, key = self._network.servers, (self.process.name, self.address[1])
        if servers.get(key) is self:
            del servers[key]
        while self._waiting:
            self._waiting.popleft().close(is_reset=True)


class ProcessNetwork:
    """The network that one process sees.

    Args:
        tap: sees the bytes of the connections that the process opens; None for none.
    """

    def __init__(
        self, network: SimulatedNetwork, process: Process, addresses: Addresses, tap: Tap | None = None
    ) -> None:
        self.addresses = addresses
        self._network = network
        self._process = process
        self._tap = None if tap is None else ProcessTap(tap, process, network.loop)
        network.node(process)  # its sockets are closed when the process is killed
        self._ports = itertools.cycle(range(_FIRST_PORT, 61_000))

    # ------------------------------------------------------------------ names

    def getaddrinfo(self, host: Any, port: Any, family: int = 0, type: int = 0, flags: int = 0) -> list[Any]:  # noqa: A002
        """Return the one address of a node, as `socket.getaddrinfo` does for a TCP socket.

        Raises:
            socket.gaierror: no node has this name, or it has no address of this family.
        """
        if family not in (0, socket.AF_INET):
            raise socket.gaierror(socket.EAI_ADDRFAMILY, "Address family for hostname not supported: nodes have IPv4")
        number = _port_number(port)
        name = host.decode() if isinstance(host, bytes) else host
        if name in (None, ""):
            address = "0.0.0.0" if flags & socket.AI_PASSIVE else "127.0.0.1"
        elif name == "0.0.0.0":
            address = name
        else:
            address = self.addresses.address_of(name)
            if flags & socket.AI_NUMERICHOST and address != name:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known: no numeric address")
        canonical = name if name and flags & socket.AI_CANONNAME else ""
        return [(socket.AF_INET, type or socket.SOCK_STREAM, socket.IPPROTO_TCP, canonical, (address, number))]

    def name_of(self, address: str) -> str:
        """The name of the node with an address, or the address itself."""
        return self._process.name if address == "127.0.0.1" else self.addresses.name_of(address)

    @property
    def own_address(self) -> str:
        return self.addresses.address_of(self._process.name)

    # ------------------------------------------------------------------ connections

    def begin_connect(self, loop: ProcessLoop, host: str, port: int) -> asyncio.Future[Wire]:
        """Connect; the future is done with the connection, or with the error that the operating system would report.

        Raises:
            socket.gaierror: no node has this name.
        """
        address = self.addresses.address_of(host)
        node = self.name_of(address)
        if node == address:
            raise OSError(errno.EHOSTUNREACH, f"No route to host: no node has the address {address}")
        own = "127.0.0.1" if node == self._process.name else self.own_address
        ends = ((own, next(self._ports)), (address, port))
        opened: asyncio.Future[SimulatedConnection | None] = loop.create_future()
        connected: asyncio.Future[Wire] = loop.create_future()

        def ended(_: object) -> None:
            timer.cancel()
            connection = None if opened.cancelled() else opened.result()
            if connected.done():
                if connection is not None:
                    connection.close()
            elif connection is None:
                error = ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ({address!r}, {port})")
                connected.set_exception(error)
            else:
                connected.set_result(Wire(loop, connection, *ends, self._tap))

        def timed_out() -> None:
            if not connected.done():
                error = TimeoutError(errno.ETIMEDOUT, f"Connect call failed ({address!r}, {port})")
                connected.set_exception(error)
            opened.cancel()

        timer = loop.call_later(CONNECT_TIMEOUT_S, timed_out)
        connected.add_done_callback(lambda _: opened.cancel())
        opened.add_done_callback(ended)
        self._network.open_connection(self._process, node, port, opened, own_port=ends[0][1])
        return connected

    def listen(self, loop: ProcessLoop, host: Any, port: int, backlog: int = BACKLOG) -> Listener:
        """Listen on a port of the node; 0 for a free one.

        Raises:
            OSError: the node has no such address, or the port is in use.
        """
        node, network = self._process.name, self._network
        own = self.own_address
        if host not in (*_ANY, *_LOOPBACK, node, own):
            raise OSError(
                errno.EADDRNOTAVAIL,
                f"error while attempting to bind on address ({host!r}, {port}): cannot assign requested address",
            )
        port = port or network.free_port(node)
        if (node, port) in network.servers:
            raise OSError(
                errno.EADDRINUSE,
                f"error while attempting to bind on address ({host!r}, {port}): address already in use",
            )
        address = "0.0.0.0" if host in _ANY else "127.0.0.1" if host in _LOOPBACK else own
        return Listener(loop, network, (address, port), backlog)

    def pair(self, loop: ProcessLoop) -> tuple[Wire, Wire]:
        """Return both ends of a connection of the process with itself."""
        near, far = self._network.pair(self._process)
        one, other = ("127.0.0.1", next(self._ports)), ("127.0.0.1", next(self._ports))
        return Wire(loop, near, one, other), Wire(loop, far, other, one)


def _port_number(port: Any) -> int:
    if isinstance(port, bytes):
        port = port.decode()
    if port is None or port == "":
        return 0
    try:
        return int(_SERVICES.get(port, port))
    except ValueError:
        raise socket.gaierror(socket.EAI_SERVICE, f"Servname not supported for ai_socktype: {port!r}") from None
