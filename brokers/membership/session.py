"""This broker's ZooKeeper session: opened, watched, and opened again when it was lost (ZC-6, R-6).

When a session expires the controller resigns first; only then is a new session opened, tried every second for as long
as it takes, and handed over for the broker to register in. A handle of the old session fails for ever, so that nothing
of the old life can reach ZooKeeper through the new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from brokers.supervisor import Supervisor
from foundation.eventlog.fences import Fences
from foundation.eventlog.log import EventLog, causing
from foundation.eventlog.records import (
    SessionExpiredRecord,
    SessionOpened,
    SessionResumedRecord,
    SessionSuspendedRecord,
    WatchFiredRecord,
)
from foundation.zk.client import (
    Notification,
    SessionExpired,
    SessionResumed,
    SessionSuspended,
    WatchFired,
    ZooKeeper,
    ZooKeeperClient,
    ZooKeeperUnreachable,
)
from foundation.zk.kafka_zk_client import KafkaZkClient

REOPEN_INTERVAL_MS = 1_000

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.zookeeper.ZooKeeperClient")


class Tenant(Protocol):
    """Who lives by the session: the controller."""

    def notified(self, notification: WatchFired) -> None: ...

    async def expire(self) -> None: ...

    def session_opened(self, zk: KafkaZkClient) -> None: ...


class Listener(Protocol):
    """Who has something to look after in each session, but does not hold it up."""

    def notified(self, notification: WatchFired) -> None: ...

    def session_opened(self) -> None:
        """A session has followed one that was lost, and its watches are not armed."""


class BrokerSession:
    """The session of now, as a store.

    Args:
        tenant: asked for at every notification; None before the controller exists.
    """

    def __init__(
        self,
        *,
        zookeeper: ZooKeeper,
        events: EventLog,
        fences: Fences,
        supervisor: Supervisor,
        tenant: Callable[[], Tenant | None],
    ) -> None:
        self._zookeeper = zookeeper
        self._events = events
        self._fences = fences
        self._supervisor = supervisor
        self._tenant = tenant
        self._client: ZooKeeperClient | None = None
        self._zk: KafkaZkClient | None = None
        self._listeners: list[Listener] = []
        self._life = 0
        self._closed = False

    @property
    def zk(self) -> KafkaZkClient:
        """The store over the newest session."""
        assert self._zk is not None, "the session is opened first"
        return self._zk

    def add_listener(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def open(self) -> KafkaZkClient:
        """Open a session and make it the current one.

        Raises:
            ZooKeeperUnreachable: no server answered in time.
        """
        self._life += 1
        life = self._life

        def hear(notification: Notification) -> None:
            if life == self._life:
                self._hear(notification)

        client = self._client = await self._zookeeper.connect(hear)
        self._events.append(SessionOpened(session_id=client.session_id, timeout_ms=client.session_timeout_ms))
        log.info("session opened", session_id=hex(client.session_id), timeout_ms=client.session_timeout_ms)
        self._zk = KafkaZkClient(client, events=self._events, fences=self._fences)
        return self._zk

    async def close(self) -> None:
        """End the session; this broker's registration vanishes with it."""
        self._closed = True
        self._life += 1
        if self._client is not None:
            await self._client.close()

    def _hear(self, notification: Notification) -> None:
        session_id = 0 if self._client is None else self._client.session_id
        match notification:
            case WatchFired(path=path, kind=kind):
                fired = self._events.append(WatchFiredRecord(path=path, kind=kind.value))
                tenant = self._tenant()
                with causing(fired):
                    for hears in (*self._listeners, *(() if tenant is None else (tenant,))):
                        hears.notified(notification)
            case SessionSuspended():
                self._events.append(SessionSuspendedRecord(session_id=session_id))
                log.warning("connection to ZooKeeper lost", session_id=hex(session_id))
            case SessionResumed():
                self._events.append(SessionResumedRecord(session_id=session_id))
                log.info("connected to ZooKeeper again", session_id=hex(session_id))
            case SessionExpired():
                expired = self._events.append(SessionExpiredRecord(session_id=session_id))
                log.warning("session expired", session_id=hex(session_id))
                if not self._closed:
                    with causing(expired):
                        self._supervisor.spawn(self._begin_again(), "zk-session-expiry-handler")

    async def _begin_again(self) -> None:
        tenant = self._tenant()
        if tenant is not None:
            await tenant.expire()
        while True:
            try:
                zk = await self.open()
            except ZooKeeperUnreachable as unreachable:
                log.error("cannot open a new session, trying again", why=str(unreachable))
                await asyncio.sleep(REOPEN_INTERVAL_MS / 1000)
                continue
            if tenant is not None:
                tenant.session_opened(zk)
            for listener in self._listeners:
                listener.session_opened()
            return
