"""The `Network` port over TCP. The only file of the broker that uses sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Generator
from contextvars import Context
from typing import Any
from weakref import WeakKeyDictionary

import structlog

from understudy.foundation.records.varint import Buffer
from understudy.foundation.wire.network import Connection, ConnectionFailed, ConnectionLost

BACKLOG = 128
READ_AHEAD_BYTES = 256 * 1024
"""Number of bytes that one call reads; the second one reaches the limit."""
ACCEPT_RETRY_MS = 50

NO_ADDRESS = (OSError, OverflowError, ValueError)
"""Exceptions of asyncio for an address that cannot be used: OverflowError for a port above 65535, ValueError for a host
with an empty label or a NUL. Addresses come from znodes and requests, so any of these may occur."""

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.network.Acceptor")


def host_name() -> str:
    """Return the canonical name of this machine, as the DNS has it (Java's `InetAddress.getCanonicalHostName`)."""
    return socket.getfqdn()


class _BytesReceived:
    """What a task awaits that wants bytes of a connection; `resume` runs it at once, within the call of the event loop.

    It is a future as far as a task is concerned (`asyncio.isfuture`). One of asyncio's own would let its task wait for
    the next turn of the loop, with a system call of its own, which takes a fifth of the processor time of a small
    request. `resume` may be called by the event loop only: no task can run within another one.
    """

    __slots__ = ("_asyncio_future_blocking", "_context", "_loop", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._asyncio_future_blocking = False
        self._loop = loop
        self._wake: Callable[[Any], object] | None = None
        self._context: Context | None = None

    def resume(self) -> None:
        """Run the task that waits, if there is one, until it waits for something else."""
        wake, context = self._wake, self._context
        if wake is not None and context is not None:
            self._wake = None
            context.run(wake, self)

    # ------------------------------------------------------------------ called by the task

    def __await__(self) -> Generator[Any, None, None]:
        assert self._wake is None, "one task receives from a connection"
        self._asyncio_future_blocking = True
        yield self

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, wake: Callable[[Any], object], *, context: Context) -> None:
        self._wake, self._context = wake, context

    def cancel(self, msg: object = None) -> bool:
        """Have the task that waits be cancelled with the next turn of the loop: another task may be running now."""
        if self._wake is None:
            return False
        self._loop.call_soon(self._wake, _CANCELLED, context=self._context)
        self._wake = None
        return True

    def result(self) -> None:
        """Return nothing: the bytes are with the connection."""


class _Cancelled:
    """What a task is resumed with whose wait was cancelled."""

    def result(self) -> None:
        raise asyncio.CancelledError


_CANCELLED = _Cancelled()


_chunks: WeakKeyDictionary[asyncio.AbstractEventLoop, memoryview] = WeakKeyDictionary()
"""Buffers into which the connections of an event loop receive, one after the other."""


class SocketConnection(asyncio.BufferedProtocol):
    """One TCP connection.

    `send` waits until the kernel has all the bytes: a peer that does not read makes this broker keep one answer, not
    more. `close` lets what was sent arrive. Bytes that are not asked for yet are read ahead up to a limit, beyond which
    they stay in the kernel.

    It is a protocol of asyncio, and no pair of streams, which copy each byte twice more. All connections of a loop
    receive into one buffer: asyncio would allocate 256 KB for every small request, which may be three system calls.
    Asyncio sets TCP_NODELAY; with Nagle's algorithm some answers would be delayed by 40 ms.
    """

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._peer = "unknown"
        self._unread: list[bytes] = []
        self._unread_bytes = 0
        self._is_reading = True
        self._has_ended = False
        self._failure: Exception | None = None
        self._received = _BytesReceived(self._loop)
        self._chunk = _chunk_of(self._loop)
        self._is_full = False
        """Whether bytes wait that the kernel has not taken."""
        self._senders: list[asyncio.Future[None]] = []

    @property
    def peer(self) -> str:
        return self._peer

    async def send(self, data: Buffer) -> None:
        if self._transport.is_closing():
            raise ConnectionLost(f"the connection to {self._peer} is closed")
        self._transport.write(data)
        if self._transport.is_closing():
            raise ConnectionLost(f"the connection to {self._peer} broke")
        while self._is_full:
            sender = self._loop.create_future()
            self._senders.append(sender)
            await sender
        if self._failure is not None:
            raise ConnectionLost(f"the connection to {self._peer} broke: {self._failure}") from self._failure

    async def receive(self) -> bytes:
        while not self._unread:
            if self._failure is not None:
                raise ConnectionLost(f"the connection to {self._peer} broke: {self._failure}") from self._failure
            if self._has_ended:
                return b""
            await self._received
        data = self._unread[0] if len(self._unread) == 1 else b"".join(self._unread)
        self._unread.clear()
        self._unread_bytes = 0
        if not self._is_reading:
            self._is_reading = True
            self._transport.resume_reading()
        return data

    def close(self) -> None:
        if self._transport.is_closing():
            self._transport.abort()
        else:
            self._transport.close()

    # ------------------------------------------------------------------ called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._peer = _address(transport.get_extra_info("peername"))
        transport.set_write_buffer_limits(high=0)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._chunk

    def buffer_updated(self, nbytes: int) -> None:
        self._unread.append(bytes(self._chunk[:nbytes]))
        self._unread_bytes += nbytes
        if self._unread_bytes > READ_AHEAD_BYTES:
            self._is_reading = False
            self._transport.pause_reading()
        self._received.resume()

    def eof_received(self) -> bool:
        self._has_ended = True
        self._received.resume()
        return True  # answers can still be sent

    def connection_lost(self, exc: Exception | None) -> None:
        self._has_ended = True
        self._failure = exc
        if self._is_full:
            self._failure = exc or ConnectionAbortedError("closed on this side")
            self.resume_writing()
        self._received.resume()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        for sender in self._senders:
            if not sender.done():
                sender.set_result(None)
        self._senders.clear()


class TcpServer:
    """A listening socket. Connections made before `start` wait in the kernel's backlog."""

    def __init__(self, listening: socket.socket, serve: Callable[[Connection], Awaitable[None]]) -> None:
        self._listening = listening
        self._serve = serve
        self._port = int(listening.getsockname()[1])
        self._connections: dict[SocketConnection, asyncio.Task[None]] = {}
        self._accepting: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        return self._port

    def start(self) -> None:
        self._accepting = asyncio.create_task(self._accept(), name=f"accept-{self._port}")

    async def close(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        self._listening.close()
        serving = tuple(self._connections.items())
        for connection, task in serving:
            connection.close()
            task.cancel()
        await asyncio.gather(*(task for _, task in serving), return_exceptions=True)

    async def _accept(self) -> None:
        failing = False
        while True:
            try:
                connection = await self._accept_one()
            except OSError as error:
                # No descriptor is left, or the peer has gone: neither may end the listener, nor fill the log.
                if not failing:
                    log.error("cannot accept connections, trying again", port=self._port, why=str(error))
                failing = True
                await asyncio.sleep(ACCEPT_RETRY_MS / 1000)
                continue
            failing = False
            task = asyncio.create_task(self._run(connection), name=f"connection-{connection.peer}")
            self._connections[connection] = task

    async def _accept_one(self) -> SocketConnection:
        accepted, _ = await asyncio.get_running_loop().sock_accept(self._listening)
        try:
            _, connection = await asyncio.get_running_loop().connect_accepted_socket(SocketConnection, accepted)
        except BaseException:
            accepted.close()  # also if the task is cancelled because the listener closes
            raise
        return connection

    async def _run(self, connection: SocketConnection) -> None:
        try:
            await self._serve(connection)
        finally:
            connection.close()
            self._connections.pop(connection, None)


class SocketNetwork:
    """Connects and binds TCP sockets.

    Args:
        source_address: the local address that outgoing connections are bound to; None lets the system choose one.
    """

    def __init__(self, source_address: str | None = None) -> None:
        self._source = None if source_address is None else (source_address, 0)

    async def connect(self, host: str, port: int, *, timeout_ms: int) -> SocketConnection:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                _, connection = await asyncio.get_running_loop().create_connection(
                    SocketConnection, host, port, local_addr=self._source
                )
        except TimeoutError as error:
            raise ConnectionFailed(f"{host}:{port} did not accept within {timeout_ms} ms") from error
        except NO_ADDRESS as error:
            raise ConnectionFailed(f"{host}:{port} cannot be reached: {_why(error)}") from error
        return connection

    async def bind(self, host: str, port: int, serve: Callable[[Connection], Awaitable[None]]) -> TcpServer:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, kind, protocol, _, address = found[0]
            listening = socket.socket(family, kind, protocol)
            try:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.setblocking(False)
                listening.bind(address)
                listening.listen(BACKLOG)
            except OSError:
                listening.close()
                raise
        except NO_ADDRESS as error:
            raise ConnectionFailed(f"{host}:{port} cannot be bound: {_why(error)}") from error
        return TcpServer(listening, serve)


def _chunk_of(loop: asyncio.AbstractEventLoop) -> memoryview:
    chunk = _chunks.get(loop)
    if chunk is None:
        chunk = _chunks[loop] = memoryview(bytearray(READ_AHEAD_BYTES))
    return chunk


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _address(peername: object) -> str:
    with contextlib.suppress(TypeError, ValueError, IndexError):
        host, port = peername[:2]  # type: ignore[index]  # asyncio gives a tuple, or None for a socket that is gone
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return "unknown"
