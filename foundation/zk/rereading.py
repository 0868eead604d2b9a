"""Reads something in ZooKeeper again whenever it may have changed, until the broker stops.

One flag stands for any number of reasons to read, and each read arms the watch for the next change: no change is
missed, and reads do not queue up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import structlog

from understudy.foundation.zk.kafka_zk_client import SessionLost, ZooKeeperFailure

_RETRY_MS = 1_000


class Rereading:
    """Calls `read` whenever it is due.

    Args:
        what: a name of the data, for the operator's log.
        read: reads it and arms its watch.
        level: at which a failure is logged after which `read` is tried again.
    """

    def __init__(
        self,
        what: str,
        read: Callable[[], Awaitable[None]],
        log: structlog.typing.FilteringBoundLogger,
        level: int = logging.WARNING,
    ) -> None:
        self._what = what
        self._read = read
        self._log = log
        self._level = level
        self._due = asyncio.Event()

    def due(self) -> None:
        """Request another read: the watch has fired, or is gone with its session."""
        self._due.set()

    async def run(self) -> None:
        """Read whenever it is due. Raises what `read` raises, except `SessionLost` and `ZooKeeperFailure`."""
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                await self._read()
            except SessionLost as lost:
                self._log.warning("not read; the next session will", what=self._what, why=str(lost))
            except ZooKeeperFailure as failure:
                self._log.log(self._level, "not read; trying again", what=self._what, why=str(failure))
                await asyncio.sleep(_RETRY_MS / 1000)
                self._due.set()
