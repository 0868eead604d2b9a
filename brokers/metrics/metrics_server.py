"""Serves `GET /metrics` over HTTP on `metrics.port`, for Prometheus.

It speaks only as much HTTP as a scraper needs, over the World's network and so also in the simulator: one request per
connection, answered and closed. Every other request is refused. Sizes, time and connections are bounded, so that no
peer can hold up the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import structlog

from understudy.foundation.metrics.mbeans import CONTENT_TYPE, MetricReading, exposition
from understudy.foundation.wire.network import Connection, ConnectionLost, Network, ServerSocket

PATH = "/metrics"

ADDRESS_FILE = "metrics.address"
"""Name of a file in the log directory of a broker that serves metrics; it holds the bound `host:port`."""

REQUEST_BYTES = 8 * 1024
"""Maximum number of bytes of a request, its blank line included; a longer one is refused."""
CONNECTIONS = 16
"""Maximum number of connections at one time; more are closed at once."""
TIMEOUT_MS = 10_000
"""Maximum time that a connection lasts."""

_END_OF_HEAD = b"\r\n\r\n"
_PLAIN = "text/plain; charset=utf-8"

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.MetricsServer")

Collect = Callable[[], Awaitable[list[MetricReading]]]


class Response(NamedTuple):
    """An HTTP response."""

    status: str
    """Code and reason of the status line."""
    body: str
    content_type: str = _PLAIN
    allow: str = ""
    """The methods that are allowed, if the request's method is not."""

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
    """Answers scrapes with the metrics of a broker.

    Args:
        collect: returns the metrics; called at each scrape.
    """

    def __init__(self, *, network: Network, collect: Collect) -> None:
        self._network = network
        self._collect = collect
        self._server: ServerSocket | None = None
        self._open = 0

    async def start(self, host: str, port: int) -> int:
        """Bind and serve; return the bound port, which port 0 leaves to the machine.

        Raises:
            ConnectionFailed: the address is in use, or not of this machine.
        """
        self._server = await self._network.bind(host, port, self._serve)
        self._server.start()
        log.info("metrics are served", address=f"{host}:{self._server.port}", path=PATH)
        return self._server.port

    async def close(self) -> bool:
        """Stop serving; return whether it was."""
        if self._server is None:
            return False
        await self._server.close()
        self._server = None
        return True

    async def _serve(self, connection: Connection) -> None:
        if self._open >= CONNECTIONS:
            log.debug("too many connections for metrics", peer=connection.peer)
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
        response = refusal(head)
        if response is None:
            response = Response("200 OK", exposition(await self._collect()), CONTENT_TYPE)
        await connection.send(response.encoded())


async def _head(connection: Connection) -> bytes | None:
    """A request up to its blank line, cut off at `REQUEST_BYTES`; None if the peer has closed before."""
    received = bytearray()
    while _END_OF_HEAD not in received and len(received) < REQUEST_BYTES:
        data = await connection.receive()
        if not data:
            return None
        received += data
    return bytes(received)


def refusal(head: bytes) -> Response | None:
    """The response to a request that is refused; None for one that is answered with the metrics. Pure.

    Args:
        head: the request up to its blank line, or its beginning if it is too long.
    """
    if _END_OF_HEAD not in head[:REQUEST_BYTES]:
        return Response("431 Request Header Fields Too Large", f"A request may have {REQUEST_BYTES} bytes.\n")
    words = head.partition(b"\r\n")[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return Response("400 Bad Request", f"Expected: GET {PATH} HTTP/1.1\n")
    method, target, _ = words
    if target.partition(b"?")[0] != PATH.encode():
        return Response("404 Not Found", f"Only {PATH} is served.\n")
    if method != b"GET":
        return Response("405 Method Not Allowed", f"{PATH} can only be read.\n", allow="GET")
    return None
