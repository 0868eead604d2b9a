"""`BoundedH11`: uvicorn's HTTP/1.1 with a bound of open connections, and of the time without a request.

uvicorn answers requests with 503 from `limit_concurrency` connections on, but accepts any number of them, and waits
without end for the first request of each. On an address of a network they could take all files of the process.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

SPARE: Final = 64
"""Number of connections above `limit_concurrency` that are answered with 503; further ones are closed at once."""
IDLE_S: Final = 10.0
"""Time in seconds after which a connection is closed that has sent no whole request in it. Keep-alive is shorter."""


class BoundedH11(H11Protocol):
    """One connection."""

    idle_s = IDLE_S

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._seen: object = None
        self._looking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency + SPARE:
            transport.abort()
        else:
            self._looking = self.loop.call_later(self.idle_s, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Close the connection if no request is being answered and none was since the last look."""
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and self.cycle is self._seen:
            self.transport.abort()
            return
        self._seen = self.cycle
        self._looking = self.loop.call_later(self.idle_s, self._look)
