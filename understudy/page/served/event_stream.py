"""`EventStream`: sends the records of a run as server-sent events, as they come.

A reader consists of a position in the run's records, so a slow reader needs no memory and loses no record: the next
records are taken when the connection has accepted the ones before.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Final

from starlette.types import Receive, Scope, Send

from understudy.clusters.control.guard import refused
from understudy.page.recorded.runs import PageRun
from understudy.page.served.changes import Changes

MOST_IN_AN_EVENT: Final = 500
HEARTBEAT_S: Final = 15.0
RECONNECT_MS: Final = 500
_HEADERS: Final = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]


class Readers:
    """Counts the streams that are open.

    Args:
        busy: the error of another stream if `most` are open.
    """

    def __init__(self, most: int, busy: str) -> None:
        self.most = most
        self.busy = busy
        self.count = 0


class ServerSentEvents:
    """An ASGI answer with events, until there are no more or the reader has left.

    Args:
        events: the text of the events, encoded.
        readers: each counts this stream while it is open, and may have none left for it, which is answered with 503.
    """

    def __init__(self, events: AsyncGenerator[bytes, None], *readers: Readers) -> None:
        self._events = events
        self._readers = readers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        for each in self._readers:
            if each.count >= each.most:
                await refused(503, each.busy)(scope, receive, send)
                return
        for each in self._readers:
            each.count += 1
        sending, leaving = asyncio.ensure_future(self._send(send)), asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in self._readers:
                each.count -= 1
            leaving.cancel()
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await _write(send, f"retry: {RECONNECT_MS}\n\n".encode())
        async with contextlib.aclosing(self._events):
            async for event in self._events:
                await _write(send, event)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class EventStream(ServerSentEvents):
    """The records of a run as events. The data of an event is an array of records, its id the number of records so far.

    The event `ended` says that the run has ended. If the server ends before, the stream ends without this event.

    Args:
        position: the number of records that the reader already has.
    """

    def __init__(self, run: PageRun, changes: Changes, readers: Readers, position: int) -> None:
        super().__init__(_records_of(run, changes, position), readers)


async def _records_of(run: PageRun, changes: Changes, position: int) -> AsyncGenerator[bytes, None]:
    while True:
        records = run.chunks.since(position, MOST_IN_AN_EVENT)
        if records:
            position += len(records)
            yield b"id: %d\ndata: [%b]\n\n" % (position, b",".join(records))
        elif not run.is_live:
            yield b"event: ended\ndata: %d\n\n" % position
            break
        elif changes.are_over:
            break
        elif not await changes.wait(HEARTBEAT_S):
            yield b": no new record\n\n"


async def _write(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
