"""The interface between a case of the contract of ZooKeeper ensembles and its subject, and both subjects.

A case acts on three servers. It runs on the simulator's, and on processes whose links among each other lead through
a proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from tests.contracts.subject import PATIENCE_S, Session
from understudy.clusters.processes.embedded_zookeeper import four_letter_word
from understudy.clusters.processes.proxied_brokers import ProxiedBrokers
from understudy.clusters.processes.zookeeper_ensemble import ZooKeeperEnsemble
from understudy.clusters.simulated.loop import SimulatedLoop, new_loop
from understudy.clusters.simulated.zookeeper import SimulatedZooKeeper
from understudy.clusters.simulated.zookeeper_client import NodeZooKeeper
from understudy.foundation.zk.kazoo_client import KazooZooKeeper

SERVERS: Final = (1, 2, 3)
SESSION_TIMEOUT_MS: Final = 4_000
"""Shorter than the time after which a server notices that it has lost its quorum."""

_CASE_TIMEOUT_S = 180.0
_chroots = itertools.count(1)


class Servers(Protocol):
    """Three servers, all of which run and reach each other when a case begins and when it ends."""

    async def open(self, *servers: int) -> Session:
        """Open a session whose connect string has these servers."""

    async def cut(self, server: int) -> None:
        """Hold everything between a server and the others. Clients reach it as before."""

    async def heal(self, server: int) -> None:
        """End the cut of a server."""

    async def kill(self, server: int) -> None: ...

    async def start(self, server: int) -> None: ...

    async def wait_until_silent(self, server: int) -> None:
        """Wait until a server has noticed that it has lost its quorum, and serves no client."""


Case: TypeAlias = Callable[[Servers], Coroutine[Any, Any, None]]


class ServersSubject(Protocol):
    def run(self, case: Case) -> None:
        """Run one case in this subject's own loop, close its sessions, and make the ensemble whole again."""


class _SimulatedServers:
    def __init__(self, loop: SimulatedLoop) -> None:
        self.zookeeper = SimulatedZooKeeper(loop, random=random.Random(1), servers=len(SERVERS))
        self.sessions: list[Session] = []

    async def open(self, *servers: int) -> Session:
        session = Session()
        node = f"session-{len(self.sessions)}"
        self.sessions.append(session)
        client = NodeZooKeeper(self.zookeeper, node, session_timeout_ms=SESSION_TIMEOUT_MS, servers=servers)
        session.zk = await client.connect(session.listen)
        return session

    async def cut(self, server: int) -> None:
        for other in set(SERVERS) - {server}:
            self.zookeeper.quorum.cut(server, other)

    async def heal(self, server: int) -> None:
        for other in set(SERVERS) - {server}:
            self.zookeeper.quorum.heal(server, other)

    async def kill(self, server: int) -> None:
        self.zookeeper.stop(server)

    async def start(self, server: int) -> None:
        self.zookeeper.start(server)

    async def wait_until_silent(self, server: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.zookeeper.servers[server].is_serving:
                await asyncio.sleep(0.1)


class SimulatedServersSubject:
    """Runs each case on a new ensemble; an exception that no task awaits fails the case."""

    def run(self, case: Case) -> None:
        loop = new_loop()

        async def run_case() -> None:
            servers = _SimulatedServers(loop)
            try:
                await case(servers)
            finally:
                for session in servers.sessions:
                    await session.zk.close()

        try:
            loop.run_until_complete(run_case())
        finally:
            loop.close()
        assert loop.failures == []


class _RealServers:
    def __init__(self, ensemble: ZooKeeperEnsemble, proxy: ProxiedBrokers, chroot: str) -> None:
        self.sessions: list[Session] = []
        self._ensemble = ensemble
        self._proxy = proxy
        self._chroot = chroot

    async def open(self, *servers: int) -> Session:
        session = Session()
        hosts = ",".join(self._ensemble.servers[number].connect_string for number in servers)
        client = KazooZooKeeper(
            hosts + self._chroot,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            connection_timeout_ms=round(PATIENCE_S * 1000),
        )
        session.zk = await client.connect(session.listen)
        self.sessions.append(session)
        return session

    async def cut(self, server: int) -> None:
        self._proxy.hold(_links(server))

    async def heal(self, server: int) -> None:
        self._proxy.release(_links(server))

    async def kill(self, server: int) -> None:
        self._ensemble.kill(server)

    async def start(self, server: int) -> None:
        await asyncio.to_thread(self._ensemble.start, server)

    async def wait_until_silent(self, server: int) -> None:
        host, _, port = self._ensemble.servers[server].connect_string.rpartition(":")
        async with asyncio.timeout(PATIENCE_S):
            while "Mode:" in await asyncio.to_thread(four_letter_word, host, int(port), "srvr"):
                await asyncio.sleep(0.1)


def _links(server: int) -> list[tuple[str, str]]:
    own = f"zookeeper-{server}"
    others = [f"zookeeper-{other}" for other in SERVERS if other != server]
    return [*((own, other) for other in others), *((other, own) for other in others)]


class RealServersSubject:
    """Runs each case below a chroot of its own on one ensemble of processes."""

    def __init__(self, ensemble: ZooKeeperEnsemble, proxy: ProxiedBrokers) -> None:
        self._ensemble = ensemble
        self._proxy = proxy

    @classmethod
    @contextlib.contextmanager
    def started(cls, folder: Path) -> Iterator[RealServersSubject]:
        ensemble = ZooKeeperEnsemble.embedded(folder, len(SERVERS), None)
        proxy = ProxiedBrokers((), ensemble.connect_string, {})
        try:
            ensemble.connect_through(proxy.connect_peers(ensemble.peer_ports))
            ensemble.start()
            yield cls(ensemble, proxy)
        finally:
            ensemble.stop()
            proxy.stop()

    def run(self, case: Case) -> None:
        async def run_case() -> None:
            servers = _RealServers(self._ensemble, self._proxy, f"/contract-{next(_chroots)}")
            try:
                async with asyncio.timeout(_CASE_TIMEOUT_S):
                    await case(servers)
            finally:
                for server in SERVERS:
                    await servers.heal(server)
                await asyncio.to_thread(self._ensemble.start)
                for session in servers.sessions:
                    await session.zk.close()

        asyncio.run(run_case())
