"""`ScriptedPeer`: a network with one server, whose responses are made by a function of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from understudy.foundation.wire.framing import FrameReader
from understudy.foundation.wire.headers import RequestHeader, decode_request, encode_response
from understudy.foundation.wire.network import Connection, ConnectionFailed, ConnectionLost, ServerSocket
from understudy.foundation.wire.registry import api_by_key
from understudy.foundation.wire.schema import Message

Answer = Callable[[RequestHeader, Message], Message | None]
"""Make the response to a request; None closes the connection without one."""


class ScriptedPeer:
    """A network whose every address is this server.

    Attributes:
        reachable: whether connections succeed.
        refusing: `host:port` of the addresses that refuse connections.
        received: address, header and body of every request, in order.
        connections: the number of connections that were opened.
        open_connections: the number of those that are not closed.
        delay_s: the time between a request and its response.
    """

    def __init__(self, answer: Answer, *, delay_s: float = 0.0) -> None:
        self.reachable = True
        self.refusing: set[str] = set()
        self.received: list[tuple[str, RequestHeader, Message]] = []
        self.connections = 0
        self.open_connections = 0
        self._answer = answer
        self.delay_s = delay_s

    async def connect(self, host: str, port: int, *, timeout_ms: int) -> Connection:
        if not self.reachable or f"{host}:{port}" in self.refusing:
            raise ConnectionFailed(f"{host}:{port} refused")
        self.connections += 1
        self.open_connections += 1
        return _Wire(f"{host}:{port}", self)

    async def bind(self, host: str, port: int, serve: Callable[[Connection], Awaitable[None]]) -> ServerSocket:
        raise AssertionError("a client binds no port")

    async def answer(self, address: str, frame: bytes) -> bytes:
        header, message = decode_request(frame)
        self.received.append((address, header, message))
        await asyncio.sleep(self.delay_s)
        response = self._answer(header, message)
        if response is None:
            return b""
        api = api_by_key(header.api_key)
        assert api is not None
        return encode_response(api, header.api_version, header.correlation_id, response)


class _Wire:
    """A connection to `ScriptedPeer`: responds to the requests that were sent, in order."""

    def __init__(self, peer: str, other_end: ScriptedPeer) -> None:
        self._peer = peer
        self._other_end = other_end
        self._frames = FrameReader()
        self._waiting: list[bytes] = []
        self._closed = False

    @property
    def peer(self) -> str:
        return self._peer

    async def send(self, data: bytes) -> None:
        if self._closed:
            raise ConnectionLost("closed")
        self._waiting += self._frames.feed(data)

    async def receive(self) -> bytes:
        if self._closed:
            raise ConnectionLost("closed")
        return await self._other_end.answer(self._peer, self._waiting.pop(0))

    def close(self) -> None:
        if not self._closed:
            self._other_end.open_connections -= 1
        self._closed = True
