"""A phone of a class as a program: HTTP over a socket of its own."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

from understudy.page.classroom.class_server import ClassServer

WAIT_S = 120
"""The longest time that an answer may take, on a busy machine."""


class HttpAnswer(NamedTuple):
    status: int
    headers: dict[str, str]
    json: Any


class HttpPhone:
    """One phone. `join` comes first."""

    def __init__(self, server: ClassServer) -> None:
        self._host, self._code = server.address.removeprefix("http://").rstrip("/"), server.code
        self._cookie = ""

    async def join(self) -> HttpAnswer:
        answer = await self.post("/join", {})
        self._cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        return answer

    async def vote(self, question: str, answer: float) -> HttpAnswer:
        return await self.post("/vote", {"question": question, "answer": answer})

    async def post(self, path: str, body: object) -> HttpAnswer:
        text = json.dumps(body).encode()
        lines = (f"Origin: http://{self._host}", f"Authorization: Bearer {self._code}", f"Content-Length: {len(text)}")
        reader, writer = await self._send(f"POST {path}", *lines, body=text)
        try:
            return await _answer(reader)
        finally:
            writer.close()

    async def follow(self) -> PhoneStream:
        reader, writer = await self._send("GET /events")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_S)
        stream = PhoneStream(int(head.split()[1]), reader, writer)
        if stream.status != 200:
            writer.close()
        return stream

    async def _send(
        self, request: str, *lines: str, body: bytes = b""
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = self._host.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = (f"{request} HTTP/1.1", f"Host: {self._host}", f"Cookie: {self._cookie}", "Connection: close", *lines)
        writer.write("\r\n".join((*head, "", "")).encode() + body)
        await writer.drain()
        return reader, writer


class PhoneStream(NamedTuple):
    """The event stream of a phone."""

    status: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def next(self) -> Any:
        """Return the next document."""
        while True:
            line = await asyncio.wait_for(self.reader.readline(), WAIT_S)
            assert line, "the stream has ended"
            if line.startswith(b"data: "):
                return json.loads(line[6:])

    async def ends(self) -> bool:
        """Return whether the server ends the stream; what it still has is left out."""
        await asyncio.wait_for(self.reader.read(), WAIT_S)
        return self.reader.at_eof()


async def _answer(reader: asyncio.StreamReader) -> HttpAnswer:
    head, _, body = (await asyncio.wait_for(reader.read(), WAIT_S)).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return HttpAnswer(int(first.split()[1]), headers, json.loads(body) if body else None)
