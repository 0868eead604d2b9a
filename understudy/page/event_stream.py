"""`EventStream`: sends the records of a run as server-sent events, as they come.

A reader consists of a position in the run's records, so a slow reader needs no memory and loses no record: the next
records are taken when the connection has accepted the ones before.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from starlette.types import Receive, Scope, Send

from understudy.clusters.control.guard import refused
from understudy.page.changes import Changes
from understudy.page.runs import PageRun

MOST_IN_AN_EVENT: Final = 500
HEARTBEAT_S: Final = 15.0
RECONNECT_MS: Final = 500
_HEADERS: Final = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]


class Readers:
    """Counts the streams that are open."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0


class EventStream:
    """An ASGI answer with events. The data of an event is an array of records, its id the number of records so far.

    The event `ended` says that the run has ended. If the server ends before, the stream ends without this event.

    Args:
        position: the number of records that the reader already has.
    """

    def __init__(self, run: PageRun, changes: Changes, readers: Readers, position: int) -> None:
        self._run = run
        self._changes = changes
        self._readers = readers
        self._position = position

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._readers.count >= self._readers.most:
            await refused(503, f"{self._readers.most} pages follow this run already; close one")(scope, receive, send)
            return
        self._readers.count += 1
        sending, leaving = asyncio.ensure_future(self._send(send)), asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._readers.count -= 1
            leaving.cancel()
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await _write(send, f"retry: {RECONNECT_MS}\n\n".encode())
        while True:
            records = self._run.chunks.since(self._position, MOST_IN_AN_EVENT)
            if records:
                self._position += len(records)
                await _write(send, b"id: %d\ndata: [%b]\n\n" % (self._position, b",".join(records)))
            elif not self._run.is_live:
                await _write(send, b"event: ended\ndata: %d\n\n" % self._position)
                break
            elif self._changes.are_over:
                break
            elif not await self._changes.wait(HEARTBEAT_S):
                await _write(send, b": no new record\n\n")
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _write(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
