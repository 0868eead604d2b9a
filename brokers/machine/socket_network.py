"""The `Network` port over TCP. The only file of the broker that uses sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

import structlog

from foundation.wire.network import Connection, ConnectionFailed, ConnectionLost

BACKLOG = 128
RECEIVE_BYTES = 256 * 1024
ACCEPT_RETRY_MS = 50

NO_ADDRESS = (OSError, OverflowError, ValueError)
"""What asyncio raises for an address that cannot be used: OverflowError for a port above 65535, ValueError for a host
with an empty label or a NUL. Addresses come from znodes and requests, so any of these may occur."""

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.network.Acceptor")


class SocketConnection:
    """One TCP connection.

    `send` waits until the kernel has all the bytes: a peer that does not read makes this broker keep one answer, not
    more. `close` lets what was sent arrive.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._peer = _address(writer.get_extra_info("peername"))
        writer.transport.set_write_buffer_limits(high=0)
        raw = writer.get_extra_info("socket")
        if raw is not None:
            # Requests are small, and each waits for its answer: Nagle's algorithm would delay some by 40 ms.
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def peer(self) -> str:
        return self._peer

    async def send(self, data: bytes) -> None:
        if self._writer.is_closing():
            raise ConnectionLost(f"the connection to {self._peer} is closed")
        self._writer.write(data)
        try:
            await self._writer.drain()
        except OSError as error:
            raise ConnectionLost(f"the connection to {self._peer} broke: {error}") from error

    async def receive(self) -> bytes:
        try:
            return await self._reader.read(RECEIVE_BYTES)
        except OSError as error:
            raise ConnectionLost(f"the connection to {self._peer} broke: {error}") from error

    def close(self) -> None:
        if self._writer.is_closing():
            self._writer.transport.abort()
        else:
            self._writer.close()


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
            reader, writer = await asyncio.open_connection(sock=accepted)
        except BaseException:
            accepted.close()  # also where the task is cancelled because the listener closes
            raise
        return SocketConnection(reader, writer)

    async def _run(self, connection: SocketConnection) -> None:
        try:
            await self._serve(connection)
        finally:
            connection.close()
            self._connections.pop(connection, None)


class SocketNetwork:
    """Connects and binds TCP sockets."""

    async def connect(self, host: str, port: int, *, timeout_ms: int) -> SocketConnection:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                reader, writer = await asyncio.open_connection(host, port)
        except TimeoutError as error:
            raise ConnectionFailed(f"{host}:{port} did not accept within {timeout_ms} ms") from error
        except NO_ADDRESS as error:
            raise ConnectionFailed(f"{host}:{port} cannot be reached: {_why(error)}") from error
        return SocketConnection(reader, writer)

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


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _address(peername: object) -> str:
    with contextlib.suppress(TypeError, ValueError, IndexError):
        host, port = peername[:2]  # type: ignore[index]  # asyncio gives a tuple, or None for a socket that is gone
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return "unknown"
