"""`NetworkCalls`: names, connections, servers and sockets of an event loop, on the simulated network."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVarTuple, cast

from understudy.clusters.virtual.refusals import refusal
from understudy.clusters.virtual.sockets import SimulatedSocket, by_descriptor
from understudy.clusters.virtual.transports import SimulatedServer, SimulatedTransport

if TYPE_CHECKING:
    from understudy.clusters.virtual.process_loop import ProcessLoop
    from understudy.clusters.virtual.process_network import ProcessNetwork

_Ts = TypeVarTuple("_Ts")

READING_S = 0.000_001
"""Virtual time that one reading of a clock takes. Each reading is later than the one before: a client that waits until
its deadline has passed would spin for ever if the deadline were now."""


class NetworkCalls:
    """The part of `ProcessLoop` that uses the network of its process.

    Attributes:
        network: opens connections and listening sockets; None for a process without a network.
    """

    network: ProcessNetwork | None
    _watches: dict[tuple[SimulatedSocket, bool], Watch]

    @property
    def _loop(self) -> ProcessLoop:
        return cast("ProcessLoop", self)

    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,  # noqa: A002  as asyncio names it
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        """Return the one address of a node by its name. Raises socket.gaierror for a name that no node has."""
        return self.net("loop.getaddrinfo()").getaddrinfo(host, port, family, type, flags)

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        host = sockaddr[0] if flags & socket.NI_NUMERICHOST else self.net("loop.getnameinfo()").name_of(sockaddr[0])
        return host, str(sockaddr[1])

    async def create_connection(
        self,
        protocol_factory: Callable[[], Any],
        host: Any = None,
        port: Any = None,
        *,
        ssl: Any = None,
        family: int = 0,
        proto: int = 0,
        flags: int = 0,
        sock: Any = None,
        local_addr: Any = None,
        server_hostname: str | None = None,
        **_: Any,
    ) -> tuple[Any, Any]:
        """Connect to a node of the simulation. Raises as asyncio's, with the errors that a refused connection has."""
        if ssl:
            refusal("a TLS connection", "use a PLAINTEXT listener here, and test TLS on processes")
        if server_hostname is not None:
            raise ValueError("server_hostname is only meaningful with ssl")
        if (host is not None or port is not None) and sock is not None:
            raise ValueError("host/port and sock can not be specified at the same time")
        if host is None and port is None and sock is None:
            raise ValueError("host and port was not specified and no sock specified")
        if sock is None:
            infos = await self.getaddrinfo(host, port, family=family, proto=proto, flags=flags)
            wire = await self.net("loop.create_connection()").begin_connect(self._loop, *infos[0][4])
        else:
            sock = by_descriptor(sock)
            wire = sock.take_wire()
        transport = SimulatedTransport(self._loop, wire, protocol_factory(), sock=sock)
        transport.begin()
        return transport, transport.get_protocol()

    async def connect_accepted_socket(
        self, protocol_factory: Callable[[], Any], sock: Any, *, ssl: Any = None, **_: Any
    ) -> tuple[Any, Any]:
        """Make a transport of a socket that was accepted."""
        return await self.create_connection(protocol_factory, sock=sock, ssl=ssl)

    async def create_server(
        self,
        protocol_factory: Callable[[], Any],
        host: Any = None,
        port: Any = None,
        *,
        sock: Any = None,
        backlog: int = 100,
        ssl: Any = None,
        start_serving: bool = True,
        **_: Any,
    ) -> Any:
        """Listen on a port of the process's node. Raises OSError if it is in use, or the node has no such address."""
        if isinstance(ssl, bool):
            raise TypeError("ssl argument must be an SSLContext or None")
        if ssl is not None:
            refusal("a TLS listener", "serve plain text here, and test TLS on processes")
        if sock is not None:
            if host is not None or port is not None:
                raise ValueError("host/port and sock can not be specified at the same time")
            sock = by_descriptor(sock)
        elif host is None and port is None:
            raise ValueError("Neither host/port nor sock were specified")
        else:
            hosts = [host] if host is None or isinstance(host, str) else list(host)
            own = hosts[0] if len(hosts) == 1 else None
            listener = self.net("loop.create_server()").listen(self._loop, own, int(port or 0), backlog)
            sock = SimulatedSocket.of(self._loop, listener=listener, timeout_s=0.0)
        server = SimulatedServer(self._loop, protocol_factory, [sock])
        if start_serving:
            server.begin()
        return server

    async def start_tls(self, *_: Any, **__: Any) -> NoReturn:
        refusal("loop.start_tls()", "use a PLAINTEXT listener here, and test TLS on processes")

    async def sendfile(
        self, transport: Any, file: Any, offset: int = 0, count: int | None = None, *, fallback: bool = True
    ) -> int:
        """Send what a file has by a transport; return the number of bytes."""
        if transport.is_closing():
            raise RuntimeError("Transport is closing")
        file.seek(offset)
        data = file.read() if count is None else file.read(count)
        transport.write(data)
        return len(data)

    # ------------------------------------------------------------------ sockets

    async def sock_connect(self, sock: Any, address: Any) -> None:
        sock = _non_blocking(sock)
        error = sock.connect_ex(address)
        if error == errno.EINPROGRESS:
            await sock.until_ready(self, to_write=True)
            error = sock.connect_ex(address)
        if error:
            raise OSError(error, f"Connect call failed {address!r}")

    async def sock_accept(self, sock: Any) -> tuple[Any, Any]:
        sock = _non_blocking(sock)
        await sock.until_ready(self, to_write=False)
        accepted, address = sock.accept()
        accepted.setblocking(False)
        return accepted, address

    async def sock_recv(self, sock: Any, nbytes: int) -> bytes:
        sock = _non_blocking(sock)
        await sock.until_ready(self, to_write=False)
        return sock.recv(nbytes)  # type: ignore[no-any-return]  # a socket

    async def sock_recv_into(self, sock: Any, buf: Any) -> int:
        sock = _non_blocking(sock)
        await sock.until_ready(self, to_write=False)
        return sock.recv_into(buf)  # type: ignore[no-any-return]  # a socket

    async def sock_sendall(self, sock: Any, data: Any) -> None:
        sock = _non_blocking(sock)
        await sock.until_ready(self, to_write=True)
        sock.sendall(data)

    def add_reader(self, fd: Any, callback: Callable[[*_Ts], object], *args: *_Ts) -> None:
        self._watch(fd, callback, args, to_write=False)

    def add_writer(self, fd: Any, callback: Callable[[*_Ts], object], *args: *_Ts) -> None:
        self._watch(fd, callback, args, to_write=True)

    def remove_reader(self, fd: Any) -> bool:
        return self._unwatch(fd, to_write=False)

    def remove_writer(self, fd: Any) -> bool:
        return self._unwatch(fd, to_write=True)

    def _watch(self, fd: Any, callback: Callable[..., object], args: tuple[Any, ...], *, to_write: bool) -> None:

        self._unwatch(fd, to_write=to_write)
        sock = by_descriptor(fd)
        self._watches[sock, to_write] = Watch(self._loop, sock, callback, args, to_write=to_write)

    def _unwatch(self, fd: Any, *, to_write: bool) -> bool:

        watch = self._watches.pop((by_descriptor(fd), to_write), None)
        if watch is not None:
            watch.end()
        return watch is not None

    def net(self, call: str) -> ProcessNetwork:
        """Return the network. Raises NotSimulated, for this call, if the process has none."""
        if self.network is None:
            refusal(call, "the process has no network")
        return self.network


class Watch:
    """A callback that runs as long as a socket is ready, as `add_reader` and `add_writer` promise."""

    def __init__(
        self,
        loop: ProcessLoop,
        sock: SimulatedSocket,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        *,
        to_write: bool,
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._callback = callback
        self._args = args
        self._to_write = to_write
        self._is_scheduled = False
        self._is_ended = False
        sock.watch(self._look)
        self._look()

    def _look(self) -> None:
        if not self._is_scheduled and not self._is_ended and self._socket.is_ready(to_write=self._to_write):
            self._is_scheduled = True
            self._loop.call_later(READING_S, self._call)

    def _call(self) -> None:
        self._is_scheduled = False
        if not self._is_ended and self._socket.is_ready(to_write=self._to_write):
            try:
                self._callback(*self._args)
            finally:
                self._look()

    def end(self) -> None:
        self._is_ended = True
        self._socket.unwatch(self._look)


def _non_blocking(sock: Any) -> SimulatedSocket:
    found = by_descriptor(sock)
    if found.gettimeout() != 0:
        raise ValueError("the socket must be non-blocking")
    return found
