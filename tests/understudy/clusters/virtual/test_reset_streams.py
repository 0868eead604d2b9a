"""A stream whose connection was reset, when it is collected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.understudy.clusters.virtual.subjects import AsyncioSubject, Subject

LOCAL = "127.0.0.1"


class Aborting(asyncio.Protocol):
    """Resets its connection: it has not read what was sent."""

    def connection_made(self, transport: Any) -> None:
        transport.pause_reading()
        asyncio.get_running_loop().call_later(0.05, transport.abort)


def test_the_exception_of_a_stream_is_reported_in_no_order_in_which_it_is_collected(subject: Subject) -> None:
    """With asyncio's own loop the stream retrieves it in its finaliser, which may come after the finaliser of the
    future: the garbage collector may have moved the stream behind its future. Then the exception is reported.
    """

    async def case() -> bool:
        server = await asyncio.get_running_loop().create_server(Aborting, LOCAL, 0)
        _, writer = await asyncio.open_connection(LOCAL, server.sockets[0].getsockname()[1])
        writer.write(b"unread by the server")
        closed = writer.transport.get_protocol()._closed  # type: ignore[attr-defined]  # of a StreamReaderProtocol
        await asyncio.wait([closed])
        is_to_be_reported: bool = closed._log_traceback
        with pytest.raises(ConnectionResetError):
            await writer.wait_closed()
        server.close()
        return is_to_be_reported

    assert subject.run(case) == isinstance(subject, AsyncioSubject)
