"""The `Network` port: what a transport must offer. Bytes only; frames and messages are built on top of it.

Implemented by `brokers.machine.socket_network` over asyncio streams and by the simulator, which carries the same bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol


class ConnectionFailed(Exception):
    """No connection could be made. The message names host, port and the reason."""


class ConnectionLost(Exception):
    """The connection ended while something was still to be sent or received."""


class Connection(Protocol):
    @property
    def peer(self) -> str:
        """The other end as `host:port`, for logs."""

    async def send(self, data: bytes) -> None:
        """Hand `data` over in order; waits while the transport's buffer is full.

        Raises:
            ConnectionLost: it can no longer be delivered.
        """

    async def receive(self) -> bytes:
        """The next bytes, at least one; `b""` when the peer has closed.

        Raises:
            ConnectionLost: the connection was reset.
        """

    def close(self) -> None:
        """End the connection at once; harmless when it is already over."""


class Server(Protocol):
    @property
    def port(self) -> int:
        """The port really bound, where port 0 was asked for."""

    def start(self) -> None:
        """Begin to serve. Connections made before wait in the backlog (specification BR-1)."""

    async def close(self) -> None:
        """Stop accepting and end all connections."""


class Network(Protocol):
    async def connect(self, host: str, port: int, *, timeout_ms: int) -> Connection:
        """Connect.

        Raises:
            ConnectionFailed: refused, unreachable, or not within `timeout_ms`.
        """

    async def bind(self, host: str, port: int, serve: Callable[[Connection], Awaitable[None]]) -> Server:
        """Bind `host:port` (0: any free port); `serve` runs once per connection after `Server.start`.

        Raises:
            ConnectionFailed: the address cannot be bound.
        """
