"""The `Network` port: connections and servers that carry bytes. Frames and messages are built on it.

Implemented by `understudy.brokers.machine.socket_network` over asyncio streams and by the simulator, which carries the
same bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol


class ConnectionFailed(Exception):
    """No connection could be made. The message names host, port and the reason."""


class ConnectionLost(Exception):
    """The connection ended while something was still to be sent or received."""


class Connection(Protocol):
    """One open connection."""

    @property
    def peer(self) -> str:
        """The other end as `host:port`, for logs."""

    async def send(self, data: bytes) -> None:
        """Send `data` after what was sent before; wait while the transport's buffer is full.

        Raises:
            ConnectionLost: the connection has ended.
        """

    async def receive(self) -> bytes:
        """Wait for the next bytes, at least one; `b""` when the peer has closed.

        Raises:
            ConnectionLost: the connection was reset.
        """

    def close(self) -> None:
        """End the connection at once; harmless when it is already over."""


class ServerSocket(Protocol):
    """A bound address that accepts connections."""

    @property
    def port(self) -> int:
        """The bound port, also if port 0 was requested."""

    def start(self) -> None:
        """Begin to serve. Earlier connections wait in the backlog (BR-1)."""

    async def close(self) -> None:
        """Stop accepting and end all connections."""


class Network(Protocol):
    """Makes connections and servers."""

    async def connect(self, host: str, port: int, *, timeout_ms: int) -> Connection:
        """Connect to `host:port`.

        Raises:
            ConnectionFailed: refused, unreachable, or not within `timeout_ms`.
        """

    async def bind(self, host: str, port: int, serve: Callable[[Connection], Awaitable[None]]) -> ServerSocket:
        """Bind `host:port` (0: any free port); after `ServerSocket.start`, `serve` runs once for each connection.

        Raises:
            ConnectionFailed: the address cannot be bound.
        """
