"""What the ZooKeeper contract asks of a subject: sessions, and hands on the wire between a session and its server.

`test_zookeeper.py` runs every case against each subject: `real_subject` (the embedded server, the kazoo adapter and a
small TCP proxy) and `simulated_subject` (the simulator's ZooKeeper in virtual time). A case may only use what is
written here and the port `foundation.zk.client`, so a difference between the two is a difference the product could
meet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeAlias

from foundation.zk.client import Children, Listener, Node, Notification, Stat, WatchFired, WatchKind, ZooKeeperClient

PATIENCE_S = 60.0
"""How long a case waits for something that must come; virtual seconds where time is virtual."""


class Session:
    """A session under test and all it has said so far.

    A `Ground` makes one, hands its `listen` to `ZooKeeper.connect`, and then sets `zk`.
    """

    zk: ZooKeeperClient

    def __init__(self) -> None:
        self.heard: list[Notification] = []
        self._news = asyncio.Event()

    @property
    def listen(self) -> Listener:
        return self._listen

    def _listen(self, notification: Notification) -> None:
        self.heard.append(notification)
        self._news.set()

    @property
    def fired(self) -> list[WatchFired]:
        """The watches among what was heard, in order."""
        return [notification for notification in self.heard if isinstance(notification, WatchFired)]

    async def hears(self, expected: Notification | type[Notification], *, times: int = 1) -> None:
        """Wait until `expected` (a notification, or any of a type) has been heard `times` times."""

        def count() -> int:
            if isinstance(expected, type):
                return sum(isinstance(notification, expected) for notification in self.heard)
            return self.heard.count(expected)

        async with asyncio.timeout(PATIENCE_S):
            while count() < times:
                self._news.clear()
                await self._news.wait()

    async def hears_watch(self, path: str, kind: WatchKind) -> None:
        await self.hears(WatchFired(path, kind))


class Ground(Protocol):
    """Where one case plays: a ZooKeeper of its own (or a corner of one) that is empty when the case begins."""

    async def open(self, *, chroot: str = "") -> Session:
        """Open a session, below `chroot` of this ground (for example `/app`), which is created if it is missing.

        The session timeout is 6,000 ms. Every session has a connection of its own that the following act on.
        """

    async def cut(self, session: Session) -> None:
        """Break the session's connection now, whatever is on it is lost, and let it make no other until `heal`.

        Returns once the session has heard `SessionSuspended`.
        """

    async def part(self, session: Session) -> None:
        """As `cut`, but of the client's end alone: the server keeps its own, and what was held stays on the way to
        it."""

    async def deliver_late(self, session: Session) -> None:
        """What `part` left on the way to the server arrives there now, healed or not."""

    async def heal(self, session: Session) -> None:
        """Let the session connect again. Does not wait until it has."""

    async def hold_requests(self, session: Session) -> None:
        """From now on nothing the client sends arrives; it stays on the way until the connection is cut."""

    async def holds_a_request(self, session: Session) -> None:
        """Wait until something the client has sent since `hold_requests` is on the way."""

    async def hold_answers(self, session: Session) -> None:
        """From now on what the client sends arrives, but nothing comes back; answers are lost when the connection is
        cut."""

    async def expire(self, session: Session) -> None:
        """End the session at the server as if it had timed out there, cut or not; its connection can be made again
        (healed).

        Returns when the server has ended it, whether or not the client knows: a client learns it when it talks to the
        server, and may hear `SessionSuspended` before `SessionExpired`.
        """

    async def connect_refused(self) -> str:
        """Try to open a session where no server answers, with a connection timeout of 700 ms; the message of the
        `ZooKeeperUnreachable` that was raised."""


Case: TypeAlias = Callable[[Ground], Coroutine[Any, Any, None]]


class Subject(Protocol):
    """A kind of ZooKeeper under test. `tests/contracts/conftest.py` lists them."""

    def run(self, case: Case) -> None:
        """Run one case on a fresh ground in this subject's own loop, then close every session the case has opened."""


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
    assert isinstance(node, Node)
    return node.data


async def names_below(zk: ZooKeeperClient, path: str) -> tuple[str, ...]:
    children = await zk.children(path)
    assert isinstance(children, Children)
    return children.names
