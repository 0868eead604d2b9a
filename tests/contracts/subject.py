"""The interface between a case of the ZooKeeper contract and its subject: sessions, and faults of their connections.

Every case runs against two subjects: `real_subject` (the embedded server, the kazoo adapter and a TCP proxy) and
`simulated_subject` (the simulator's ZooKeeper in virtual time). A case uses only this module and the port
`understudy.foundation.zk.client`, so a difference between the subjects is one that the product could meet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

from understudy.foundation.zk.client import (
    Children,
    Listener,
    Notification,
    SessionResumed,
    SessionSuspended,
    Stat,
    WatchFired,
    WatchKind,
    ZNodeData,
    ZooKeeperClient,
)

PATIENCE_S = 60.0
"""How long a case waits for a notification; virtual seconds in the simulator."""

SESSION_TIMEOUT_MS = 30_000
"""Long enough that a machine that stands still for some seconds does not suspend a session by itself."""


class Session:
    """A session under test and the notifications it has received so far.

    An `Ensemble` creates one, passes its `listen` to `ZooKeeper.connect`, and then sets `zk`.
    """

    zk: ZooKeeperClient

    def __init__(self) -> None:
        self.notifications: list[Notification] = []
        self._news = asyncio.Event()

    @property
    def listen(self) -> Listener:
        return self._listen

    def _listen(self, notification: Notification) -> None:
        self.notifications.append(notification)
        self._news.set()

    @property
    def fired(self) -> list[WatchFired]:
        """The watch notifications received so far, in order."""
        return [notification for notification in self.notifications if isinstance(notification, WatchFired)]

    async def wait_for(self, expected: Notification | type[Notification], *, times: int = 1) -> None:
        """Wait until `expected` (a notification, or any of a type) has been received `times` times."""

        def count() -> int:
            if isinstance(expected, type):
                return sum(isinstance(notification, expected) for notification in self.notifications)
            return self.notifications.count(expected)

        async with asyncio.timeout(PATIENCE_S):
            while count() < times:
                self._news.clear()
                await self._news.wait()

    async def wait_until_suspended(self) -> None:
        """Wait until the session has received `SessionSuspended` and no `SessionResumed` since."""
        async with asyncio.timeout(PATIENCE_S):
            while not self._is_suspended():
                self._news.clear()
                await self._news.wait()

    def _is_suspended(self) -> bool:
        of_connection = [n for n in self.notifications if isinstance(n, SessionSuspended | SessionResumed)]
        return bool(of_connection) and isinstance(of_connection[-1], SessionSuspended)

    async def wait_for_watch(self, path: str, kind: WatchKind) -> None:
        await self.wait_for(WatchFired(path, kind))


class Ensemble(Protocol):
    """The ZooKeeper of one case, or a chroot of one, which is empty when the case begins."""

    async def open(self, *, chroot: str = "", session_timeout_ms: int = SESSION_TIMEOUT_MS) -> Session:
        """Open a session, below `chroot` of this ensemble (for example `/app`), which is created if it is missing.

        Every session has a connection of its own, on which the following act.
        """

    async def cut(self, session: Session) -> None:
        """Break the session's connection, losing the messages on it, and refuse new ones until `heal`.

        Returns once the session has received `SessionSuspended`.
        """

    async def cut_client_end(self, session: Session) -> None:
        """As `cut`, but only at the client's end: the server's end stays open, and held requests stay on the way to
        it."""

    async def deliver_held_requests(self, session: Session) -> None:
        """Deliver to the server the requests that were held when `cut_client_end` was called, healed or not."""

    async def heal(self, session: Session) -> None:
        """Let the session connect again. Does not wait until it has."""

    async def hold_requests(self, session: Session) -> None:
        """From now on hold all requests of the client, until the connection is cut."""

    async def wait_for_held_request(self, session: Session) -> None:
        """Wait until a request sent since `hold_requests` is held."""

    async def hold_answers(self, session: Session) -> None:
        """From now on deliver requests but hold the answers, which are lost when the connection is cut."""

    async def expire(self, session: Session) -> None:
        """End the session at the server as if it had timed out there, cut or not, and heal its connection.

        Returns when the server has ended it, which the client may not know yet: it is notified at its next contact with
        the server, and may receive `SessionSuspended` before `SessionExpired`.
        """

    async def connect_refused(self) -> str:
        """Try to open a session where no server answers, with a connection timeout of 700 ms.

        Returns the message of the `ZooKeeperUnreachable` that was raised.
        """


Case: TypeAlias = Callable[[Ensemble], Coroutine[Any, Any, None]]


class Subject(Protocol):
    """A kind of ZooKeeper under test; `tests/contracts/conftest.py` lists them."""

    def run(self, case: Case) -> None:
        """Run one case on a new ensemble in this subject's own loop, and close every session that the case opened."""


def contract(case: Case) -> Callable[[Subject], None]:
    """Turn a case into a test that runs once per subject."""

    def test(subject: Subject) -> None:
        subject.run(case)

    test.__name__ = case.__name__
    test.__doc__ = case.__doc__
    return test


async def stat_of(zk: ZooKeeperClient, path: str) -> Stat:
    stat = await zk.exists(path)
    assert isinstance(stat, Stat)
    return stat


async def data_of(zk: ZooKeeperClient, path: str) -> bytes:
    node = await zk.get(path)
    assert isinstance(node, ZNodeData)
    return node.data


async def names_below(zk: ZooKeeperClient, path: str) -> tuple[str, ...]:
    children = await zk.children(path)
    assert isinstance(children, Children)
    return children.names
