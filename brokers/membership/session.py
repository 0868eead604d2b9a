"""This broker's ZooKeeper session: opened, watched, and opened again after it has expired (ZC-6).

When a session expires the controller resigns first. Only then is a new session opened, tried every second for as long
as it takes, and the broker registers in it. A client of the expired session fails for ever, so that nothing begun in
it can reach ZooKeeper through the new one. Mirrors the session half of `kafka.zookeeper.ZooKeeperClient`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

import structlog

from understudy.brokers.supervisor import Supervisor
from understudy.foundation.eventlog.fences import Fences
from understudy.foundation.eventlog.log import EventLog, causing
from understudy.foundation.eventlog.records import (
    SessionExpiredRecord,
    SessionOpened,
    SessionResumedRecord,
    SessionSuspendedRecord,
    WatchFiredRecord,
)
from understudy.foundation.zk.client import (
    Notification,
    SessionExpired,
    SessionResumed,
    SessionSuspended,
    WatchFired,
    ZooKeeper,
    ZooKeeperClient,
    ZooKeeperUnreachable,
)
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient

REOPEN_INTERVAL_MS = 1_000

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.zookeeper.ZooKeeperClient")


class SessionOwner(Protocol):
    """The controller: it resigns before an expired session is replaced, and registers the broker in the next one."""

    def notified(self, notification: WatchFired) -> None: ...

    async def expire(self) -> None: ...

    def session_opened(self, zk: KafkaZkClient) -> None: ...


class Listener(Protocol):
    """Reads znodes again when a watch has fired or a new session has begun. Mirrors Kafka's `StateChangeHandler`."""

    def notified(self, notification: WatchFired) -> None: ...

    def session_opened(self) -> None:
        """A new session has replaced an expired one; the watches of the old one are gone."""


class BrokerSession:
    """Opens the session, passes its notifications on, and replaces it when it has expired.

    A callback that raises is logged and recorded; the others are still called, as in Kafka.

    Args:
        owner: returns the controller; None before it exists.
    """

    def __init__(
        self,
        *,
        zookeeper: ZooKeeper,
        events: EventLog,
        fences: Fences,
        supervisor: Supervisor,
        owner: Callable[[], SessionOwner | None],
    ) -> None:
        self._zookeeper = zookeeper
        self._events = events
        self._fences = fences
        self._supervisor = supervisor
        self._owner = owner
        self._client: ZooKeeperClient | None = None
        self._zk: KafkaZkClient | None = None
        self._listeners: list[Listener] = []
        self._sessions = 0
        """How many were begun. A notification of any but the last one is ignored."""
        self._closed = False

    @property
    def zk(self) -> KafkaZkClient:
        """The client of the newest session."""
        assert self._zk is not None, "the session is opened first"
        return self._zk

    def add_listener(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def open(self) -> KafkaZkClient:
        """Open a session and make it the current one.

        Raises:
            ZooKeeperUnreachable: no server answered in time, or this session has been closed meanwhile.
        """
        self._sessions += 1
        number = self._sessions

        def notify(notification: Notification) -> None:
            if number == self._sessions:
                self._notified(notification)

        client = await self._zookeeper.connect(notify)
        if self._closed:
            await client.close()
            raise ZooKeeperUnreachable("the broker is shutting down")
        self._client = client
        self._events.append(SessionOpened(session_id=client.session_id, timeout_ms=client.session_timeout_ms))
        log.info("session opened", session_id=hex(client.session_id), timeout_ms=client.session_timeout_ms)
        self._zk = KafkaZkClient(client, events=self._events, fences=self._fences)
        return self._zk

    async def close(self) -> None:
        """End the session; this broker's registration is deleted with it. Calling it again is harmless."""
        self._closed = True
        self._sessions += 1
        if self._client is not None:
            await self._client.close()

    def _notified(self, notification: Notification) -> None:
        session_id = 0 if self._client is None else self._client.session_id
        match notification:
            case WatchFired(path=path, kind=kind):
                fired = self._events.append(WatchFiredRecord(path=path, kind=kind.value))
                with causing(fired):
                    for listener in self._listeners:
                        self._call(listener, partial(listener.notified, notification))
                    owner = self._owner()
                    if owner is not None:
                        self._call(owner, partial(owner.notified, notification))
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
                        self._supervisor.spawn(self._reinitialize(), "zk-session-expiry-handler")

    async def _reinitialize(self) -> None:
        """Replace the expired session.

        1. The controller resigns.
        2. A new session is opened, however long that takes.
        3. The broker registers in it, and the listeners read again.
        """
        owner = self._owner()
        if owner is not None:
            try:
                await owner.expire()
            except Exception as error:  # noqa: BLE001  logged with its traceback, and recorded
                self._failed(owner, error)
        while True:
            try:
                zk = await self.open()
            except ZooKeeperUnreachable as unreachable:
                if self._closed:
                    return
                log.error("cannot open a new session, trying again", why=str(unreachable))
                await asyncio.sleep(REOPEN_INTERVAL_MS / 1000)
                continue
            break
        if owner is not None:
            self._call(owner, partial(owner.session_opened, zk))
        for listener in self._listeners:
            self._call(listener, listener.session_opened)

    def _call(self, handler: object, callback: Callable[[], None]) -> None:
        """Call `callback`. An exception stops neither the other handlers nor the broker, as in Kafka."""
        try:
            callback()
        except Exception as error:  # noqa: BLE001  logged with its traceback, and recorded
            self._failed(handler, error)

    def _failed(self, handler: object, error: Exception) -> None:
        name = type(handler).__name__
        log.error("uncaught error in handler", handler=name, exc_info=error)
        self._supervisor.record(f"session handler {name}", error)
