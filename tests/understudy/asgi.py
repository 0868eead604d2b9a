"""Calls an ASGI application without a server."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message, Scope

HOST = "127.0.0.1:4711"
TOKEN = "a token"
OWN = {"host": HOST}
COMMAND = {"host": HOST, "origin": f"http://{HOST}", "authorization": f"Bearer {TOKEN}"}
"""The headers of a command that the page itself sends."""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        text = gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body
        return json.loads(text)

    @property
    def error(self) -> tuple[int, str]:
        return self.status, self.json["error"]


def scope_of(method: str, path: str, headers: Mapping[str, str] | list[tuple[str, str]] = OWN) -> Scope:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    bare, _, query = path.partition("?")
    return {
        "type": "http",
        "method": method,
        "path": bare,
        "raw_path": bare.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in pairs],
    }


def call(
    app: ASGIApp,
    path: str,
    headers: Mapping[str, str] | list[tuple[str, str]] = OWN,
    *,
    method: str = "GET",
    body: bytes = b"",
) -> Answer:
    """Send one request and return its whole answer; the request's body comes in two parts."""
    half = len(body) // 2
    parts: list[Message] = [
        {"type": "http.request", "body": body[:half], "more_body": True},
        {"type": "http.request", "body": body[half:], "more_body": False},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        if parts:
            return parts.pop(0)
        await asyncio.Event().wait()  # the connection stays open
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    async def run() -> None:
        await app(scope_of(method, path, headers), receive, send)

    asyncio.run(run())
    start, *rest = sent
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], found, b"".join(message.get("body", b"") for message in rest))


def post(app: ASGIApp, path: str, body: object, headers: Mapping[str, str] = COMMAND) -> Answer:
    return call(app, path, headers, method="POST", body=json.dumps(body).encode())
