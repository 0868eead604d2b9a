"""`GET /metrics`: the numbers of this broker over HTTP, for Prometheus. On `metrics.port`, where there is one.

The least HTTP that a scraper needs, over the World's network and so in the simulator, too: one request a connection,
answered and closed. Whatever else arrives is refused; sizes, time and connections are bounded, so that nobody out there
can take anything from the broker but a little time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import structlog

from foundation.metrics.mbeans import CONTENT_TYPE, Reading, exposition
from foundation.wire.network import Connection, ConnectionLost, Network, Server

PATH = "/metrics"

ADDRESS_FILE = "metrics.address"
"""In the log directory of a broker while it serves metrics: `host:port` as it was bound."""

REQUEST_BYTES = 8 * 1024
"""A request with more than this, its blank line included, is refused."""
CONNECTIONS = 16
"""At one time; more are closed at once."""
TIMEOUT_MS = 10_000
"""For one connection from its first byte to its last."""

_END_OF_HEAD = b"\r\n\r\n"
_PLAIN = "text/plain; charset=utf-8"

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.MetricsServer")

Collect = Callable[[], Awaitable[list[Reading]]]


class Response(NamedTuple):
    status: str
    """Code and reason, as in the status line."""
    body: str
    content_type: str = _PLAIN
    allow: str = ""
    """The methods that would do, where the one that was used does not."""

    def encoded(self) -> bytes:
        body = self.body.encode()
        head = [
            f"HTTP/1.1 {self.status}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(body)}",
            "Connection: close",
            *([f"Allow: {self.allow}"] if self.allow else []),
        ]
        return "\r\n".join(head).encode() + _END_OF_HEAD + body


class MetricsServer:
    """
    Args:
        collect: what there is to tell, asked for at each scrape.
    """

    def __init__(self, *, network: Network, collect: Collect) -> None:
        self._network = network
        self._collect = collect
        self._server: Server | None = None
        self._open = 0

    async def start(self, host: str, port: int) -> int:
        """Bind and serve; the port bound, where 0 asked for any.

        Raises:
            ConnectionFailed: the address is taken or not ours.
        """
        self._server = await self._network.bind(host, port, self._serve)
        self._server.start()
        log.info("metrics are served", address=f"{host}:{self._server.port}", path=PATH)
        return self._server.port

    async def close(self) -> bool:
        """Whether there was anything to close."""
        if self._server is None:
            return False
        await self._server.close()
        self._server = None
        return True

    async def _serve(self, connection: Connection) -> None:
        if self._open >= CONNECTIONS:
            log.debug("too many ask for metrics", peer=connection.peer)
            connection.close()
            return
        self._open += 1
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                await self._answer(connection)
        except (ConnectionLost, TimeoutError) as error:
            log.debug("metrics were not delivered", peer=connection.peer, why=repr(error))
        finally:
            self._open -= 1
        connection.close()

    async def _answer(self, connection: Connection) -> None:
        head = await _head(connection)
        if head is None:
            return
        refusal = refused(head)
        if refusal is None:
            refusal = Response("200 OK", exposition(await self._collect()), CONTENT_TYPE)
        await connection.send(refusal.encoded())


async def _head(connection: Connection) -> bytes | None:
    """A request up to its blank line, or as much as will be read of it; None where the peer has gone before."""
    received = bytearray()
    while _END_OF_HEAD not in received and len(received) < REQUEST_BYTES:
        data = await connection.receive()
        if not data:
            return None
        received += data
    return bytes(received)


def refused(head: bytes) -> Response | None:
    """Why a request is not answered with the metrics; None where it is. Pure.

    Args:
        head: of a request, complete unless it is too long.
    """
    if _END_OF_HEAD not in head[:REQUEST_BYTES]:
        return Response("431 Request Header Fields Too Large", f"A request may have {REQUEST_BYTES} bytes.\n")
    words = head.partition(b"\r\n")[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return Response("400 Bad Request", f"Expected: GET {PATH} HTTP/1.1\n")
    method, target, _ = words
    if target.partition(b"?")[0] != PATH.encode():
        return Response("404 Not Found", f"There is nothing but {PATH} here.\n")
    if method != b"GET":
        return Response("405 Method Not Allowed", f"{PATH} can only be read.\n", allow="GET")
    return None
