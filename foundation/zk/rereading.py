"""Something of ZooKeeper that a broker reads again whenever it may have changed, for as long as it lives.

One flag stands for any number of reasons to read, and each read arms the watch that tells of the next change, so that
nothing is lost and nothing piles up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from foundation.zk.kafka_zk_client import SessionLost, ZooKeeperFailure

_RETRY_MS = 1_000


class Rereading:
    """
    Args:
        what: is read, for the operators' log.
        read: reads it, with its watch.
        complain: where a failure that will be tried again is told.
    """

    def __init__(
        self,
        what: str,
        read: Callable[[], Awaitable[None]],
        log: structlog.typing.FilteringBoundLogger,
        complain: Callable[..., object],
    ) -> None:
        self._what = what
        self._read = read
        self._log = log
        self._complain = complain
        self._due = asyncio.Event()

    def due(self) -> None:
        """Its watch has fired, or ended with its session."""
        self._due.set()

    async def run(self) -> None:
        """Raises whatever `read` does, but for a lost session and what ZooKeeper refuses."""
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                await self._read()
            except SessionLost as lost:
                self._log.warning(f"{self._what} not read; the next session will", why=str(lost))
            except ZooKeeperFailure as failure:
                self._complain(f"{self._what} not read; trying again", why=str(failure))
                await asyncio.sleep(_RETRY_MS / 1000)
                self._due.set()
