"""The simulator's ZooKeeper as a subject of the contract, in virtual time."""

from __future__ import annotations

import asyncio
import random

from foundation.zk.client import Create, SessionSuspended, ZooKeeperUnreachable
from tests.contracts.subject import PATIENCE_S, Case, Session
from understudy.simulator.loop import SimulatedLoop, new_loop
from understudy.simulator.zookeeper import ServerConnection, SimulatedZooKeeper
from understudy.simulator.zookeeper_client import NodeZooKeeper

_ALL = 1_000
"""More requests than a case has on the way."""


class SimulatedGround:
    """A server of its own; every session is a node with a link of its own."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._server = SimulatedZooKeeper(loop, random=random.Random(1), tick_ms=500)
        self._sessions: list[Session] = []
        self._parted: list[ServerConnection] = []

    async def open(self, *, chroot: str = "") -> Session:
        session = Session()
        parts = chroot.strip("/").split("/") if chroot.strip("/") else []
        for depth in range(len(parts)):
            self._server.tree.transact([Create("/" + "/".join(parts[: depth + 1]))], zxid=0, session_id=0)
        self._sessions.append(session)
        zookeeper = NodeZooKeeper(self._server, self._node(session), session_timeout_ms=6_000, chroot=chroot)
        session.zk = await zookeeper.connect(session.listen)
        return session

    def _node(self, session: Session) -> str:
        return f"session-{self._sessions.index(session)}"

    async def cut(self, session: Session) -> None:
        heard = session.heard.count(SessionSuspended())
        self._server.cut(self._node(session), arriving=0)
        await session.hears(SessionSuspended, times=heard + 1)

    async def part(self, session: Session) -> None:
        heard = session.heard.count(SessionSuspended())
        link = self._server.link(self._node(session))
        link.refusing = True
        # Taken off the link, whose healing would send on what is held.
        self._parted, link.connections = link.connections, []
        for connection in self._parted:
            connection.reset(arriving=_ALL)
        await session.hears(SessionSuspended, times=heard + 1)

    async def deliver_late(self, session: Session) -> None:
        for connection in self._parted:
            connection.flush()

    async def heal(self, session: Session) -> None:
        self._server.heal(self._node(session))

    async def hold_requests(self, session: Session) -> None:
        self._server.hold(self._node(session), requests=True, answers=False)

    async def holds_a_request(self, session: Session) -> None:
        link = self._server.link(self._node(session))
        async with asyncio.timeout(PATIENCE_S):
            while not any(connection._held_up for connection in link.connections):
                await asyncio.sleep(0.01)

    async def hold_answers(self, session: Session) -> None:
        self._server.hold(self._node(session), requests=False, answers=True)

    async def expire(self, session: Session) -> None:
        self._server.expire(session.zk.session_id)
        self._server.heal(self._node(session))

    async def connect_refused(self) -> str:
        self._server.reachable = False
        try:
            await NodeZooKeeper(self._server, "nobody", session_timeout_ms=6_000, connection_timeout_ms=700).connect(
                lambda _: None
            )
        except ZooKeeperUnreachable as refused:
            return str(refused)
        finally:
            self._server.reachable = True
        raise AssertionError("a session was opened although no server answers")

    async def close(self) -> None:
        for session in self._sessions:
            await session.zk.close()


class SimulatedSubject:
    """Runs each case on a fresh server; a task that fails unseen fails the case."""

    name = "simulated"

    def run(self, case: Case) -> None:
        loop = new_loop()

        async def play() -> None:
            ground = SimulatedGround(loop)
            try:
                await case(ground)
            finally:
                await ground.close()

        try:
            loop.run_until_complete(play())
        finally:
            loop.close()
        assert loop.failures == []
