"""`SimulatedSocket`: what `socket.socket()` returns to a process, and selectors over such sockets.

Code that blocks may use it as any socket; a coroutine uses it with `loop.sock_connect` and the like.
"""

from __future__ import annotations

import _socket
import asyncio
import errno
import itertools
import select
import selectors
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from understudy.clusters.virtual import blocking
from understudy.clusters.virtual.process_network import BACKLOG, Address, Listener, Wire
from understudy.clusters.virtual.refusals import refusal

if TYPE_CHECKING:
    from understudy.clusters.virtual.process_loop import ProcessLoop

T = TypeVar("T")

_FIRST_DESCRIPTOR: Final = 1_000_000
_open: dict[int, SimulatedSocket] = {}
"""The open sockets of all processes, by file descriptor."""


class SimulatedSocket(socket.socket):
    """A TCP socket of a process. `of` makes one.

    Attributes:
        loop: the loop of its process.
    """

    @classmethod
    def of(
        cls,
        loop: ProcessLoop,
        *,
        wire: Wire | None = None,
        listener: Listener | None = None,
        timeout_s: float | None = None,
    ) -> SimulatedSocket:
        """Make a socket. `socket.socket()` calls `__init__` with its own arguments, after `__new__` has made it."""
        sock = _socket.socket.__new__(cls)
        assert isinstance(sock, SimulatedSocket)
        sock._io_refs = 0
        sock._closed = False
        sock.loop = loop
        sock._number = next(loop.numbers)
        sock._timeout_s = timeout_s
        sock._wire = wire
        sock._listener = listener
        sock._connecting = None
        sock._bound = None
        sock._options = {}
        sock._watchers = {}
        sock._is_shut = False
        sock._is_open = False
        sock._observe()
        return sock

    def __init__(self, *_: Any, **__: Any) -> None:
        """Do nothing: see `of`."""

    loop: ProcessLoop
    _io_refs: int
    _closed: bool
    _number: int
    _timeout_s: float | None
    _wire: Wire | None
    _listener: Listener | None
    _connecting: asyncio.Future[Wire] | None
    _bound: Address | None
    _options: dict[tuple[int, int], Any]
    _watchers: dict[Callable[[], None], None]
    _is_shut: bool
    _is_open: bool
    """Whether it has a descriptor."""

    def __repr__(self) -> str:
        return f"<SimulatedSocket {self._wire or self._listener or 'unconnected'} of {self.loop.process.name}>"

    def _observe(self) -> None:
        if self._wire is not None:
            self._wire.watch(self._changed)
        if self._listener is not None:
            self._listener.changed = self._changed

    # ------------------------------------------------------------------ readiness

    def watch(self, changed: Callable[[], None]) -> None:
        """Call a function whenever the readiness of the socket may have changed."""
        self._watchers[changed] = None

    def unwatch(self, changed: Callable[[], None]) -> None:
        self._watchers.pop(changed, None)

    def _changed(self) -> None:
        for changed in tuple(self._watchers):
            changed()

    def is_ready(self, *, to_write: bool) -> bool:
        """Whether receiving, or sending, returns at once."""
        if self._closed:
            return True
        if self._listener is not None:
            return not to_write and self._listener.is_readable
        if self._wire is None:
            return self._connecting is not None and self._connecting.done()
        return self._wire.has_room if to_write else self._wire.is_readable

    def until_ready(self, loop: ProcessLoop, *, to_write: bool) -> asyncio.Future[None]:
        """A future that is done when receiving, or sending, returns at once."""
        ready: asyncio.Future[None] = loop.create_future()

        def look() -> None:
            if not ready.done() and not loop.is_closed() and self.is_ready(to_write=to_write):
                ready.set_result(None)

        self.watch(look)
        ready.add_done_callback(lambda _: self.unwatch(look))
        look()
        return ready

    def _wait(self, call: str, *, to_write: bool = False) -> None:
        """Let the code that blocks wait for the socket, as its timeout says."""
        if self._timeout_s == 0:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        if not blocking.wait_for(
            self.loop, self.until_ready(self.loop, to_write=to_write), f"socket.{call}()", self._timeout_s
        ):
            raise TimeoutError("timed out")

    # ------------------------------------------------------------------ attributes

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET

    @property
    def type(self) -> socket.SocketKind:
        return socket.SOCK_STREAM

    @property
    def proto(self) -> int:
        return socket.IPPROTO_TCP

    @property
    def timeout(self) -> float | None:
        return self._timeout_s

    def fileno(self) -> int:
        if self._closed:
            return -1
        number = _FIRST_DESCRIPTOR + self._number
        if not self._is_open:
            self._is_open = True
            _open[number] = self
        return number

    def settimeout(self, value: float | None) -> None:
        if value is not None and value < 0:
            raise ValueError("Timeout value out of range")
        self._timeout_s = value

    def gettimeout(self) -> float | None:
        return self._timeout_s

    def setblocking(self, flag: bool) -> None:
        self._timeout_s = None if flag else 0.0

    def getblocking(self) -> bool:
        return self._timeout_s != 0

    def set_inheritable(self, inheritable: bool) -> None:
        """Do nothing: there is no child process that could inherit it."""

    def get_inheritable(self) -> bool:
        return False

    def setsockopt(self, level: int, optname: int, value: Any, optlen: int = 0) -> None:
        """Keep an option. It has no effect in the simulation."""
        self._options[level, optname] = value

    def getsockopt(self, level: int, optname: int, buflen: int = 0) -> Any:
        if (level, optname) == (socket.SOL_SOCKET, socket.SO_ERROR):
            return self._take_connection()
        if (level, optname) == (socket.SOL_SOCKET, socket.SO_TYPE):
            return int(socket.SOCK_STREAM)
        return self._options.get((level, optname), 0)

    def getsockname(self) -> Address:
        if self._wire is not None:
            return self._wire.own
        return self._listener.address if self._listener is not None else self._bound or ("0.0.0.0", 0)

    def getpeername(self) -> Address:
        return self._connected().peer

    # ------------------------------------------------------------------ connecting

    def connect(self, address: Any) -> None:
        error = self.connect_ex(address)
        if error == errno.EINPROGRESS and self._timeout_s != 0:
            self._wait("connect", to_write=True)
            if (failed := self._connecting) is not None and failed.exception() is not None:
                self._connecting = None
                raise failed.exception() or OSError()
            error = self._take_connection()
        if error:
            raise OSError(error, f"{errno.errorcode[error]}, connect to {address}")

    def connect_ex(self, address: Any) -> int:
        if self._closed:
            return errno.EBADF
        if self._connecting is not None:
            if not self._connecting.done():
                return errno.EALREADY
            return self._take_connection()
        if self._wire is not None:
            return errno.EISCONN
        try:
            self._connecting = self.loop.net("socket.connect()").begin_connect(self.loop, address[0], int(address[1]))
        except socket.gaierror:
            raise
        except OSError as error:
            return error.errno or errno.EHOSTUNREACH
        self._connecting.add_done_callback(lambda _: self._changed())
        return errno.EINPROGRESS

    def _take_connection(self) -> int:
        """Take the connection that was opened; return the error number if it failed, otherwise 0."""
        connecting = self._connecting
        if connecting is None or not connecting.done():
            return 0
        self._connecting = None
        error = connecting.exception()
        if isinstance(error, OSError):
            return error.errno or errno.ECONNREFUSED
        self._wire = connecting.result()
        self._observe()
        return 0

    def take_wire(self) -> Wire:
        """Return its connection, for a transport that reads and writes it from now on. Raises as `getpeername`."""
        wire = self._connected()
        self._watchers.clear()
        return wire

    def take_listener(self) -> Listener:
        """Return what a server accepts connections from."""
        if self._listener is None:
            self.listen()
        assert self._listener is not None
        return self._listener

    def _connected(self) -> Wire:
        if self._wire is None:
            self._take_connection()
        if self._closed:
            raise OSError(errno.EBADF, "Bad file descriptor: the socket is closed")
        if self._wire is None:
            raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")
        return self._wire

    # ------------------------------------------------------------------ listening

    def bind(self, address: Any) -> None:
        host, port = address[:2]
        net = self.loop.net("socket.bind()")
        if port == 0 and host not in ("", "0.0.0.0"):
            net.addresses.address_of(host)
        self._bound = (host or "0.0.0.0", port)
        if port == 0:
            # The port is known before listen(): libraries read it.
            self._listener = net.listen(self.loop, host or None, 0)
            self._bound = self._listener.address
            self._observe()

    def listen(self, backlog: int = BACKLOG) -> None:
        if self._listener is None:
            host, port = self._bound or ("0.0.0.0", 0)
            self._listener = self.loop.net("socket.listen()").listen(self.loop, host, port, backlog)
            self._observe()

    def accept(self) -> tuple[socket.socket, Any]:
        if self._listener is None:
            raise OSError(errno.EINVAL, "Invalid argument: the socket does not listen")
        while (wire := self._listener.accept()) is None:
            self._wait("accept")
        return SimulatedSocket.of(self.loop, wire=wire), wire.peer

    # ------------------------------------------------------------------ bytes

    def send(self, data: Any, flags: int = 0) -> int:
        wire = self._connected()
        if self._is_shut:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        while not wire.has_room:
            self._wait("send", to_write=True)
        sent = bytes(data)
        wire.send(sent)
        return len(sent)

    def sendall(self, data: Any, flags: int = 0) -> None:
        self.send(data)

    def sendmsg(self, buffers: Iterable[Any], *_: Any) -> int:
        return self.send(b"".join(map(bytes, buffers)))

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        wire = self._connected()
        if not bufsize:
            return b""
        while (data := wire.read(bufsize)) is None:
            self._wait("recv")
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        view = memoryview(buffer).cast("B")
        data = self.recv(nbytes or len(view))
        view[: len(data)] = data
        return len(data)

    def recvfrom(self, bufsize: int, flags: int = 0) -> tuple[bytes, Any]:
        return self.recv(bufsize), self.getpeername()

    # ------------------------------------------------------------------ the end

    def shutdown(self, how: int) -> None:
        wire = self._connected()
        if how in (socket.SHUT_WR, socket.SHUT_RDWR):
            self._is_shut = True
            wire.shut_down_sending()

    def _real_close(self, _ss: Any = None) -> None:
        self._closed = True
        _open.pop(_FIRST_DESCRIPTOR + self._number, None)
        if self._connecting is not None:
            self._connecting.cancel()
        if self._wire is not None:
            self._wire.close()
        if self._listener is not None:
            self._listener.stop_listening()
        self._changed()
        self._watchers.clear()

    def detach(self) -> int:
        """Return its descriptor, by which `socket.socket(fileno=…)` finds it again."""
        descriptor = self.fileno()
        self._io_refs = 0
        return descriptor

    def dup(self) -> SimulatedSocket:
        refusal("socket.dup()", "use one socket")


def new_socket(loop: ProcessLoop, family: int = -1, type: int = -1, proto: int = -1, fileno: Any = None) -> Any:  # noqa: A002
    """What `socket.socket()` returns to a process.

    Raises:
        NotSimulated: it is no TCP socket.
        OSError: the family is IPv6, which the simulated machine does not have.
    """
    if fileno is not None:
        return by_descriptor(fileno)
    if family == socket.AF_INET6:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol: nodes have IPv4")
    if family not in (-1, socket.AF_INET) or (type not in (-1, 0) and type & 0xF != socket.SOCK_STREAM):
        refusal("a socket that is not of TCP", "only TCP over IPv4 is simulated")
    flags = 0 if type == -1 else type
    return SimulatedSocket.of(loop, timeout_s=0.0 if flags & socket.SOCK_NONBLOCK else socket.getdefaulttimeout())


def new_pair(loop: ProcessLoop) -> tuple[SimulatedSocket, SimulatedSocket]:
    """Two sockets that are connected with each other, as `socket.socketpair()` returns."""
    near, far = loop.net("socket.socketpair()").pair(loop)
    return SimulatedSocket.of(loop, wire=near), SimulatedSocket.of(loop, wire=far)


def by_descriptor(fileobj: Any) -> SimulatedSocket:
    """The open socket with a file descriptor, or the one that `fileobj` is.

    Raises:
        NotSimulated: it is no socket of the simulation.
    """
    found = fileobj if isinstance(fileobj, SimulatedSocket) else None
    if found is None:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        found = _open.get(number)
    if found is None:
        refusal(f"waiting for {fileobj!r}", "only sockets that the simulation has made can be waited for")
    return found


def wait_for_any(
    loop: ProcessLoop, wanted: Mapping[SimulatedSocket, tuple[bool, bool]], timeout_s: float | None, call: str
) -> list[tuple[SimulatedSocket, bool, bool]]:
    """Wait until one of the sockets is ready, and return the ready ones: (socket, can be read, can be written).

    Args:
        wanted: for each socket, whether reading and whether writing is of interest.
        timeout_s: 0 to look only; None to wait for ever.
    """

    def ready() -> list[tuple[SimulatedSocket, bool, bool]]:
        found = []
        for sock, (reads, writes) in wanted.items():
            can_read = reads and sock.is_ready(to_write=False)
            can_write = writes and sock.is_ready(to_write=True)
            if can_read or can_write:
                found.append((sock, can_read, can_write))
        return found

    # Other code runs meanwhile: a thread that only looks, again and again, would wait for it for ever.
    blocking.give_way(loop)
    found = ready()
    if found or (timeout_s is not None and timeout_s <= 0):
        return found
    changed: asyncio.Future[None] = loop.create_future()

    def look() -> None:
        if not changed.done() and ready():
            changed.set_result(None)

    for sock in wanted:
        sock.watch(look)
    try:
        blocking.wait_for(loop, changed, call, timeout_s)
    finally:
        for sock in wanted:
            sock.unwatch(look)
    return ready()


class SimulatedSelector(selectors._BaseSelectorImpl):
    """A selector over the sockets of a process."""

    def __init__(self, loop: ProcessLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        keys = {by_descriptor(key.fd): key for key in self.get_map().values() if key.fd in _open}
        wanted = {
            sock: (bool(key.events & selectors.EVENT_READ), bool(key.events & selectors.EVENT_WRITE))
            for sock, key in keys.items()
        }
        return [
            (keys[sock], selectors.EVENT_READ * reads | selectors.EVENT_WRITE * writes)
            for sock, reads, writes in wait_for_any(self._loop, wanted, timeout, "selector.select()")
        ]


def simulated_select(
    loop: ProcessLoop,
    readers: Iterable[Any],
    writers: Iterable[Any],
    errors: Iterable[Any],
    timeout: float | None = None,
) -> tuple[list[Any], list[Any], list[Any]]:
    """As `select.select`."""
    reading = {by_descriptor(each): each for each in readers}
    writing = {by_descriptor(each): each for each in writers}
    wanted = {sock: (sock in reading, sock in writing) for sock in itertools.chain(reading, writing)}
    found = wait_for_any(loop, wanted, timeout, "select.select()")
    can_read = [reading[sock] for sock, reads, _ in found if reads]
    return can_read, [writing[sock] for sock, _, writes in found if writes], []


class SimulatedPoll:
    """As `select.poll()`, and as `select.epoll()` for level-triggered events."""

    def __init__(self, loop: ProcessLoop, *, unit_s: float) -> None:
        self._loop = loop
        self._unit_s = unit_s
        self._masks: dict[int, int] = {}

    def register(self, fd: Any, eventmask: int = select.POLLIN | select.POLLOUT) -> None:
        self._masks[by_descriptor(fd).fileno()] = eventmask

    modify = register

    def unregister(self, fd: Any) -> None:
        del self._masks[fd if isinstance(fd, int) else fd.fileno()]

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        wanted = {
            _open[number]: (bool(mask & select.POLLIN), bool(mask & select.POLLOUT))
            for number, mask in self._masks.items()
            if number in _open
        }
        timeout_s = None if timeout is None or timeout < 0 else timeout * self._unit_s
        return [
            (sock.fileno(), select.POLLIN * reads | select.POLLOUT * writes)
            for sock, reads, writes in wait_for_any(self._loop, wanted, timeout_s, "poll()")
        ]

    def close(self) -> None:
        self._masks.clear()
