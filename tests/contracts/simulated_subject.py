"""The simulated subject of the contract: the simulator's ZooKeeper and client, in virtual time."""

from __future__ import annotations

import asyncio
import random

from tests.contracts.subject import PATIENCE_S, SESSION_TIMEOUT_MS, Case, Session
from understudy.clusters.simulated.loop import SimulatedLoop, new_loop
from understudy.clusters.simulated.zookeeper import SimulatedZooKeeper
from understudy.clusters.simulated.zookeeper_client import NodeZooKeeper
from understudy.clusters.simulated.zookeeper_connection import ServerConnection
from understudy.foundation.zk.client import Create, ZooKeeperUnreachable

_ALL = 1_000
"""More requests than any case has in flight."""


class SimulatedEnsemble:
    """A simulated server; every session belongs to a node with a link of its own."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._server = SimulatedZooKeeper(loop, random=random.Random(1), tick_ms=2_000)
        self._sessions: list[Session] = []
        self._half_closed: list[ServerConnection] = []

    async def open(self, *, chroot: str = "", session_timeout_ms: int = SESSION_TIMEOUT_MS) -> Session:
        session = Session()
        parts = chroot.strip("/").split("/") if chroot.strip("/") else []
        for depth in range(len(parts)):
            self._server.tree.transact([Create("/" + "/".join(parts[: depth + 1]))], zxid=0, session_id=0)
        self._sessions.append(session)
        zookeeper = NodeZooKeeper(
            self._server, self._node(session), session_timeout_ms=session_timeout_ms, chroot=chroot
        )
        session.zk = await zookeeper.connect(session.listen)
        return session

    def _node(self, session: Session) -> str:
        return f"session-{self._sessions.index(session)}"

    async def cut(self, session: Session) -> None:
        self._server.cut(self._node(session), arriving=0)
        await session.wait_until_suspended()

    async def cut_client_end(self, session: Session) -> None:
        link = self._server.link(self._node(session))
        link.refusing = True
        # Removed from the link, because healing the link would deliver the held requests.
        self._half_closed, link.connections = link.connections, []
        for connection in self._half_closed:
            connection.reset(arriving=_ALL)
        await session.wait_until_suspended()

    async def deliver_held_requests(self, session: Session) -> None:
        for connection in self._half_closed:
            connection.flush()

    async def heal(self, session: Session) -> None:
        self._server.heal(self._node(session))

    async def hold_requests(self, session: Session) -> None:
        self._server.hold(self._node(session), requests=True, answers=False)

    async def wait_for_held_request(self, session: Session) -> None:
        link = self._server.link(self._node(session))
        async with asyncio.timeout(PATIENCE_S):
            while not any(connection._held_requests for connection in link.connections):
                await asyncio.sleep(0.01)

    async def hold_answers(self, session: Session) -> None:
        self._server.hold(self._node(session), requests=False, answers=True)

    async def expire(self, session: Session) -> None:
        self._server.expire(session.zk.session_id)
        self._server.heal(self._node(session))

    async def connect_refused(self) -> str:
        self._server.stop()
        try:
            await NodeZooKeeper(
                self._server, "client", session_timeout_ms=SESSION_TIMEOUT_MS, connection_timeout_ms=700
            ).connect(lambda _: None)
        except ZooKeeperUnreachable as refused:
            return str(refused)
        finally:
            self._server.start()
        raise AssertionError("a session was opened although no server answers")

    async def close(self) -> None:
        for session in self._sessions:
            await session.zk.close()


class SimulatedSubject:
    """Runs each case on a new server; an exception that no task awaits fails the case."""

    name = "simulated"

    def run(self, case: Case) -> None:
        loop = new_loop()

        async def run_case() -> None:
            ensemble = SimulatedEnsemble(loop)
            try:
                await case(ensemble)
            finally:
                await ensemble.close()

        try:
            loop.run_until_complete(run_case())
        finally:
            loop.close()
        assert loop.failures == []
